#include "directions.h"

#include <string>

#include "regauge/base/version.h"
#include "regauge/equivalence/sha256.h"

namespace regauge {
namespace {

constexpr std::size_t kHashed = std::size_t{1} << 24;  // bytes between two signs of progress

void add_text(Sha256& hash, const std::string& text) {
  hash.add(std::as_bytes(std::span(text)));
}

void add_numbers(Sha256& hash, const Checkpoint& checkpoint, Progress& progress) {
  for (const auto& tensor : checkpoint.tensors()) {
    add_text(hash, tensor.name);
    auto bytes = checkpoint.bytes(tensor);
    while (!bytes.empty()) {
      const auto piece = bytes.first(std::min(bytes.size(), kHashed));
      hash.add(piece);
      bytes = bytes.subspan(piece.size());
      progress.advance(static_cast<std::int64_t>(piece.size()));
    }
    checkpoint.release(tensor);
  }
}

}  // namespace

std::uint64_t directions_seed(const ParameterSource& a, const ParameterSource& b,
                              Progress& progress) {
  std::int64_t bytes = 0;
  for (const ParameterSource* source : {&a, &b}) {
    for (const auto& tensor : source->model().checkpoint.tensors()) bytes += tensor.bytes;
  }
  progress.start("hashing", bytes);
  Sha256 hash;
  add_text(hash, std::string("regauge directions 1 "));
  for (const ParameterSource* source : {&a, &b}) {
    add_numbers(hash, source->model().checkpoint, progress);
  }
  progress.finish();
  return std::stoull(hash.finish().substr(0, 16), nullptr, 16);
}

}  // namespace regauge
