#pragma once

#include <string>

#include "regauge/arch/parameter_source.h"
#include "regauge/base/progress.h"

namespace regauge {

// A progress that allows one job.
class OneJob : public Progress {
 public:
  explicit OneJob(Progress& outer) : outer_(outer) {}

  void start(const std::string& what, std::int64_t total) override { outer_.start(what, total); }
  void advance(std::int64_t units) override { outer_.advance(units); }
  void finish() override { outer_.finish(); }
  Parts* parts() const override { return outer_.parts(); }

 protected:
  Progress& outer_;
};

// The progress of work that reads these sources. Patches may keep what they made last and are asked
// by one thread at a time.
class Reading final : public OneJob {
 public:
  template <class... Sources>
  explicit Reading(Progress& outer, const Sources&... sources)
      : OneJob(outer), patched_((!sources.patches().empty() || ...)) {}

  int jobs() const override { return patched_ ? 1 : outer_.jobs(); }

 private:
  bool patched_;
};

}  // namespace regauge
