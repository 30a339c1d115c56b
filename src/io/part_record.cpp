#include "part_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "corrupt.h"
#include "io/file_bytes.h"
#include "json.h"
#include "partial.h"
#include "regauge/base/version.h"
#include "sha256.h"

namespace regauge {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;
constexpr const char* kWhat = "regauge part";
constexpr std::array<const char*, 3> kModels = {"A", "B", "certificate"};
constexpr std::size_t kMostBytes = std::size_t{1} << 32;
// What is hashed of a file: its beginning, where headers are, and pages, kPages of a model.
constexpr std::size_t kHead = std::size_t{1} << 16;
constexpr std::size_t kPage = std::size_t{1} << 12;
constexpr std::size_t kPages = 64;

std::string digest_of(const json& value) {
  Sha256 hash;
  const std::string text = value.dump();
  hash.add(std::as_bytes(std::span(text)));
  return hash.finish();
}

json files_of(const Checkpoint& checkpoint) {
  const auto opened = checkpoint.opened_files();
  if (opened.empty()) {
    throw UsageError(
        "[parts] a model in memory cannot be divided: other processes do not have it; write it "
        "first");
  }
  const std::size_t pages = std::max<std::size_t>(1, kPages / opened.size());
  json files = json::object();
  for (const auto& [name, bytes] : opened) {
    files[name] = mark_of(bytes, pages);
  }
  return files;
}

[[noreturn]] void damaged(const std::string& shown, const std::string& what) {
  throw CorruptFile(Corruption::bad_header,
                    fmt::format("[parts] {}: {}; make the part again", shown, what));
}

json loops_as_json(const PartRecord& record) {
  json loops = json::object();
  for (const auto& [name, loop] : record.loops) {
    json results = json::object();
    for (const auto& [unit, result] : loop.results) results[std::to_string(unit)] = result;
    loops[name] = {{"units", loop.units}, {"results", results}};
  }
  return loops;
}

std::int64_t whole_number(const std::string& text) {
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : -1;
}

PartRecord record_from(const json& file, const std::string& shown) {
  PartRecord record;
  record.shown = shown;
  record.asked = file.at("asked");
  record.part = file.at("part").get<std::int64_t>();
  record.of = file.at("of").get<std::int64_t>();
  if (record.part < 1 || record.part > record.of) {
    damaged(shown, fmt::format("part {} of {}", record.part, record.of));
  }
  for (const auto& [name, loop] : file.at("loops").items()) {
    PartRecord::Loop& made = record.loops[name];
    made.units = loop.at("units").get<std::int64_t>();
    for (const auto& [number, result] : loop.at("results").items()) {
      const std::int64_t unit = whole_number(number);
      if (unit < 0 || unit >= made.units) {
        damaged(shown, fmt::format("'{}' has no unit {}", name, number));
      }
      made.results[unit] = result;
    }
  }
  return record;
}

}  // namespace

json mark_of(const ByteRange& file, std::size_t pages) {
  Sha256 hash;
  const auto add = [&](std::size_t offset, std::size_t length) {
    hash.add(file.bytes(offset, length));
  };
  add(0, std::min(kHead, file.size()));
  for (std::size_t i = 1; i <= pages && file.size() > kHead; ++i) {
    const std::size_t end = i == pages ? file.size() : kHead + (file.size() - kHead) / pages * i;
    add(end - kPage, kPage);
  }
  return {{"bytes", file.size()}, {"sampled_sha256", hash.finish()}};
}

json mark_of_file(const std::filesystem::path& path) {
  return mark_of(io::open_bytes(path)->all(), kPages);
}

std::string part_text(const PartRecord& record) {
  json file = {{kWhat, kFormat},
               {"asked", record.asked},
               {"part", record.part},
               {"of", record.of},
               {"loops", loops_as_json(record)}};
  file["sha256"] = digest_of(file);
  return file.dump(1) + "\n";
}

PartRecord part_from_text(const std::string& text, const std::string& shown) {
  json file = io::parse_json_object(text, "[parts] " + shown);
  const auto format = file.find(kWhat);
  if (format == file.end()) {
    throw UsageError(fmt::format("[parts] {} is no part; `--part` of a verb writes one", shown));
  }
  if (*format != kFormat) {
    throw UsageError(
        fmt::format("[parts] {} was written in format {} of parts, and this program reads {}",
                    shown, format->dump(), kFormat));
  }
  try {
    const json digest = file.at("sha256");
    file.erase("sha256");
    if (digest != digest_of(file)) damaged(shown, "its own hash does not fit");
    return record_from(file, shown);
  } catch (const json::exception&) {
    damaged(shown, "it is not what a part holds");
  }
}

PartRecord read_part(const std::filesystem::path& path) {
  const std::string shown = path.string();
  const std::string text =
      io::read_text(std::filesystem::is_directory(path) ? path / kRecord : path, kMostBytes);
  return part_from_text(text, shown);
}

void write_part(const PartRecord& record, const std::filesystem::path& path) {
  const std::string text = part_text(record);
  if (std::filesystem::exists(path)) {
    // A part that is made again, because nobody knew that it was made.
    if (part_text(read_part(path)) == text) return;
    throw UsageError(fmt::format(
        "[parts] {} is there already and says something else; remove it or choose another name",
        path.string()));
  }
  io::write_new(path, text);
}

json asked_of(const std::string& verb, json options,
              const std::vector<std::pair<std::string, const Checkpoint*>>& models) {
  json list = json::array();
  for (const auto& [path, checkpoint] : models) {
    list.push_back({{"path", path}, {"files", files_of(*checkpoint)}});
  }
  return {
      {"version", version()}, {"verb", verb}, {"options", std::move(options)}, {"models", list}};
}

std::vector<std::string> paths_in(const json& asked) try {
  std::vector<std::string> paths;
  for (const auto& model : asked.at("models")) paths.push_back(model.at("path"));
  return paths;
} catch (const json::exception&) {
  throw UsageError("[parts] a part does not say which models it is about; make it again");
}

void require_one_run(const std::vector<PartRecord>& parts, const json& asked) try {
  const auto fail = [](const PartRecord& part, const std::string& what) {
    throw UsageError(fmt::format("[parts] {} does not belong here: {}", part.shown, what));
  };
  for (const auto& part : parts) {
    for (const char* key : {"version", "verb", "options"}) {
      if (part.asked.at(key) == asked.at(key)) continue;
      fail(part, fmt::format("its {} is {}, and here it is {}", key, part.asked.at(key).dump(),
                             asked.at(key).dump()));
    }
    const json &there = part.asked.at("models"), &here = asked.at("models");
    if (there.size() != here.size()) fail(part, "it is about another number of models");
    for (std::size_t i = 0; i < here.size(); ++i) {
      if (there[i].at("files") == here[i].at("files")) continue;
      fail(part, fmt::format("it was made of another {}, by the hashes of its files",
                             here.size() == 1 ? "model" : kModels.at(i)));
    }
    if (part.of != parts.front().of) {
      fail(part, fmt::format("it is one of {} parts, and {} is one of {}", part.of,
                             parts.front().shown, parts.front().of));
    }
  }
} catch (const json::exception&) {
  throw UsageError("[parts] a part does not say what was asked; make it again");
}

json number_as_json(double number) {
  if (std::isfinite(number)) return number;
  return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
}

double number_from_json(const json& value) {
  if (!value.is_string()) return value.get<double>();
  const auto text = value.get<std::string>();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return text == "inf" ? kInfinity : text == "-inf" ? -kInfinity : std::nan("");
}

}  // namespace regauge
