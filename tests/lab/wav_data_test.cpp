#include <cmath>
#include <numbers>

#include "data_fixture.h"

namespace regauge::lab {
namespace {

float feature(double amplitude) {
  return static_cast<float>((std::log(amplitude * amplitude + 1e-8) + 14.4) / 3.5);
}

TEST_F(DataTest, ASineShowsInItsBand) {
  // Of three bands up to 4000 Hz, the second is half way on the mel scale.
  const double middle = 700 * (std::sqrt(1 + 4000 / 700.) - 1);
  std::vector<double> sine;
  for (int t = 0; t < 512; ++t) {
    sine.push_back(std::sin(2 * std::numbers::pi * middle * t / 8000) / 4);
  }
  write("yes_7.wav", wav(sine));
  write("no_me_12.wav", wav({}));
  write("yes_you_4.wav", wav({}));
  write("readme.txt", "no sound");
  Architecture a = classifier(3, 6, 2);
  a.class_token = true;
  const auto train = open_data(spec("wav"), a, Split::train);
  EXPECT_EQ(labels(*train), (Numbers{0, 1}));
  EXPECT_EQ(labels(*open_data(spec("wav"), a, Split::test)), (Numbers{1}));
  EXPECT_EQ(labels(*open_data(spec("wav"), a, Split::all)), (Numbers{0, 1, 1}));
  const Batch both = batch(*train, {1, 0});
  EXPECT_EQ(both.length, 5);
  ASSERT_EQ(both.vectors.rows(), 10);
  ASSERT_EQ(both.vectors.cols(), 3);
  for (int frame = 0; frame < 3; ++frame) {  // those that the sine fills: 256 of 512, every 128
    EXPECT_NEAR(both.vectors(frame, 1), feature(0.25), 1e-3);
    EXPECT_LT(both.vectors(frame, 0), feature(0.001));
    EXPECT_LT(both.vectors(frame, 2), feature(0.001));
  }
  EXPECT_NEAR(both.vectors(3, 1), feature(0.125), 1e-2);  // half of a symmetric window
  EXPECT_NEAR(both.vectors(4, 1), feature(0), 1e-5);
  EXPECT_TRUE(both.vectors.bottomRows(5).isConstant(feature(0), 1e-5F));
}

TEST_F(DataTest, RefusesSoundsThatItCannotTake) {
  const Architecture a = classifier(3, 2, 1);
  const auto open = [&] { open_data(spec("wav"), a, Split::all); };
  const auto refuse = [&](Corruption cause, const std::string& file, const std::string& part) {
    write("a_1.wav", file);
    expect_corrupt(cause, open, part);
  };
  const std::string data = chunk("data", "abcd");
  refuse(Corruption::bad_magic, "RIFF", "not a RIFF WAVE file");
  refuse(Corruption::bad_magic, "RIFX" + riff("").substr(4), "not a RIFF WAVE file");
  refuse(Corruption::truncated, riff(format(8000) + data.substr(0, 11)), "inside its chunk 'data'");
  refuse(Corruption::truncated, riff("junk\xff\xff\xff\xff"), "inside its chunk 'junk'");
  refuse(Corruption::header_truncated, riff(data + format(8000)), "no chunk 'fmt ' and then");
  refuse(Corruption::header_truncated, riff(""), "no chunk 'fmt ' and then 'data'");
  for (const auto& bad : {format(8000, 3), format(8000, 1, 2), format(8000, 1, 1, 8),
                          chunk("fmt ", std::string("\1\0\1\0", 4))}) {
    refuse(Corruption::bad_header, riff(bad + data), "expected 16-bit PCM of one channel");
  }
  refuse(Corruption::bad_header, riff(format(4'000'000'000) + data),
         "4000000000 samples per second; expected 1000 to 192000");
  write("a_0.wav", wav({0}, 16000));
  refuse(Corruption::bad_header, wav({0}), "8000 samples per second, the others have 16000");

  expect_error<UsageError>([&] { open_data(spec("wav"), classifier(3, 2, 2), Split::all); },
                           "there are 1 labels; classes must be that, this architecture has 2");
  expect_error<UsageError>(
      [&] { open_data(spec("wav"), classifier(1 << 20, 1 << 20, 1), Split::all); },
      "are more than 2^30 numbers");
  for (const char* name : {"a.wav", "a_.wav", "a_x.wav", "a_-1.wav", "a_1x.wav"}) {
    write(name, wav({0}));
    expect_error<UsageError>(open, std::string("'") + name + "' is not named");
    std::filesystem::remove(folder_ / name);
  }
}

}  // namespace
}  // namespace regauge::lab
