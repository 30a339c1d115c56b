#include "regauge/lab/data.h"

#include <fmt/ranges.h>

#include <array>
#include <cstdlib>
#include <utility>

#include "request.h"

namespace regauge::lab {
namespace {

using Open = std::unique_ptr<Data> (*)(const Request&);

constexpr std::array<std::pair<const char*, Open>, 8> kKinds{{{"bytes", open_bytes},
                                                              {"tokens", open_tokens},
                                                              {"text", open_text},
                                                              {"idx", open_idx},
                                                              {"cifar", open_cifar},
                                                              {"clinc", open_clinc},
                                                              {"csv", open_csv},
                                                              {"wav", open_wav}}};

// $NAME at its beginning is replaced by what the environment has under that name.
std::string expanded(const std::string& path) {
  if (!path.starts_with('$')) return path;
  const auto end = std::min(path.find('/'), path.size());
  const std::string name = path.substr(1, end - 1);
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) {
    throw UsageError(fmt::format("[data] {}: set {} to the folder of the data", path, name));
  }
  return value + path.substr(end);
}

}  // namespace

std::int64_t sequence_length(const Request& request) {
  const Architecture& a = request.architecture;
  const std::int64_t class_tokens = a.placed_rows();
  const std::int64_t room = a.max_positions - class_tokens;
  const std::int64_t length = request.length != 0 ? request.length : room;
  if (length <= 0 || length >= std::int64_t{1} << 31) {
    throw request.refusal(
        fmt::format("{} positions; give a length, or an architecture with max_positions", length));
  }
  if (a.has_position_table() && length > room) {
    throw request.refusal(fmt::format(
        "{} positions{} need max_positions of at least {}, this architecture has {}", length,
        a.class_token ? " and the class token" : "", length + class_tokens, a.max_positions));
  }
  return length;
}

void require(const Request& request, Input input, Output output) {
  const Architecture& a = request.architecture;
  if (a.input != input) {
    throw request.refusal(
        fmt::format("input must be '{}'", input == Input::tokens ? "tokens" : "vectors"));
  }
  if (a.output != output || a.classes_everywhere || a.distillation_head || a.has_contacts()) {
    throw request.refusal(
        fmt::format("output must be '{}'", output == Output::tokens ? "tokens" : "classes"));
  }
  if (!a.beside.empty()) {
    throw request.refusal("there must be no model beside: it would read other data");
  }
  if (a.encoder_layers > 0) {
    throw request.refusal("encoder_layers must be 0: there is no second sequence to encode");
  }
  if (output == Output::tokens && !a.causal) {
    throw request.refusal(
        "causal must be true: the next token is the target, and this architecture sees it");
  }
}

std::unique_ptr<Data> open_data(const std::string& spec, const Architecture& architecture,
                                Split split, std::int64_t length, const std::string& tokenizer) {
  const std::size_t colon = spec.find(':');
  const std::string kind = spec.substr(0, colon);
  for (const auto& [name, open] : kKinds) {
    if (colon == std::string::npos || kind != name) continue;
    const Request request{
        kind, expanded(spec.substr(colon + 1)), architecture, split, length, expanded(tokenizer)};
    if (tokenizer.empty() == (open == open_text)) {
      throw request.refusal(tokenizer.empty()
                                ? "a text needs a tokenizer: llama2.c's .bin, or a .vocab"
                                : "a tokenizer is for 'text:' alone");
    }
    auto data = open(request);
    if (data->size() < 1) throw request.refusal("there are no examples in this part of the data");
    return data;
  }
  std::vector<const char*> names;
  for (const auto& [name, open] : kKinds) names.push_back(name);
  throw UsageError(fmt::format("[data] '{}' is not KIND:PATH with a kind among {}", spec,
                               fmt::join(names, ", ")));
}

}  // namespace regauge::lab
