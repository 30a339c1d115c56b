#include "dividing.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "io/partial.h"
#include "print.h"
#include "regauge/base/error.h"

namespace regauge::cli {
namespace {

constexpr std::int64_t kMostParts = 1'000'000;

// "3/16"
std::optional<Parts::Share> share_from(const std::string& text) {
  Parts::Share share;
  const char* const end = text.data() + text.size();
  const auto [slash, error] = std::from_chars(text.data(), end, share.part);
  if (error != std::errc() || slash == end || *slash != '/') return std::nullopt;
  const auto [last, error_of] = std::from_chars(slash + 1, end, share.of);
  if (error_of != std::errc() || last != end) return std::nullopt;
  if (share.part < 1 || share.part > share.of || share.of > kMostParts) return std::nullopt;
  return share;
}

// A part, or all that lie in a folder.
std::vector<std::filesystem::path> parts_at(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(path) || fs::exists(path / kRecord)) return {path};
  std::vector<fs::path> parts;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (!entry.path().filename().string().starts_with('.')) parts.push_back(entry.path());
  }
  std::sort(parts.begin(), parts.end());
  if (parts.empty()) throw UsageError(fmt::format("[parts] {} holds no part", path.string()));
  return parts;
}

std::string is_share(const std::string& text) {
  return share_from(text) ? "" : fmt::format("'{}' is not K/N with K from 1 to N", text);
}

}  // namespace

void Dividing::declare(CLI::App& verb) {
  auto* part = verb.add_option("--part", part_,
                               "do the K-th of N parts of the work, which `--join` puts together; "
                               "its record goes to -o")
                   ->type_name("K/N")
                   ->check(is_share);
  auto* join = verb.add_option("--join", join_,
                               "put the records of all parts together, or of those in a folder; "
                               "the answer is that of one run, and what no part did is done here")
                   ->type_name("PART...")
                   ->excludes(part);
  verb.add_option("--after", after_,
                  "the records of an earlier round of parts: this one goes on where they end")
      ->type_name("PART...")
      ->needs(part)
      ->excludes(join);
}

const std::vector<PartRecord>& Dividing::records() const {
  if (records_) return *records_;
  records_.emplace();
  for (const auto* list : {&join_, &after_}) {
    for (const auto& path : *list) {
      for (const auto& part : parts_at(path)) records_->push_back(read_part(part));
    }
  }
  return *records_;
}

void Dividing::find_arguments(const std::vector<std::string*>& paths) const {
  if (is_join()) {
    const auto known = paths_in(records().front().asked);
    for (std::size_t i = 0; i < paths.size() && i < known.size(); ++i) {
      if (paths[i]->empty()) *paths[i] = known[i];
    }
  }
  for (const auto* path : paths) {
    if (path->empty()) {
      throw UsageError(
          fmt::format("{0}: {1} {2} to be named; see regauge {0} --help", verb_, paths.size(),
                      paths.size() == 1 ? "file or folder is" : "files or folders are"));
    }
  }
}

void Dividing::begin(nlohmann::json options,
                     const std::vector<std::pair<std::string, const Checkpoint*>>& models,
                     Progress& progress) {
  progress_ = &progress;
  if (!is_part() && !is_join()) return;
  nlohmann::json asked = asked_of(verb_, std::move(options), models);
  parts_.emplace(is_part() ? Parts::part(*share_from(part_), std::move(asked), records())
                           : Parts::join(std::move(asked), records(), Parts::Rest::work));
  progress_ = &divided_.emplace(progress, *parts_);
}

const nlohmann::json& Dividing::options() const { return records().front().asked.at("options"); }

void Dividing::make_part(const std::function<void()>& work, const std::string& path) const {
  if (path.empty()) throw UsageError(fmt::format("{}: say where the part goes: -o PART", verb_));
  const auto share = [&] {
    work();
    return true;
  };
  static_cast<void>(unless_others_find(share));  // its record says what was found
  write_part(parts_->own(), path);
  say_done(path);
}

void Dividing::make_part_folder(const Writes& work, const std::string& path) const {
  if (path.empty()) throw UsageError(fmt::format("{}: say where the part goes: -o PART", verb_));
  const PartRecord& own = parts_->own();
  if (std::filesystem::exists(std::filesystem::path(path) / kRecord)) {
    const PartRecord there = read_part(path);
    if (there.asked == own.asked && there.part == own.part && there.of == own.of) {
      say("{}: part {} of {} is there already\n", path, own.part, own.of);
      return;
    }
  }
  io::PartialPath folder(path, true);
  work(folder.path());
  write_part(own, folder.path() / kRecord);
  folder.commit();
  say_done(path);
}

void Dividing::say_done(const std::string& path) const {
  const PartRecord& record = parts_->own();
  if (record.is_empty()) {
    say("{}: nothing is left for parts; regauge {} --join\n", path, verb_);
    return;
  }
  std::size_t units = 0, all = 0;
  for (const auto& [name, loop] : record.loops) {
    units += loop.results.size();
    all += static_cast<std::size_t>(loop.units);
  }
  say("{}: part {} of {}, {} of {} units of work\n", path, record.part, record.of, units, all);
}

}  // namespace regauge::cli
