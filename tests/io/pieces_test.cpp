#include "io/pieces.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "files.h"
#include "io/corrupt.h"
#include "regauge/base/random.h"

namespace regauge {
namespace {

using namespace testing;
using io::Piece, io::Pieces;
using Sizes = std::vector<std::int64_t>;

std::int64_t count_of(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

// Every place of a box, in row-major order.
std::vector<Sizes> places(const Sizes& sizes) {
  std::vector<Sizes> all = {{}};
  for (const std::int64_t size : sizes) {
    std::vector<Sizes> longer;
    for (const Sizes& place : all) {
      for (std::int64_t i = 0; i < size; ++i) {
        longer.push_back(place);
        longer.back().push_back(i);
      }
    }
    all = std::move(longer);
  }
  return all;
}

std::int64_t place_of(const Sizes& place, const Sizes& steps) {
  return std::inner_product(place.begin(), place.end(), steps.begin(), std::int64_t{0});
}

Sizes row_major(const Sizes& sizes) {
  Sizes steps(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;) steps[i - 1] = steps[i] * sizes[i];
  return steps;
}

// Row-major steps of the sizes in another order of axes, with a gap behind each row.
Sizes some_strides(const Sizes& sizes, Random& random) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = order.size(); i-- > 1;) {
    std::swap(order[i], order[static_cast<std::size_t>(random.below(static_cast<int>(i) + 1))]);
  }
  Sizes strides(sizes.size());
  std::int64_t step = 1;
  for (const std::size_t axis : order) {
    strides[axis] = step;
    step *= sizes[axis] + random.below(2);
  }
  return strides;
}

// A tensor whose element i is the number i + 1, cut along each axis at random places.
TEST(Pieces, AnyRangeOfAnyCutIsTheRowMajorOne) {
  Random random(1, "pieces");
  for (int round = 0; round < 200; ++round) {
    Sizes shape(static_cast<std::size_t>(random.below(4)));
    for (auto& size : shape) size = 1 + random.below(5);
    std::vector<Piece> pieces = {{Sizes(shape.size(), 0), shape, {}}};
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      std::vector<Piece> cut;
      for (const Piece& piece : pieces) {
        const std::int64_t first = random.below(piece.sizes[axis] + 1);
        Piece left = piece, right = piece;
        left.sizes[axis] = first;
        right.offsets[axis] += first;
        right.sizes[axis] -= first;
        cut.push_back(left);
        cut.push_back(right);
      }
      pieces = std::move(cut);
    }
    const Sizes steps = row_major(shape);
    std::vector<std::vector<float>> stored;
    std::vector<Numbers> parts;
    for (Piece& piece : pieces) {
      piece.strides = some_strides(piece.sizes, random);
      std::vector<float>& numbers = stored.emplace_back();
      for (const Sizes& place : places(piece.sizes)) {
        const auto home = static_cast<std::size_t>(place_of(place, piece.strides));
        if (numbers.size() <= home) numbers.resize(home + 1, -1.F);
        numbers[home] =
            static_cast<float>(place_of(place, steps) + place_of(piece.offsets, steps) + 1);
      }
    }
    for (const auto& numbers : stored) {
      parts.emplace_back(DType::f32, std::as_bytes(std::span(numbers)));
    }
    const auto all = std::make_shared<const Pieces>(DType::f32, shape, pieces, "test");
    const std::int64_t total = count_of(shape);
    const Numbers whole(all, parts, total);
    const std::int64_t first = random.below(total);
    const std::int64_t count = random.below(total - first + 1);
    std::vector<double> values(static_cast<std::size_t>(count));
    whole.range(first, count).decode<double>(values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i], static_cast<double>(first) + static_cast<double>(i) + 1) << round;
    }
  }
}

TEST(Pieces, RoundAsNumbersInARowDo) {
  const std::vector<float> numbers = {1.F, 1000.F, 0.1F, -3.F, 5.F, 7.F};
  const auto all = std::make_shared<const Pieces>(
      DType::f32, Sizes{3, 2}, std::vector<Piece>{{{0, 0}, {3, 2}, {1, 3}}}, "test");
  const Numbers turned(all, {Numbers(DType::f32, std::as_bytes(std::span(numbers)))}, 6);
  const std::vector<float> row = {1.F, -3.F, 1000.F, 5.F, 0.1F, 7.F};
  const Numbers plain(DType::f32, std::as_bytes(std::span(row)));
  std::vector<double> variances(6), variances_plain(6);
  turned.rounding_variances<double>(variances);
  plain.rounding_variances<double>(variances_plain);
  EXPECT_EQ(variances, variances_plain);
  std::vector<double> values(6), below(6), above(6), below_plain(6), above_plain(6);
  turned.decode<double>(values);
  turned.rounding_bounds(values, below, above);
  plain.rounding_bounds(values, below_plain, above_plain);
  EXPECT_EQ(below, below_plain);
  EXPECT_EQ(above, above_plain);
  const auto ignore = [](std::size_t) {};
  EXPECT_TRUE(turned.is_bit_equal(plain, ignore));
  EXPECT_FALSE(turned.is_bit_equal(Numbers(DType::f32, std::as_bytes(std::span(numbers))), ignore));
  EXPECT_THROW(turned.bytes(), UsageError);
}

