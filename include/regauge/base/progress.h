#pragma once

#include <cstdint>
#include <string>

namespace regauge {

// Told by long loops how far they are; cancels them by throwing Cancelled from advance(). The
// default is silent and never cancels.
class Progress {
 public:
  virtual ~Progress() = default;
  // A job of `total` units begins; units are bytes unless the job says otherwise.
  virtual void start(const std::string& what, std::int64_t total) {
    (void)what;
    (void)total;
  }
  virtual void advance(std::int64_t units) { (void)units; }
  virtual void finish() {}

  static Progress& silent();
};

}  // namespace regauge
