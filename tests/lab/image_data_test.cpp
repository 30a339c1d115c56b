#include "data_fixture.h"

namespace regauge::lab {
namespace {

class IdxTest : public DataTest {
 protected:
  // Pixels 0, 1, 2, ...: two 2x4 pictures for training, one for testing.
  IdxTest() {
    std::string pixels(24, '\0');
    std::iota(pixels.begin(), pixels.end(), '\0');
    write("train-images-idx3-ubyte", idx_images(2, 2, 4, pixels.substr(0, 16)));
    write("train-labels-idx1-ubyte", idx_labels(2, "\x03\x01"));
    write("t10k-images-idx3-ubyte", idx_images(1, 2, 4, pixels.substr(16)));
    write("t10k-labels-idx1-ubyte", idx_labels(1, std::string(1, '\0')));
  }
  std::unique_ptr<Data> open(const Architecture& a, Split split = Split::all,
                             std::int64_t length = 0) const {
    return open_data(spec("idx"), a, split, length);
  }
};

TEST_F(IdxTest, CutsPatchesRowByRow) {
  const auto data = open(classifier(4, 2, 4));
  EXPECT_EQ(labels(*data), (Numbers{3, 1, 0}));
  const Batch last = batch(*data, {2, 1});
  EXPECT_EQ(last.length, 2);
  Matrix<float> pixels(4, 4);
  pixels << 16, 17, 20, 21, 18, 19, 22, 23, 8, 9, 12, 13, 10, 11, 14, 15;
  const Matrix<float> expected = ((pixels.array() / 255 - 0.1307F) / 0.3081F).matrix();
  EXPECT_TRUE(last.vectors.isApprox(expected, 1e-6F)) << last.vectors;
  EXPECT_EQ(labels(*open(classifier(1, 8, 4), Split::train)), (Numbers{3, 1}));
  EXPECT_EQ(labels(*open(classifier(1, 8, 4), Split::test)), (Numbers{0}));
}

TEST_F(IdxTest, RefusesArchitecturesThatDoNotFit) {
  expect_error<UsageError>(
      [&] { open(classifier(5, 8, 4)); },
      "images are 2x4 with 1 channel; input_width must be that of a square patch that tiles them, "
      "one of 1, 4, this architecture has 5");
  expect_error<UsageError>([&] { open(classifier(4, 2, 3)); },
                           "there is a class 3; classes must be above 3, this architecture has 3");
  expect_error<UsageError>([&] { open(classifier(4, 4, 4), Split::all, 3); },
                           "patches of 2x2 give 2 positions; the length cannot be 3");
  Architecture a = classifier(4, 2, 4);
  a.class_token = true;
  expect_error<UsageError>([&] { open(a); },
                           "2 positions and the class token need max_positions of at least 3, this "
                           "architecture has 2");
  a.position_table = PositionTable::none;
  EXPECT_EQ(batch(*open(a, Split::all, 2), {0}).length, 2);
}

TEST_F(IdxTest, RefusesCorruptFiles) {
  const auto refuse = [&](Corruption cause, const std::string& images, const std::string& part) {
    write("train-images-idx3-ubyte", images);
    expect_corrupt(
        cause, [&] { open(classifier(4, 2, 4)); }, part);
  };
  const std::string pixels(16, 'x');
  refuse(Corruption::header_too_short, "abc", "has 3 bytes and cannot hold its header");
  refuse(Corruption::bad_magic, idx_labels(16, pixels), "begins with 0x801, not with 0x803");
  refuse(Corruption::bad_shape, idx_images(2, 0, 4, ""), "dimension 1 is 0");
  refuse(Corruption::bad_shape, idx_images(0xffffffff, 0xffffffff, 4, ""),
         "dimension 1 is 4294967295");
  refuse(Corruption::size_mismatch, idx_images(0xffffffff, 0xffff, 0xffff, pixels),
         "and has 16; was the download cut short?");
  refuse(Corruption::size_mismatch, idx_images(2, 2, 4, pixels + "x"),
         "describes 16 bytes and has 17");
  refuse(Corruption::size_mismatch, idx_images(1, 4, 4, pixels), "train has 1 images and 2 labels");
  refuse(Corruption::size_mismatch, idx_images(2, 4, 2, pixels),
         "the images of t10k are 2x4, those of the training part 4x2");
}

TEST_F(DataTest, CifarPatchesHaveChannelAfterChannel) {
  // Pixel (y, x) of channel c: 60 c + 4 (y / 16) + 2 (x / 16) + (x % 16 ? 1 : 0).
  std::string record(1, '\x07');
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < 32; ++y) {
      for (int x = 0; x < 32; ++x) {
        record += static_cast<char>(60 * c + 4 * (y / 16) + 2 * (x / 16) + (x % 16 ? 1 : 0));
      }
    }
  }
  write("data_batch_2.bin", record);
  write("data_batch_2.bin.gz", "not looked at: there is a plain one");
  record[0] = '\x02';
  write("data_batch_1.bin", record + record);
  record[0] = '\0';
  write("test_batch_first.bin", record);
  write("batches.meta.txt", "airplane");
  const Architecture a = classifier(3 * 16 * 16, 4, 10);
  EXPECT_EQ(labels(*open_data(spec("cifar"), a, Split::all)), (Numbers{2, 2, 7, 0}));
  EXPECT_EQ(labels(*open_data(spec("cifar"), a, Split::test)), (Numbers{0}));
  const Batch one = batch(*open_data(spec("cifar"), a, Split::train), {2});
  ASSERT_EQ(one.vectors.rows(), 4);
  ASSERT_EQ(one.vectors.cols(), 768);
  // Patch 2 is the lower left one: pixels of value 4 (its first column) and 5, and so on.
  EXPECT_NEAR(one.vectors(2, 0), (4 / 255. - 0.4914) / 0.2470, 1e-5);
  EXPECT_NEAR(one.vectors(2, 255), (5 / 255. - 0.4914) / 0.2470, 1e-5);
  EXPECT_NEAR(one.vectors(2, 256), (64 / 255. - 0.4822) / 0.2435, 1e-5);
  EXPECT_NEAR(one.vectors(3, 512 + 16), (126 / 255. - 0.4465) / 0.2616, 1e-5);

  expect_error<UsageError>(
      [&] { open_data(spec("cifar"), classifier(49, 64, 10), Split::train); },
      "images are 32x32 with 3 channels; input_width must be that of a square patch that tiles "
      "them, one of 3, 12, 48, 192, 768, 3072, this architecture has 49");
  for (const std::string& bytes : {record + "x", std::string()}) {
    write("data_batch_1.bin", bytes);
    expect_corrupt(
        Corruption::truncated, [&] { open_data(spec("cifar"), a, Split::train); },
        "no whole number of records (a label and 3072 pixels)");
  }
}

}  // namespace
}  // namespace regauge::lab
