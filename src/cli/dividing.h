#pragma once

#include <CLI/CLI.hpp>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/parts.h"
#include "regauge/base/progress.h"

namespace regauge::cli {

// What the verbs share whose work several processes may do: `--part K/N` with `--after`, and
// `--join`.
class Dividing {
 public:
  // `verb` is how the answer calls it.
  explicit Dividing(std::string verb) : verb_(std::move(verb)) {}
  void declare(CLI::App& verb);

  bool is_part() const { return !part_.empty(); }
  bool is_join() const { return !join_.empty(); }
  // The files that are named, else those that the parts were made of. Throws UsageError without
  // either.
  void find_arguments(const std::vector<std::string*>& paths) const;
  // The progress of an undivided run, of a part or of the join. `options` are those that change
  // the answer.
  void begin(nlohmann::json options,
             const std::vector<std::pair<std::string, const Checkpoint*>>& models,
             Progress& progress);
  Progress& progress() const { return *progress_; }
  Parts* parts() const { return parts_ ? &*parts_ : nullptr; }
  // What was asked of the parts that are joined.
  const nlohmann::json& options() const;
  // Does a part's share of `work`, writes its record to `path`, and says so.
  void make_part(const std::function<void()>& work, const std::string& path) const;
  // The same where work(folder) writes files, which lie beside the record in the folder `path`.
  using Writes = std::function<void(const std::filesystem::path& folder)>;
  void make_part_folder(const Writes& work, const std::string& path) const;

 private:
  void say_done(const std::string& path) const;
  const std::vector<PartRecord>& records() const;

  std::string verb_, part_;
  std::vector<std::string> join_, after_;
  mutable std::optional<std::vector<PartRecord>> records_;
  mutable std::optional<Parts> parts_;  // grows as work is done
  std::optional<DividedProgress> divided_;
  Progress* progress_ = nullptr;
};

}  // namespace regauge::cli
