#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/jobs.h"
#include "part_record.h"
#include "regauge/base/progress.h"

namespace regauge {

// Work of which several processes do a part each (docs/adr/0014-parts-are-records-of-units.md).
// What is divided are loops over units (tensors, layers, files). A part does its share of the units
// and records what each gave; whoever has the records of all parts reads them in place of the work.
class Parts {
 public:
  struct Share {
    std::int64_t part = 1, of = 1;  // from 1 on
  };
  // What a loop that no earlier part did means to a process that is no part itself.
  enum class Rest {
    work,  // it does all units
    stop   // it throws LoopLeft
  };
  // Thrown by a part where it needs what other parts find.
  class ShareDone : public std::exception {};
  // Thrown where Rest::stop says so.
  class LoopLeft : public std::exception {};

  // `made` are the records of earlier parts, which must fit together and to `asked`: UsageError.
  static Parts part(Share share, nlohmann::json asked, std::vector<PartRecord> made);
  static Parts join(nlohmann::json asked, std::vector<PartRecord> made, Rest rest);

  // What this process has to do of a loop: nothing if all results are there.
  struct Turn {
    std::string loop;
    std::vector<nlohmann::json> results;
    std::vector<std::string> sources;  // the files of their records
    std::vector<std::int64_t> units;
    bool is_all = true;  // units, or results, are those of the whole loop
  };
  // A loop of the name may be begun several times. Throws UsageError if only some parts did it.
  Turn begin(const std::string& loop, std::span<const std::int64_t> sizes);
  void record(const Turn& turn, std::int64_t unit, nlohmann::json result);

  // What this process did.
  const PartRecord& own() const { return own_; }

 private:
  Parts(Share share, nlohmann::json asked, std::vector<PartRecord> made);
  // Whether all parts did the loop; false if none did.
  bool find_results(std::int64_t units, Turn& turn) const;

  std::vector<PartRecord> made_;
  PartRecord own_;
  bool is_part_ = false;
  Rest rest_ = Rest::work;
  std::map<std::string, int> begun_;
};

// The units that a part does: a stretch of about as many bytes, or whatever sizes are, as those of
// the other parts.
std::vector<std::int64_t> units_of(Parts::Share share, std::span<const std::int64_t> sizes);

// A progress whose loops are divided.
class DividedProgress : public Progress {
 public:
  DividedProgress(Progress& outer, Parts& parts) : outer_(outer), parts_(parts) {}

  void start(const std::string& what, std::int64_t total) override { outer_.start(what, total); }
  void advance(std::int64_t units) override { outer_.advance(units); }
  void finish() override { outer_.finish(); }
  int jobs() const override { return outer_.jobs(); }
  Parts* parts() const override { return &parts_; }

 private:
  Progress& outer_;
  Parts& parts_;
};

// for_each_job(), divided where the progress says so. What work(i, progress) gives must have
// to_json and from_json, which lose nothing. Throws ShareDone in a part, where other parts find the
// rest of the results.
template <class Work, class Keep>
void for_each_unit(const std::string& loop, std::span<const std::int64_t> sizes, Progress& progress,
                   const Work& work, const Keep& keep) {
  using Result = std::invoke_result_t<const Work&, std::int64_t, Progress&>;
  Parts* parts = progress.parts();
  if (parts == nullptr) return for_each_job(std::ssize(sizes), progress, work, keep);
  const Parts::Turn turn = parts->begin(loop, sizes);
  for (std::size_t i = 0; i < turn.results.size(); ++i) {
    keep(static_cast<std::int64_t>(i), result_in<Result>(turn.results[i], turn.loop));
  }
  const auto unit = [&](std::int64_t i) { return turn.units[static_cast<std::size_t>(i)]; };
  for_each_job(
      std::ssize(turn.units), progress,
      [&](std::int64_t i, Progress& own) { return work(unit(i), own); },
      [&](std::int64_t i, Result result) {
        if (turn.is_all) {
          keep(unit(i), std::move(result));
        } else {
          parts->record(turn, unit(i), result);
        }
      });
  if (!turn.is_all) throw Parts::ShareDone();
}

// What `find` gives, or nothing where that takes what other parts find. Whoever goes on without it
// throws ShareDone before he begins a loop that depends on it.
template <class Find>
std::optional<std::invoke_result_t<const Find&>> unless_others_find(const Find& find) try {
  return find();
} catch (const Parts::ShareDone&) {
  return std::nullopt;
}

}  // namespace regauge
