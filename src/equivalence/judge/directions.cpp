#include "directions.h"

#include <functional>
#include <string>
#include <vector>

#include "io/sha256.h"

namespace regauge {

std::uint64_t directions_seed(const ParameterSource& a, const ParameterSource& b,
                              Progress& progress) {
  std::vector<ByteRange> messages;
  std::vector<std::function<void()>> release;  // of each message
  std::int64_t bytes = 0;
  Sha256 hash;
  const auto add = [&](const std::string& text) { hash.add(std::as_bytes(std::span(text))); };
  add("regauge directions 1");
  for (const ParameterSource* source : {&a, &b}) {
    const Checkpoint& checkpoint = source->model().checkpoint;
    for (const auto& tensor : checkpoint.tensors()) {
      for (const auto& part : checkpoint.numbers(tensor).all_bytes()) {
        messages.push_back(part);
        release.push_back([&] { checkpoint.release(tensor); });
      }
      bytes += tensor.bytes;
      add(tensor.name);
    }
  }
  progress.start("hashing", bytes);
  const auto digests = sha256_of_each("hash tensors", messages, progress,
                                      [&](std::size_t message, std::size_t, std::size_t length) {
                                        release[message]();
                                        progress.advance(static_cast<std::int64_t>(length));
                                      });
  progress.finish();
  for (const auto& digest : digests) add(digest);
  return std::stoull(hash.finish().substr(0, 16), nullptr, 16);
}

}  // namespace regauge
