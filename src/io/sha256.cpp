#include "sha256.h"

#include <fmt/format.h>

#include <algorithm>

#include "parts.h"
#include "regauge/base/error.h"
#include "regular_file.h"
#include "sha256_blocks.h"
#include "sha256_round.h"

namespace regauge {
namespace io {

void sha256_portable(Sha256State& state, const std::byte* bytes, std::size_t count) {
  for (; count > 0; --count, bytes += kSha256Block) {
    std::array<std::uint32_t, 16> w;
    for (std::size_t i = 0; i < 16; ++i) w[i] = big_endian_word(bytes + 4 * i);
    add_block(state, w);
  }
}

const std::vector<Sha256Kernel>& sha256_kernels() {
  static const std::vector<Sha256Kernel> kernels = [] {
    std::vector<Sha256Kernel> found = {{"portable", sha256_portable}};
#if defined(__x86_64__) && defined(__GNUC__)
    if (has_sha256_avx2()) found.push_back({"avx2", sha256_avx2});
    if (has_sha256_instructions()) found.push_back({"sha", sha256_instructions});
#endif
    return found;
  }();
  return kernels;
}

Sha256Side sha256_side_by_side() {
#if defined(__x86_64__) && defined(__GNUC__)
  if (has_sha256_avx2() && !has_sha256_instructions()) return sha256_avx2_lanes;
#endif
  return nullptr;
}

}  // namespace io

void Sha256::add(std::span<const std::byte> bytes) {
  static const io::Sha256Blocks blocks = io::sha256_kernels().back().blocks;
  while (!bytes.empty()) {
    const std::size_t held = length_ % io::kSha256Block;
    if (held == 0 && bytes.size() >= io::kSha256Block) {
      const std::size_t count = bytes.size() / io::kSha256Block;
      blocks(state_, bytes.data(), count);
      bytes = bytes.subspan(count * io::kSha256Block);
      length_ += count * io::kSha256Block;
      continue;
    }
    const std::size_t count = std::min(io::kSha256Block - held, bytes.size());
    std::copy_n(bytes.begin(), count, pending_.begin() + static_cast<std::ptrdiff_t>(held));
    bytes = bytes.subspan(count);
    length_ += count;
    if (length_ % io::kSha256Block == 0) blocks(state_, pending_.data(), 1);
  }
}

std::string Sha256::finish() {
  const std::uint64_t bits = 8 * length_;
  const std::byte one{0x80}, zero{0};
  add({&one, 1});
  while (length_ % io::kSha256Block != 56) add({&zero, 1});
  std::array<std::byte, 8> tail;
  for (std::size_t i = 0; i < 8; ++i) tail[i] = static_cast<std::byte>(bits >> (56 - 8 * i));
  add(tail);
  std::string digits;
  for (const auto word : state_) digits += fmt::format("{:08x}", word);
  return digits;
}

// Messages that are hashed side by side. A lane whose message has no whole block left takes the
// next message; the last few messages end one after the other.
class Sha256Lanes {
 public:
  Sha256Lanes(std::span<const ByteRange> messages, const Sha256Read& read)
      : messages_(messages), read_(read), hashes_(messages.size()), done_(messages.size(), 0) {}

  std::vector<std::string> run() {
    if (const io::Sha256Side side = io::sha256_side_by_side()) {
      while (fill_lanes()) advance(side);
    }
    std::vector<std::string> digests;
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      while (done_[i] < messages_[i].size()) {
        const std::size_t length = std::min(piece_of(i), messages_[i].size() - done_[i]);
        hashes_[i].add(messages_[i].bytes(done_[i], length));
        count(i, length);
      }
      digests.push_back(hashes_[i].finish());
    }
    return digests;
  }

 private:
  static constexpr std::size_t kPiece = std::size_t{1} << 20;
  static constexpr std::size_t kReadPiece = std::size_t{1} << 24;  // of a file that is not mapped
  // With fewer messages than these, one after the other is as fast.
  static constexpr std::size_t kWorthwhile = 4;

  std::size_t piece_of(std::size_t message) const {
    return messages_[message].in_memory() ? kPiece : kReadPiece;
  }

