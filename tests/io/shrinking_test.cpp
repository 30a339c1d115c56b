// A file that another program shortens or changes while it is read.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <numeric>

#include "files.h"
#include "regauge/base/error.h"
#include "regauge/io/checkpoint.h"

namespace regauge {
namespace {

using namespace testing;

constexpr std::size_t kPages = 64;

class ShrinkingFile : public ::testing::Test {
 protected:
  ShrinkingFile() : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) {
    const std::size_t bytes = kPages * page_;
    const std::string size = std::to_string(bytes);
    write_bytes(path_, safetensors_bytes(R"({"a":{"dtype":"U8","shape":[)" + size +
                                             R"(],"data_offsets":[0,)" + size + "]}}",
                                         std::string(bytes, 'x')));
  }

  static std::uint64_t sum(std::span<const std::byte> bytes) {
    return std::accumulate(
        bytes.begin(), bytes.end(), std::uint64_t{0},
        [](std::uint64_t s, std::byte b) { return s + std::to_integer<unsigned>(b); });
  }

  std::size_t page_;
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "model.safetensors";
};

TEST_F(ShrinkingFile, IsAnErrorAndNotASignal) {
  const Checkpoint checkpoint = Checkpoint::open(path_);
  const StoredTensor& tensor = checkpoint.at("a");
  const auto bytes = checkpoint.bytes(tensor);
  std::filesystem::resize_file(path_, 3 * page_);
  EXPECT_LT(sum(bytes), bytes.size() * 'x');  // pages that are gone are zeros
  EXPECT_THROW(checkpoint.release(tensor), FileError);
  EXPECT_THROW(checkpoint.bytes(tensor), FileError);
  EXPECT_THROW(checkpoint.require_intact(), FileError);
  EXPECT_THROW(checkpoint.digests(Progress::silent()), FileError);
}

TEST_F(ShrinkingFile, IsNoticedEvenIfNobodyReadWhatIsGone) {
  const Checkpoint checkpoint = Checkpoint::open(path_);
  EXPECT_NO_THROW(checkpoint.require_intact());
  std::filesystem::resize_file(path_, 3 * page_);
  EXPECT_THROW(checkpoint.require_intact(), FileError);
}

TEST_F(ShrinkingFile, OthersGoOn) {
  const Checkpoint first = Checkpoint::open(path_);
  const auto other = folder_ / "other.safetensors";
  std::filesystem::copy_file(path_, other);
  const Checkpoint second = Checkpoint::open(other);
  std::filesystem::resize_file(path_, page_);
  EXPECT_EQ(sum(second.bytes(second.at("a"))), kPages * page_ * 'x');
  sum(first.bytes(first.at("a")));
  EXPECT_THROW(first.require_intact(), FileError);
  EXPECT_NO_THROW(second.require_intact());
}

// Ranges come and go; each new one is intact.
TEST_F(ShrinkingFile, DoesNotSpoilTheNext) {
  for (int round = 0; round < 3; ++round) {
    const auto copy = folder_ / ("copy" + std::to_string(round) + ".safetensors");
    std::filesystem::copy_file(path_, copy);
    const Checkpoint checkpoint = Checkpoint::open(copy);
    EXPECT_EQ(sum(checkpoint.bytes(checkpoint.at("a"))), kPages * page_ * 'x');
    EXPECT_NO_THROW(checkpoint.require_intact());
    std::filesystem::resize_file(copy, page_);
    checkpoint.release(checkpoint.at("a"));
    EXPECT_LT(sum(checkpoint.bytes(checkpoint.at("a"))), kPages * page_ * 'x');
    EXPECT_THROW(checkpoint.require_intact(), FileError);
  }
}

TEST_F(ShrinkingFile, AnotherFileOfTheSameNameDoesNoHarm) {
  const Checkpoint checkpoint = Checkpoint::open(path_);
  write_bytes(folder_ / "new", "short");
  std::filesystem::rename(folder_ / "new", path_);
  EXPECT_EQ(sum(checkpoint.bytes(checkpoint.at("a"))), kPages * page_ * 'x');
  EXPECT_NO_THROW(checkpoint.require_intact());
}

TEST_F(ShrinkingFile, AFileThatIsWrittenToIsNoticed) {
  const Checkpoint checkpoint = Checkpoint::open(path_);
  const auto later = std::filesystem::last_write_time(path_) + std::chrono::seconds(1);
  std::filesystem::last_write_time(path_, later);
  EXPECT_THROW(checkpoint.require_intact(), FileError);
}

// Faults elsewhere end the process as they did before.
TEST_F(ShrinkingFile, LeavesOtherFaultsToOthers) {
  const Checkpoint checkpoint = Checkpoint::open(path_);
  EXPECT_DEATH(::raise(SIGBUS), "");  // a sanitizer has a handler of its own
}

}  // namespace
}  // namespace regauge
