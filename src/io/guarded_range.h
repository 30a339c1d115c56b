#pragma once

#include <cstddef>

namespace regauge::io {

struct GuardSlot;

// A mapped file that another process may shorten. Reading a page that the file no longer has raises
// SIGBUS, which ends a process. While a GuardedRange lives, such a page and all behind it in the
// range become zeros instead, and lost() is true from then on: whoever has read from the range asks
// it before he relies on what he read.
//
// The first range installs a handler of SIGBUS for the process. Faults elsewhere go to the handler
// that was there before, or end the process as they did. A handler that a program installs later
// has to pass on what it does not know.
class GuardedRange {
 public:
  GuardedRange(const void* begin, std::size_t length);
  ~GuardedRange();
  GuardedRange(const GuardedRange&) = delete;
  GuardedRange& operator=(const GuardedRange&) = delete;

  bool lost() const;

 private:
  GuardSlot* slot_;
};

}  // namespace regauge::io
