#pragma once

#include <stdexcept>
#include <string>

#include "regauge/base/printable.h"

namespace regauge {

// Everything the library throws. The message says where, what was expected, what was found and what
// to do: "[safetensors] model.safetensors: tensor 'x': ...". The library never prints or exits. A
// message may quote names and paths that somebody else chose: it is made printable.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(printable_lines(message)) {}
};

// A file that cannot be opened, read or written.
class FileError : public Error {
 public:
  using Error::Error;
};

// An argument, a description or a request that cannot be carried out as asked.
class UsageError : public Error {
 public:
  using Error::Error;
};

// The user asked a long job to stop.
class Cancelled : public Error {
 public:
  Cancelled() : Error("cancelled") {}
};

}  // namespace regauge
