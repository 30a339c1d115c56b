#include <limits>

#include "data_fixture.h"

namespace regauge::lab {
namespace {

TEST_F(DataTest, BytesAreWindowsAndWhatFollows) {
  write("x", "abcdef\xff");
  const auto data = open_data(spec("bytes", "x"), language_model(256, 3), Split::all);
  EXPECT_EQ(data->size(), 4);
  EXPECT_EQ(data->stride(), 3);
  const Batch two = batch(*data, {3, 0});
  EXPECT_EQ(two.sequences, 2);
  EXPECT_EQ(two.length, 3);
  EXPECT_EQ(two.tokens, (Numbers{'d', 'e', 'f', 'a', 'b', 'c'}));
  EXPECT_EQ(two.targets, (Numbers{'e', 'f', 255, 'b', 'c', 'd'}));
  EXPECT_TRUE(two.types.empty());
  EXPECT_EQ(two.vectors.size(), 0);
}

TEST_F(DataTest, TrainingHasTheFirstNineTenths) {
  write("x", "abcdefghijklmnopqrs");  // 19: 17 and 2
  const Architecture a = language_model(256, 1);
  const auto train = open_data(spec("bytes", "x"), a, Split::train);
  const auto test = open_data(spec("bytes", "x"), a, Split::test);
  EXPECT_EQ(train->size(), 16);
  EXPECT_EQ(batch(*train, {15}).targets, Numbers{'q'});
  EXPECT_EQ(test->size(), 1);
  EXPECT_EQ(batch(*test, {0}).tokens, Numbers{'r'});
  expect_error<UsageError>([&] { open_data(spec("bytes", "x"), a, Split::test, 2); },
                           "2 positions need max_positions of at least 2, this architecture has 1");
}

TEST_F(DataTest, TheLengthMustFit) {
  write("x", "abcdef");
  Architecture a = language_model(256, 4);
  const auto open = [&](std::int64_t length) {
    return [this, a, length] { open_data(spec("bytes", "x"), a, Split::all, length); };
  };
  expect_error<UsageError>(open(5), "max_positions of at least 5");
  expect_error<UsageError>(open(-1), "-1 positions; give a length");
  a.position_table = PositionTable::none;  // goes beyond its context length
  EXPECT_EQ(open_data(spec("bytes", "x"), a, Split::all, 5)->size(), 1);
  expect_error<UsageError>(
      [&] { open_data(spec("bytes", "x"), a, Split::all, 6); },
      "6 tokens in this part are too few for a window of 6 and the token after it");
  expect_error<UsageError>(
      [&] { open_data(spec("bytes", "x"), a, Split::all, std::int64_t{1} << 62); },
      "give a length");
  a.max_positions = 0;
  expect_error<UsageError>([&] { open_data(spec("bytes", "x"), a, Split::all); },
                           "0 positions; give a length, or an architecture with max_positions");
}

TEST_F(DataTest, TheVocabularyMustHoldTheTokens) {
  write("x", "abz");
  expect_error<UsageError>(
      [&] { open_data(spec("bytes", "x"), language_model(122, 2), Split::all); },
      "there is a token 122; vocabulary must be at least 123, this architecture has 122");
  EXPECT_EQ(open_data(spec("bytes", "x"), language_model(123, 2), Split::all)->size(), 1);
}

TEST_F(DataTest, TokensAreDecimalOrUint16) {
  write("x.txt", " 7\n0\t512\r\n65536 ");
  write("x.bin", std::string("\x07\0\0\0\0\x02\xff\xff", 8));
  const Architecture a = language_model(70000, 3);
  const auto text = open_data(spec("tokens", "x.txt"), a, Split::all);
  EXPECT_EQ(batch(*text, {0}).tokens, (Numbers{7, 0, 512}));
  EXPECT_EQ(batch(*text, {0}).targets, (Numbers{0, 512, 65536}));
  const auto binary = open_data(spec("tokens", "x.bin"), a, Split::all);
  EXPECT_EQ(batch(*binary, {0}).targets, (Numbers{0, 512, 65535}));
}

TEST_F(DataTest, RefusesWhatIsNoToken) {
  const Architecture a = language_model(100, 1);
  for (const char* word : {"x", "-1", "1.5", "99999999999", "0x1", "+1"}) {
    write("x.txt", std::string("12 ") + word + " 3");
    expect_corrupt(
        Corruption::bad_entry, [&] { open_data(spec("tokens", "x.txt"), a, Split::all); },
        std::string("'") + word + "' at byte 3 is no token number");
  }
  write("x.bin", "abc");
  expect_corrupt(
      Corruption::truncated, [&] { open_data(spec("tokens", "x.bin"), a, Split::all); },
      "3 bytes are no whole number of uint16 tokens");
}

TEST_F(DataTest, UnpacksGzip) {
  write("x", kGzipped);
  const auto data = open_data(spec("bytes", "x"), language_model(256, 5), Split::all);
  EXPECT_EQ(batch(*data, {0}).targets, (Numbers{'b', 'c', 'd', 'e', 'f'}));
}

TEST_F(DataTest, RefusesDamagedGzip) {
  const Architecture a = language_model(256, 1);
  const auto open = [&] { open_data(spec("bytes", "x"), a, Split::all); };
  for (std::size_t length = 10; length < kGzipped.size(); ++length) {
    write("x", kGzipped.substr(0, length));
    expect_corrupt(Corruption::truncated, open, "was the download cut short?");
  }
  std::string wrong = kGzipped;
  wrong[18] ^= 1;  // the checksum
  write("x", wrong);
  expect_corrupt(Corruption::truncated, open, "cannot be read or unpacked");
}

TEST_F(DataTest, MergesTheBestNeighboursFirst) {
  // " abab": a+b (-1) twice, from the left; then ab+ab (-3) before " "+ab (-5); " "+abab is none.
  write("t.bin", llama2c({{"<unk>", 0.F},
                          {"\n<s>\n", 0.F},
                          {" ", -9.F},
                          {"a", -9.F},
                          {"b", -9.F},
                          {"ab", -1.F},
                          {" ab", -5.F},
                          {"abab", -3.F},
                          {"ba", -2.F}}));
  write("x", "abab");
  const auto data =
      open_data(spec("text", "x"), language_model(9, 2), Split::all, 0, path("t.bin"));
  EXPECT_EQ(data->size(), 1);
  EXPECT_EQ(batch(*data, {0}).tokens, (Numbers{1, 2}));
  EXPECT_EQ(batch(*data, {0}).targets, (Numbers{2, 7}));
}

TEST_F(DataTest, EqualScoresMergeFromTheLeft) {
  write("t.bin",
        llama2c({{"<unk>", 0.F}, {"\n<s>\n", 0.F}, {"a", 0.F}, {"aa", -1.F}, {"<0x0A>", 0.F}}));
  write("x", "aaaaa\n");  // no piece for the leading space
  const auto data =
      open_data(spec("text", "x"), language_model(5, 4), Split::all, 0, path("t.bin"));
  EXPECT_EQ(batch(*data, {0}).targets, (Numbers{3, 3, 2, 4}));
}

const char* const kVocab = "<unk>\t0\n<s>\t0\n</s>\t0\n\u2581\t-0\na\t-1\n\u00e9\t-2\n\t\t-3\n";

TEST_F(DataTest, CharactersByLineNumber) {
  write("t.vocab", kVocab);
  write("x", "a \u00e9\n\tz");
  const auto data =
      open_data(spec("text", "x"), language_model(7, 7), Split::all, 0, path("t.vocab"));
  EXPECT_EQ(batch(*data, {0}).tokens, (Numbers{1, 3, 4, 3, 5, 3, 6}));
  EXPECT_EQ(batch(*data, {0}).targets, (Numbers{3, 4, 3, 5, 3, 6, 0}));
}

TEST_F(DataTest, UnknownCharactersAreBytes) {
  write("t.vocab", "<0xC3>\n<0xA9>\na\n<0x0A>\n ");  // no scores, no begin, no leading space
  write("x", "a\u00e9 \na");
  const auto data =
      open_data(spec("text", "x"), language_model(5, 5), Split::all, 0, path("t.vocab"));
  EXPECT_EQ(batch(*data, {0}).tokens, (Numbers{2, 0, 1, 4, 3}));
  write("x", "a\u00e8b");  // only the first of its bytes is a piece
  expect_error<UsageError>(
      [&] { open_data(spec("text", "x"), language_model(5, 1), Split::all, 0, path("t.vocab")); },
      "the text holds '\u00e8', and the vocabulary has neither");
}

TEST_F(DataTest, StoriesBeginWindows) {
  write("t.vocab", kVocab);
  write("x", "\naa\n<|endoftext|>\n \n<|endoftext|>a\u00e9a\u00e9a<|endoftext|>\n");
  const Architecture a = language_model(7, 4);
  const auto data = open_data(spec("text", "x"), a, Split::all, 0, path("t.vocab"));
  EXPECT_EQ(data->size(), 2);
  EXPECT_EQ(data->stride(), 1);
  const Batch both = batch(*data, {0, 1});
  EXPECT_EQ(both.tokens, (Numbers{1, 3, 4, 0, 1, 3, 4, 5}));
  EXPECT_EQ(both.targets, (Numbers{3, 4, 4, kIgnore, 3, 4, 5, 4}));
  const auto test = open_data(spec("text", "x"), a, Split::test, 0, path("t.vocab"));
  EXPECT_EQ(test->size(), 1);
  EXPECT_EQ(batch(*test, {0}).targets, (Numbers{3, 4, 5, 4}));
  write("x", "<|endoftext|>");
  expect_error<UsageError>([&] { open_data(spec("text", "x"), a, Split::all, 0, path("t.vocab")); },
                           "there are no examples in this part of the data");
}

TEST_F(DataTest, RefusesBadTokenizers) {
  write("x", "abc");
  const auto open = [&](const std::string& name, const std::string& file) {
    write(name, file);
    return [this, name] {
      open_data(spec("text", "x"), language_model(7, 1), Split::all, 0, path(name));
    };
  };
  expect_error<UsageError>(open("t.model", ""), "expected llama2.c's .bin or a .vocab");
  expect_error<UsageError>(open("t.vocab", "a\nb\nc\n"),
                           "t.vocab has 3 pieces, this architecture's vocabulary 7");
  expect_corrupt(Corruption::duplicate_key, open("t.vocab", "a\nb\na\t3\n"),
                 "t.vocab:3: the piece 'a' is there twice");
  expect_corrupt(Corruption::bad_header, open("t.bin", raw(1)), "is this llama2.c's tokenizer?");
  expect_corrupt(Corruption::bad_entry,
                 open("t.bin", llama2c({{"a", std::numeric_limits<float>::quiet_NaN()}})),
                 "the score of piece 0 is no number");
  expect_corrupt(Corruption::truncated, open("t.bin", raw(1) + raw(0.F) + raw(-1) + "abc"),
                 "ends inside piece 0");
  const std::string whole = llama2c({{"<unk>", 0.F}, {"\n<s>\n", 0.F}, {"a", 0.F}});
  expect_corrupt(Corruption::truncated, open("t.bin", whole.substr(0, whole.size() - 1)),
                 "ends inside piece 2; was the download cut short?");
}

}  // namespace
}  // namespace regauge::lab
