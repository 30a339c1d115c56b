#pragma once

#include <nanobind/nanobind.h>

#include <chrono>

#include "regauge/base/error.h"
#include "regauge/base/progress.h"

namespace regauge::python {

namespace nb = nanobind;

// Calls callback(what, done, total) some ten times a second, and stops the work on Ctrl-C or when
// the callback raises. For use while the interpreter is released.
class CallbackProgress : public Progress {
 public:
  explicit CallbackProgress(nb::object callback) : callback_(std::move(callback)) {}
  ~CallbackProgress() override {
    const nb::gil_scoped_acquire held;
    callback_.reset();
  }
  CallbackProgress(const CallbackProgress&) = delete;
  CallbackProgress& operator=(const CallbackProgress&) = delete;

  void start(const std::string& what, std::int64_t total) override {
    what_ = what;
    total_ = total;
    done_ = 0;
    report();
  }
  void advance(std::int64_t units) override {
    done_ += units;
    if (Clock::now() - reported_ >= std::chrono::milliseconds(100)) report();
  }
  void finish() override {
    done_ = total_;
    report();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void report() {
    reported_ = Clock::now();
    const nb::gil_scoped_acquire held;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!callback_.is_none()) callback_(what_, done_, total_);
  }

  nb::object callback_;
  std::string what_;
  std::int64_t total_ = 0;
  std::int64_t done_ = 0;
  Clock::time_point reported_;
};

// Runs `work(progress)` without holding the interpreter.
template <class Work>
auto released(const nb::object& callback, Work work) {
  CallbackProgress progress(callback);
  const nb::gil_scoped_release free;
  return work(progress);
}

}  // namespace regauge::python
