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

// A model whose coordinates cannot be changed or compared as asked: a gain that is 0, a constant
// that nothing can take up. The request is sound; for this model there is no answer.
class NoStandardForm : public UsageError {
 public:
  using UsageError::UsageError;
};

// The user asked a long job to stop.
class Cancelled : public Error {
 public:
  Cancelled() : Error("cancelled") {}
};

}  // namespace regauge
