#pragma once

#include "regauge/base/progress.h"
#include "regauge/connect/experiment.h"

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
  // Trains and measures what is missing until nothing is. A piece of work is done by who holds its
  // lock in the folder: several may run at once, on several machines where the file system has
  // flock. What fails, and what needs it, is left out: the pieces that failed here, and why.
  std::map<std::string, std::string> run(int threads, Progress& progress) const;

 private:
  bool has(const std::string& path) const;

  Experiment experiment_;
  std::filesystem::path folder_;
};

}  // namespace regauge::connect
