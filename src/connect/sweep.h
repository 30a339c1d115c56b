#pragma once

#include <functional>

#include "experiment.h"
#include "regauge/base/progress.h"

namespace regauge::connect {

// An experiment and the folder that holds what is done of it: models/ and records/. What is whole
// has its final name; what was interrupted goes on.
class Sweep {
 public:
  // Throws UsageError for training settings that are none, and if the folder holds a model or a
  // record of other settings than the experiment's.
  Sweep(Experiment experiment, std::filesystem::path folder);

  // Models and records.
  std::int64_t done() const;
  std::int64_t total() const;
  // What failed before may be tried again.
  void forget_failures() const;
  // Told of a piece of work that failed: its path in the folder, and why.
  using OnFailure = std::function<void(const std::string& piece, const std::string& why)>;
  // Trains and measures what is missing until nothing is. A piece of work is done by who holds its
  // lock in the folder: several may run at once, on several machines where the file system has
  // flock. What fails, and what needs it, is left out by all of them.
  void run(int threads, Progress& progress, const OnFailure& on_failure) const;

 private:
  bool has(const std::string& path) const;
  std::filesystem::path failure(const std::string& piece) const;  // there if the piece failed

  Experiment experiment_;
  std::filesystem::path folder_;
};

}  // namespace regauge::connect
