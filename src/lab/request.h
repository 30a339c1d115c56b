#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "regauge/base/error.h"
#include "regauge/lab/data.h"

namespace regauge::lab {

// What open_data was asked for.
struct Request {
  std::string kind;
  std::filesystem::path path;
  const Architecture& architecture;
  Split split;
  std::int64_t length;  // 0: as the architecture has it
  std::filesystem::path tokenizer;

  // Begins every message.
  std::string where() const { return fmt::format("[{}] {}", kind, path.string()); }
  UsageError refusal(const std::string& reason) const {
    return UsageError(fmt::format("{}: {}", where(), reason));
  }
};

// The positions of one example. Throws UsageError where the architecture has fewer.
std::int64_t sequence_length(const Request& request);

// Refuses an architecture that does not map inputs of this kind to such outputs, or that sees the
// token which it is to predict.
void require(const Request& request, Input input, Output output);

std::unique_ptr<Data> open_bytes(const Request& request);
std::unique_ptr<Data> open_tokens(const Request& request);
std::unique_ptr<Data> open_text(const Request& request);
std::unique_ptr<Data> open_idx(const Request& request);
std::unique_ptr<Data> open_cifar(const Request& request);
std::unique_ptr<Data> open_clinc(const Request& request);
std::unique_ptr<Data> open_csv(const Request& request);
std::unique_ptr<Data> open_wav(const Request& request);

}  // namespace regauge::lab