  std::size_t whole_blocks(std::size_t message) const {
    return (messages_[message].size() - done_[message]) / io::kSha256Block;
  }

  bool fill_lanes() {
    std::erase_if(lanes_, [&](std::size_t message) { return whole_blocks(message) == 0; });
    while (lanes_.size() < io::kSha256Lanes && next_ < messages_.size()) {
      if (whole_blocks(next_) > 0) lanes_.push_back(next_);
      ++next_;
    }
    return lanes_.size() >= kWorthwhile;
  }

  void advance(io::Sha256Side side) {
    std::size_t blocks = kReadPiece / io::kSha256Block;
    for (const std::size_t message : lanes_) {
      blocks = std::min({blocks, piece_of(message) / io::kSha256Block, whole_blocks(message)});
    }
    std::array<io::Sha256State, io::kSha256Lanes> states;
    std::array<const std::byte*, io::kSha256Lanes> bytes;
    std::array<Bytes, io::kSha256Lanes> held;
    for (std::size_t lane = 0; lane < io::kSha256Lanes; ++lane) {
      // Lanes without a message repeat the first one's work.
      const std::size_t message = lanes_[lane < lanes_.size() ? lane : 0];
      states[lane] = hashes_[message].state_;
      if (lane < lanes_.size()) {
        held[lane] = messages_[message].bytes(done_[message], blocks * io::kSha256Block);
      }
      bytes[lane] = held[lane < lanes_.size() ? lane : 0].data();
    }
    side(states.data(), bytes.data(), blocks);
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      Sha256& hash = hashes_[lanes_[lane]];
      hash.state_ = states[lane];
      hash.length_ += blocks * io::kSha256Block;
      count(lanes_[lane], blocks * io::kSha256Block);
    }
  }

  void count(std::size_t message, std::size_t length) {
    read_(message, done_[message], length);
    done_[message] += length;
  }

  std::span<const ByteRange> messages_;
  const Sha256Read& read_;
  std::vector<Sha256> hashes_;
  std::vector<std::size_t> done_;   // bytes of each message
  std::vector<std::size_t> lanes_;  // the message of each lane
  std::size_t next_ = 0;
};

std::vector<std::string> sha256_of_each(std::span<const ByteRange> messages,
                                        const Sha256Read& read) {
  return Sha256Lanes(messages, read).run();
}

std::vector<std::string> sha256_of_each(const std::string& loop,
                                        std::span<const ByteRange> messages, Progress& progress,
                                        const Sha256Read& read) {
  Parts* parts = progress.parts();
  if (parts == nullptr) return sha256_of_each(messages, read);
  std::vector<std::int64_t> sizes;
  for (const auto& message : messages) sizes.push_back(static_cast<std::int64_t>(message.size()));
  const Parts::Turn turn = parts->begin(loop, sizes);
  std::vector<std::string> digests;
  for (const auto& result : turn.results) {
    digests.push_back(result_in<std::string>(result, turn.loop));
  }
  if (!digests.empty()) return digests;
  std::vector<ByteRange> own;
  for (const auto unit : turn.units) own.push_back(messages[static_cast<std::size_t>(unit)]);
  digests = sha256_of_each(own, [&](std::size_t i, std::size_t offset, std::size_t length) {
    read(static_cast<std::size_t>(turn.units[i]), offset, length);
  });
  if (turn.is_all) return digests;
  for (std::size_t i = 0; i < own.size(); ++i) parts->record(turn, turn.units[i], digests[i]);
  throw Parts::ShareDone();
}

std::string sha256_of_file(const std::filesystem::path& path, Progress& progress) {
  const io::RegularFile file(path);
  Sha256 hash;
  std::vector<std::byte> piece(std::min(file.size(), std::size_t{1} << 20));
  for (std::size_t at = 0; at < file.size(); at += piece.size()) {
    piece.resize(std::min(piece.size(), file.size() - at));
    file.read(at, piece);
    hash.add(piece);
    progress.advance(static_cast<std::int64_t>(piece.size()));
  }
  return hash.finish();
}

}  // namespace regauge