TEST(Pieces, ThatDoNotTileAreRefused) {
  const auto cause = [](const Sizes& shape, const std::vector<Piece>& pieces) -> std::string_view {
    try {
      const Pieces tried(DType::f32, shape, pieces, "test");
      return "none";
    } catch (const CorruptFile& error) {
      return corruption_name(error.cause());
    }
  };
  const Piece left{{0, 0}, {2, 2}, {2, 1}}, right{{0, 2}, {2, 3}, {3, 1}};
  EXPECT_EQ(cause({2, 5}, {left, right}), "none");
  EXPECT_EQ(cause({2, 5}, {left}), "hole");
  EXPECT_EQ(cause({2, 5}, {left, right, left}), "overlap");
  EXPECT_EQ(cause({2, 5}, {left, {{0, 1}, {2, 3}, {3, 1}}}), "overlap");
  EXPECT_EQ(cause({2, 5}, {left, {{0, 3}, {2, 3}, {3, 1}}}), "bad_shape");
  EXPECT_EQ(cause({2, 5}, {left, {{0}, {2}, {1}}}), "bad_shape");
  EXPECT_EQ(cause({2, 5}, {left, {{0, INT64_MAX}, {2, 3}, {3, 1}}}), "bad_shape");
  EXPECT_EQ(cause({0, 5}, {}), "none");
  EXPECT_EQ(cause({}, {}), "hole");
}

TEST(TorchFile, ViewsOfOneStorageAreReadRight) {
  const TemporaryFolder folder;
  std::string data;
  for (int i = 0; i < 4; ++i) data += raw(static_cast<float>(i));
  const auto entry = [](const std::string& name, const PickledTensor& tensor) {
    return pickled(name) + pickled(tensor);
  };
  write_bytes(folder / "x.pt",
              torch_bytes("}(" + entry("plain", {}) + entry("turned", {.strides = {1, 2}}) +
                              entry("last", {.first = 3, .sizes = {}, .strides = {}}) +
                              entry("wide", {.first = 1, .sizes = {3}, .strides = {0}}) +
                              entry("none", {.sizes = {0, 2}}) +
                              entry("row", {.first = 2, .sizes = {1, 2}, .strides = {77, 1}}) + "u",
                          data));
  const Checkpoint checkpoint = Checkpoint::open(folder / "x.pt");
  EXPECT_EQ(checkpoint.format(), Format::safetensors);
  const auto values = [&](const char* name) {
    const StoredTensor& tensor = checkpoint.at(name);
    std::vector<double> read(static_cast<std::size_t>(tensor.elements()));
    checkpoint.numbers(tensor).decode<double>(read);
    return read;
  };
  EXPECT_EQ(values("plain"), (std::vector<double>{0, 1, 2, 3}));
  EXPECT_EQ(values("turned"), (std::vector<double>{0, 2, 1, 3}));
  EXPECT_EQ(values("last"), (std::vector<double>{3}));
  EXPECT_EQ(values("wide"), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(values("none"), (std::vector<double>{}));
  EXPECT_EQ(values("row"), (std::vector<double>{2, 3}));
  for (const char* name : {"plain", "last", "none", "row"}) {
    EXPECT_EQ(checkpoint.bytes(checkpoint.at(name)).size(),
              4 * static_cast<std::size_t>(checkpoint.at(name).elements()));
  }
  EXPECT_EQ(checkpoint.at("turned").type_name(), "F32");
}

TEST(TorchFile, SaysWhichFilesItDoesNotOpen) {
  const TemporaryFolder folder;
  const auto expect = [&](const char* name, const std::string& bytes, const std::string& said) {
    write_bytes(folder / name, bytes);
    try {
      Checkpoint::open(folder / name);
      ADD_FAILURE() << said;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(said), std::string::npos) << error.what();
    }
  };
  const std::string pickle = "\x80\x02}.";
  expect("x.bin", "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", "before 1.6");
  expect("x.bin", pickle, "a bare pickle");
  expect("x.pt", "hello", "not what torch.save writes");
  expect("__0_0.distcp", zip_bytes({}), "name its folder");
  expect(".metadata", pickle, "name its folder");
  expect("x.bin", zip_bytes({{"word/document.xml", ""}}), "no data.pkl");
  expect("x.pt", zip_bytes({{"x/data.pkl", pickle}, {"y/data.pkl", pickle}}), "more than one");
  expect("x.pt", zip_bytes({{"x/data.pkl", pickle}, {"x/constants.pkl", ""}}), "TorchScript");
  expect("x.pt", zip_bytes({{"x/data.pkl", pickle}, {"x/byteorder", "big"}}), "big-endian");
  expect("x.pt", zip_bytes({{"x/data.pkl", pickle}}), "no tensors");
  std::string compressed = zip_bytes({{"x/data.pkl", pickle}});
  compressed[compressed.find("PK\1\2") + 10] = 8;
  expect("x.pt", compressed, "is compressed");
}

// Written by megatron-core 0.16.1, two processes: 0 ... 59 in BF16 as [10, 6], halved by rows and
// by columns; the same and one more as two layers; five ones; and a state of each process.
TEST(Distributed, MegatronsFolderIsRead) {
  const Checkpoint checkpoint = Checkpoint::open(fixture("torch_dist"));
  ASSERT_EQ(checkpoint.tensors().size(), 4U);
  for (const char* name : {"decoder.w", "decoder.c", "decoder.layers.w", "norm"}) {
    const StoredTensor& tensor = checkpoint.at(name);
    std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
    checkpoint.numbers(tensor).decode<double>(values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool ones = tensor.dtype == DType::f32;
      const auto expected = static_cast<double>(i % 60 + i / 60);
      ASSERT_EQ(values[i], ones ? 1 : expected) << name;
    }
  }
  EXPECT_EQ(checkpoint.at("decoder.layers.w").shape, (Sizes{2, 10, 6}));
  EXPECT_EQ(checkpoint.at("decoder.c").type_name(), "BF16");
}

}  // namespace
}  // namespace regauge
