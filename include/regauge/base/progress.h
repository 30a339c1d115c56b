#pragma once

#include <cstdint>
#include <string>

namespace regauge {

class Parts;

// Told by long loops how far they are; cancels them by throwing Cancelled from advance(), and says
// on how many threads they may run. It is only ever called by the thread that was given it. The
// default is silent, never cancels, and allows one thread.
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
  // Layers, or tensors, that are worked on at a time. No result depends on it.
  virtual int jobs() const { return 1; }
  // Where loops are divided among processes, who says so; null where they are not.
  virtual Parts* parts() const { return nullptr; }

  static Progress& silent();
};

}  // namespace regauge
