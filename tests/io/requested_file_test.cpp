// Files that are read by requests hold what mapped ones do, and a file that changes is an error.
#include "io/requested_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>
#include <vector>

#include "files.h"
#include "io/mapping.h"
#include "io/mounts.h"
#include "regauge/base/error.h"
#include "regauge/io/checkpoint.h"
#include "regauge/io/reading_mode.h"

namespace regauge {
namespace {

using namespace testing;

constexpr std::size_t kSize = (std::size_t{19} << 20) + 777;

std::string pattern(std::size_t size) {
  std::string text(size, '\0');
  std::uint32_t state = 1;
  for (char& c : text) {
    state = state * 1664525U + 1013904223U;
    c = static_cast<char>(state >> 24U);
  }
  return text;
}

bool equal(std::span<const std::byte> bytes, std::string_view text) {
  return std::ranges::equal(bytes, std::as_bytes(std::span(text)));
}

// While it lives, files are opened in this way.
struct ReadingBy {
  explicit ReadingBy(ReadingMode mode) { choose_reading_mode(mode); }
  ~ReadingBy() { choose_reading_mode(ReadingMode::automatic); }
  ReadingBy(const ReadingBy&) = delete;
  ReadingBy& operator=(const ReadingBy&) = delete;
};

TEST(FilePieces, TileTheFileAndBeginSmall) {
  for (const std::size_t largest : {io::kRequestBytes, std::size_t{1} << 20}) {
    std::size_t at = 0;
    while (at < kSize) {
      const auto piece = io::piece_around(at, kSize, largest);
      EXPECT_EQ(piece.begin, at);
      EXPECT_GT(piece.length, 0u);
      EXPECT_LE(piece.length, std::max(largest, at));
      EXPECT_EQ(io::piece_around(at + piece.length - 1, kSize, largest).begin, at);
      at += piece.length;
    }
    EXPECT_EQ(at, kSize);
  }
  EXPECT_EQ(io::piece_around(0, kSize).length, std::size_t{1} << 16);
}

TEST(RequestedFile, HoldsWhatTheFileHolds) {
  const TemporaryFolder folder;
  const std::string text = pattern(kSize);
  write_bytes(folder / "file", text);
  const io::RequestedFile file(io::local_reader(folder / "file"));
  ASSERT_EQ(file.size(), kSize);
  EXPECT_TRUE(equal(file.bytes(0, kSize), text));
  const std::size_t odd = (std::size_t{8} << 20) - 5;
  for (const std::size_t offset : {std::size_t{0}, std::size_t{65535}, odd, kSize - 9}) {
    for (const std::size_t wanted : {0ul, 1ul, 10ul, 70000ul, 3ul << 20, 12ul << 20}) {
      const std::size_t length = std::min(wanted, kSize - offset);
      EXPECT_TRUE(equal(file.bytes(offset, length), std::string_view(text).substr(offset, length)))
          << offset << " " << length;
    }
  }
}

// A long run that is kept is that of its own file and place, also after the file is closed.
TEST(RequestedFile, KeepsLongRunsApart) {
  const TemporaryFolder folder;
  const std::string text = pattern(kSize), other(text.rbegin(), text.rend());
  constexpr std::size_t kLong = (std::size_t{1} << 24) + 1;
  for (const std::string& content : {text, other, text}) {
    write_bytes(folder / "file", content);
    const io::RequestedFile file(io::local_reader(folder / "file"));
    for (const std::size_t offset : {0ul, 5ul, 0ul}) {
      EXPECT_TRUE(
          equal(file.bytes(offset, kLong), std::string_view(content).substr(offset, kLong)));
    }
    EXPECT_EQ(file.bytes(5, kLong).data(), file.bytes(5, kLong).data());
  }
}

// What was asked for stays, whatever is read afterwards and by whom.
TEST(RequestedFile, KeepsWhatIsHeldAndServesThreads) {
  const TemporaryFolder folder;
  const std::string text = pattern(kSize);
  write_bytes(folder / "file", text);
  const io::RequestedFile file(io::local_reader(folder / "file"));
  std::atomic<int> wrong{0};
  const auto work = [&](std::size_t seed) {
    std::vector<std::pair<Bytes, std::size_t>> held;
    for (std::size_t i = 0; i < 200; ++i) {
      const std::size_t offset = (i * 7919 + seed * 104729) * 31 % (kSize - 4096);
      held.emplace_back(file.bytes(offset, 4096), offset);
    }
    for (const auto& [bytes, offset] : held) {
      if (!equal(bytes, std::string_view(text).substr(offset, 4096))) ++wrong;
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

class ChangingFile : public ::testing::Test {
 protected:
  ChangingFile() {
    const std::string size = std::to_string(kSize);
    write_bytes(path_, safetensors_bytes(R"({"a":{"dtype":"U8","shape":[)" + size +
                                             R"(],"data_offsets":[0,)" + size + "]}}",
                                         pattern(kSize)));
  }
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "model.safetensors";
  ReadingBy requests_{ReadingMode::requests};
};

TEST_F(ChangingFile, ThatBecomesShorterIsAnError) {
  const Checkpoint checkpoint = Checkpoint::open(path_);
  const StoredTensor& tensor = checkpoint.at("a");
  std::vector<double> values(kSize);
  EXPECT_NO_THROW(checkpoint.numbers(tensor).decode<double>(values));
  std::filesystem::resize_file(path_, kSize / 2);
  EXPECT_THROW(checkpoint.bytes(tensor), FileError);
  EXPECT_THROW(checkpoint.numbers(tensor).decode<double>(values), FileError);
  EXPECT_THROW(checkpoint.require_intact(), FileError);
  EXPECT_THROW(checkpoint.digests(Progress::silent()), FileError);
}

TEST_F(ChangingFile, ThatIsWrittenToIsNoticed) {
  const Checkpoint checkpoint = Checkpoint::open(path_);
  EXPECT_NO_THROW(checkpoint.require_intact());
  const auto later = std::filesystem::last_write_time(path_) + std::chrono::seconds(1);
  std::filesystem::last_write_time(path_, later);
  EXPECT_THROW(checkpoint.require_intact(), FileError);
}

TEST_F(ChangingFile, ThatIsReplacedOrRemovedStaysAsItWas) {
  const Checkpoint checkpoint = Checkpoint::open(path_);
  std::filesystem::remove(path_);
  EXPECT_TRUE(equal(checkpoint.bytes(checkpoint.at("a")), pattern(kSize)));
  EXPECT_NO_THROW(checkpoint.require_intact());
}

TEST_F(ChangingFile, HasTheDigestOfTheMappedOne) {
  const auto by_requests = Checkpoint::open(path_).digests(Progress::silent());
  choose_reading_mode(ReadingMode::mapped);
  EXPECT_EQ(Checkpoint::open(path_).digests(Progress::silent()), by_requests);
}

TEST(Mounts, NetworkFileSystemsAreReadByRequests) {
  EXPECT_TRUE(io::is_remote_type(0x6969));
  EXPECT_TRUE(io::is_remote_type(0x0bd00bd0));
  EXPECT_TRUE(io::is_remote_type(0x65735546));
  EXPECT_FALSE(io::is_remote_type(0xef53));      // ext4
  EXPECT_FALSE(io::is_remote_type(0x01021994));  // tmpfs
  const TemporaryFolder folder;
  EXPECT_FALSE(io::faults_are_requests(folder / "no such file"));
}

TEST(Mounts, AnOverlayIsWhatItLiesOn) {
  const std::string_view mounts =
      "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "30 22 0:40 / /data rw shared:1 - overlay overlay rw,lowerdir=/nfs/a\\040b:/c,upperdir=/up\n"
      "31 30 0:41 / /data/local rw - tmpfs tmpfs rw\n"
      "a line that is cut\n";
  using Paths = std::vector<std::filesystem::path>;
  EXPECT_EQ(io::overlaid_folders(mounts, "/data/model/x.gguf"), (Paths{"/nfs/a b", "/c", "/up"}));
  EXPECT_EQ(io::overlaid_folders(mounts, "/data/local/x.gguf"), Paths{});
  EXPECT_EQ(io::overlaid_folders(mounts, "/database/x.gguf"), Paths{});
  EXPECT_EQ(io::overlaid_folders("", "/data"), Paths{});
}

TEST(Reading, IsChosenByName) {
  EXPECT_EQ(reading_mode_from_name("mmap"), ReadingMode::mapped);
  EXPECT_EQ(reading_mode_from_name("read"), ReadingMode::requests);
  EXPECT_EQ(reading_mode_from_name("auto"), ReadingMode::automatic);
  EXPECT_THROW(reading_mode_from_name("fast"), UsageError);
}

}  // namespace
}  // namespace regauge
