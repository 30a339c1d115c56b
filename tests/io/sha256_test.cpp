#include "io/sha256.h"

#include <gtest/gtest.h>

#include "files.h"
#include "regauge/io/checkpoint.h"

namespace regauge {
namespace {

using namespace testing;

std::vector<std::byte> some_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>(i * 2654435761U >> 13 ^ i >> 8);
  }
  return bytes;
}

std::string digest(std::span<const std::byte> bytes, std::size_t piece) {
  Sha256 hash;
  while (!bytes.empty()) {
    const std::size_t count = std::min(piece, bytes.size());
    hash.add(bytes.first(count));
    bytes = bytes.subspan(count);
  }
  return hash.finish();
}

TEST(Sha256, IsTheStandardOne) {
  Sha256 empty;
  EXPECT_EQ(empty.finish(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const std::vector<std::byte> million(1'000'000, std::byte{'a'});
  for (const std::size_t piece : {std::size_t{999}, million.size()}) {
    EXPECT_EQ(digest(million, piece),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }
}

// Long pieces go through the processor's vectors, single blocks do not.
TEST(Sha256, DoesNotDependOnThePieces) {
  for (std::size_t size = 0; size < 1500; size += 7) {
    const auto bytes = some_bytes(size);
    EXPECT_EQ(digest(bytes, 64), digest(bytes, size + 1)) << size;
  }
}

TEST(Sha256, HashesSeveralMessagesAtOnceAsOneByOne) {
  std::vector<std::vector<std::byte>> held;
  for (std::size_t i = 0; i < 23; ++i) held.push_back(some_bytes(i * i * 11 % 5000));
  held.push_back(some_bytes(3'000'000));
  held.push_back(some_bytes(0));
  for (std::size_t count = 0; count <= held.size(); ++count) {
    const std::vector<ByteRange> messages(held.begin(),
                                          held.begin() + static_cast<std::ptrdiff_t>(count));
    std::vector<std::size_t> read(count, 0);
    const auto digests =
        sha256_of_each(messages, [&](std::size_t message, std::size_t offset, std::size_t length) {
          EXPECT_EQ(offset, read[message]);
          read[message] += length;
        });
    ASSERT_EQ(digests.size(), count);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(digests[i], digest(held[i], 64)) << i << " of " << count;
      EXPECT_EQ(read[i], messages[i].size());
    }
  }
}

// Whoever exchanges a file after it was mapped does not change what is hashed.
TEST(Digests, AreOfWhatIsMapped) {
  const TemporaryFolder folder;
  const std::string header = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  const std::string weights = safetensors_bytes(header, "ab");
  const std::string config = R"({"model_type": "llama"})";
  write_bytes(folder / "model.safetensors", weights);
  write_bytes(folder / "config.json", config);
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  write_bytes(folder / "other", safetensors_bytes(header, "xy"));
  std::filesystem::rename(folder / "other", folder / "model.safetensors");
  write_bytes(folder / "config.json", R"({"model_type": "gpt2"})");

  const std::map<std::string, std::string> expected = {
      {"config.json", digest(std::as_bytes(std::span(config)), 64)},
      {"model.safetensors", digest(std::as_bytes(std::span(weights)), 64)}};
  EXPECT_EQ(checkpoint.digests(Progress::silent()), expected);
  const auto files = checkpoint.opened_files();
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].first, "model.safetensors");
  EXPECT_EQ(files[0].second.size(), weights.size());
}

}  // namespace
}  // namespace regauge
