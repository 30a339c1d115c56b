#include "requested_file.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "regular_file.h"

namespace regauge::io {
namespace {

constexpr std::size_t kFirstPiece = std::size_t{1} << 16;
constexpr std::size_t kSmallPiece = std::size_t{1} << 20;
constexpr std::size_t kDirect = std::size_t{1} << 16;  // and more is read where it is wanted
constexpr std::size_t kSmallKept = 64;                 // pieces
constexpr std::size_t kLongRun = std::size_t{1} << 24;
constexpr std::size_t kLongKept = 4;  // runs
constexpr std::size_t kAtOnce = 8;    // requests

class LocalReader : public RangeReader {
 public:
  explicit LocalReader(const std::filesystem::path& path) : file_(path) {}
  std::size_t size() const override { return file_.size(); }
  void read(std::size_t offset, std::span<std::byte> to) const override { file_.read(offset, to); }
  void require_intact() const override { file_.require_unchanged(); }

 private:
  RegularFile file_;
};

// A small piece of a file; whoever asks for it first reads it, under its lock.
struct SmallPiece {
  const RangeReader* reader;
  std::size_t begin;
  std::mutex mutex;
  std::unique_ptr<std::byte[]> bytes;
};

// The small pieces that were used last, of all files.
class KeptPieces {
 public:
  std::shared_ptr<SmallPiece> find(const RangeReader* reader, std::size_t begin) {
    const std::scoped_lock lock(mutex_);
    const auto found = std::ranges::find_if(pieces_, [&](const auto& piece) {
      return piece->reader == reader && piece->begin == begin;
    });
    auto piece = found == pieces_.end() ? std::make_shared<SmallPiece>() : *found;
    if (found == pieces_.end()) {
      piece->reader = reader;
      piece->begin = begin;
      if (pieces_.size() == kSmallKept) pieces_.pop_back();
    } else {
      pieces_.erase(found);
    }
    pieces_.push_front(piece);
    return piece;
  }
  void forget(const RangeReader* reader) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(pieces_, [&](const auto& piece) { return piece->reader == reader; });
  }

 private:
  std::mutex mutex_;
  std::deque<std::shared_ptr<SmallPiece>> pieces_;  // the last used first
};

// The last few long runs of all files: the codes of a packed tensor, which whoever reads it by
// parts asks for as a whole again and again.
class KeptRuns {
 public:
  std::optional<Bytes> find(const RangeReader* reader, std::size_t begin, std::size_t length) {
    const std::scoped_lock lock(mutex_);
    const auto found = std::ranges::find_if(runs_, [&](const Run& run) {
      return run.reader == reader && run.begin == begin && run.bytes.size() == length;
    });
    return found == runs_.end() ? std::nullopt : std::optional(found->bytes);
  }
  void keep(const RangeReader* reader, std::size_t begin, const Bytes& bytes) {
    const std::scoped_lock lock(mutex_);
    if (runs_.size() == kLongKept) runs_.pop_front();
    runs_.push_back({reader, begin, bytes});
  }
  void forget(const RangeReader* reader) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(runs_, [&](const Run& run) { return run.reader == reader; });
  }

 private:
  struct Run {
    const RangeReader* reader;
    std::size_t begin;
    Bytes bytes;
  };
  std::mutex mutex_;
  std::deque<Run> runs_;  // the first read first
};

KeptRuns& kept_runs() {
  static auto* const kept = new KeptRuns;
  return *kept;
}

KeptPieces& kept_pieces() {
  static auto* const kept = new KeptPieces;  // files that outlive main() forget their pieces, too
  return *kept;
}

// Calls task(0), ..., task(count - 1) on a few threads that live as long as the call, so that a
// fork of the process finds none. Throws what the first failed one threw; no more are begun then.
template <class Task>
void several_at_once(std::size_t count, const Task& task) {
  if (count == 1) return task(0);
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        task(i);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!failure) failure = std::current_exception();
        next = count;
      }
    }
  };
  std::vector<std::thread> others;
  others.reserve(kAtOnce);
  const auto add_thread = [&] {
    try {
      others.emplace_back(work);
    } catch (const std::exception&) {
      return false;  // there are no more: fewer at a time
    }
    return true;
  };
  for (std::size_t i = 1; i < std::min(count, kAtOnce) && add_thread();) ++i;
  work();
  for (std::thread& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

FilePiece piece_around(std::size_t offset, std::size_t file_size, std::size_t largest) {
  FilePiece piece{0, kFirstPiece};
  if (offset >= largest) {
    piece = {offset / largest * largest, largest};
  } else if (offset >= kFirstPiece) {
    piece = {std::bit_floor(offset), std::bit_floor(offset)};
  }
  piece.length = std::min(piece.length, file_size - piece.begin);
  return piece;
}

RequestedFile::RequestedFile(std::unique_ptr<const RangeReader> reader)
    : reader_(std::move(reader)), size_(reader_->size()) {}

RequestedFile::~RequestedFile() {
  kept_pieces().forget(reader_.get());
  kept_runs().forget(reader_.get());
}

Bytes RequestedFile::small_piece(FilePiece piece) const {
  const auto kept = kept_pieces().find(reader_.get(), piece.begin);
  const std::scoped_lock lock(kept->mutex);
  if (!kept->bytes) {
    auto bytes = std::make_unique_for_overwrite<std::byte[]>(piece.length);
    reader_->read(piece.begin, {bytes.get(), piece.length});
    kept->bytes = std::move(bytes);
  }
  return Bytes({kept->bytes.get(), piece.length}, kept);
}

void RequestedFile::read(std::size_t offset, std::span<std::byte> to) const {
  struct Request {
    std::size_t offset;
    std::span<std::byte> to;
  };
  std::vector<Request> large;
  while (!to.empty()) {
    const FilePiece piece = piece_around(offset, size_);
    const std::size_t length = std::min(to.size(), piece.begin + piece.length - offset);
    if (length >= kDirect || length == piece.length) {
      large.push_back({offset, to.first(length)});
      offset += length;
      to = to.subspan(length);
      continue;
    }
    for (const std::size_t end = offset + length; offset < end;) {
      const FilePiece small = piece_around(offset, size_, kSmallPiece);
      const std::size_t count = std::min(end, small.begin + small.length) - offset;
      const Bytes bytes = small_piece(small);
      std::memcpy(to.data(), bytes.data() + (offset - small.begin), count);
      offset += count;
      to = to.subspan(count);
    }
  }
  if (large.empty()) return;
  several_at_once(large.size(),
                  [&](std::size_t i) { reader_->read(large[i].offset, large[i].to); });
}

Bytes RequestedFile::bytes(std::size_t offset, std::size_t length) const {
  if (length == 0) return {};
  const FilePiece small = piece_around(offset, size_, kSmallPiece);
  if (offset + length <= small.begin + small.length) {
    return small_piece(small).range(offset - small.begin, length);
  }
  const bool is_long = length > kLongRun;
  if (is_long) {
    if (const auto kept = kept_runs().find(reader_.get(), offset, length)) return *kept;
  }
  const std::shared_ptr<std::byte[]> copy = std::make_unique_for_overwrite<std::byte[]>(length);
  read(offset, {copy.get(), length});
  const Bytes bytes({copy.get(), length}, copy);
  if (is_long) kept_runs().keep(reader_.get(), offset, bytes);
  return bytes;
}

std::unique_ptr<const RangeReader> local_reader(const std::filesystem::path& path) {
  return std::make_unique<LocalReader>(path);
}

}  // namespace regauge::io
