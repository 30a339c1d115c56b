#include "data_fixture.h"

namespace regauge::lab {
namespace {

TEST_F(DataTest, RefusesUnknownKinds) {
  for (const char* spec : {"mnist:x", "bytes", "", ":x", "Bytes:x"}) {
    expect_error<UsageError>([&] { open_data(spec, language_model(256, 4), Split::all); },
                             std::string("[data] '") + spec +
                                 "' is not KIND:PATH with a kind among bytes, tokens, text, idx, "
                                 "cifar, clinc, csv, wav");
  }
}

TEST_F(DataTest, RefusesArchitecturesThatCannotTakeTheData) {
  write("x", "abcdefgh");
  const auto open = [&](const std::string& kind, const Architecture& a) {
    return [this, kind, a] { open_data(spec(kind, "x"), a, Split::all); };
  };
  const Architecture causal = language_model(256, 4);
  expect_error<UsageError>(open("bytes", classifier(4, 4, 2)), "input must be 'tokens'");
  expect_error<UsageError>(open("idx", causal), "input must be 'vectors'");
  Architecture a = causal;
  a.output = Output::hidden;
  expect_error<UsageError>(open("bytes", a), "output must be 'tokens'");
  expect_error<UsageError>(open("clinc", causal), "output must be 'classes'");
  a = causal;
  a.causal = false;
  expect_error<UsageError>(open("bytes", a), "causal must be true");
}

TEST_F(DataTest, ATokenizerGoesWithText) {
  write("x", "abc");
  expect_error<UsageError>(
      [&] { open_data(spec("bytes", "x"), language_model(256, 2), Split::all, 0, "t.vocab"); },
      "a tokenizer is for 'text:' alone");
  expect_error<UsageError>(
      [&] { open_data(spec("text", "x"), language_model(256, 2), Split::all); },
      "a text needs a tokenizer");
}

TEST_F(DataTest, RefusesFilesThatAreNotThere) {
  const Architecture a = language_model(256, 2), c = classifier(4, 4, 2);
  expect_error<FileError>([&] { open_data(spec("bytes", "x"), a, Split::all); },
                          "[bytes] " + path("x") + ": cannot open");
  expect_error<FileError>([&] { open_data(spec("bytes"), a, Split::all); }, "cannot open");
  expect_error<FileError>([&] { open_data(spec("idx"), c, Split::all); },
                          "train-images-idx3-ubyte.gz");
  expect_error<FileError>([&] { open_data(spec("cifar", "x"), c, Split::train); },
                          "no data_batch*.bin or data_batch*.bin.gz");
  expect_error<FileError>([&] { open_data(spec("wav"), c, Split::all); }, "no .wav files there");
}

// Whatever a file holds, it is refused with an Error or read.
TEST_F(DataTest, SurvivesEveryCutAndEveryChangedByte) {
  struct Case {
    std::string spec, file, bytes, tokenizer;
    Architecture architecture;
  };
  write("text", "ab ab\n");
  write("train-images-idx3-ubyte", idx_images(1, 2, 2, "abcd"));
  write("train-labels-idx1-ubyte", idx_labels(1, "\x01"));
  write("t10k-labels-idx1-ubyte", idx_labels(1, "\x01"));
  Architecture queries = classifier(0, 5, 1);
  queries.input = Input::tokens;
  queries.vocabulary = 258;
  const std::vector<Case> cases{
      {spec("bytes", "x.gz"), "x.gz", kGzipped, "", language_model(256, 2)},
      {spec("text", "text"), "t.bin",
       llama2c({{"<unk>", 0.F}, {"\n<s>\n", 0.F}, {" ", 0.F}, {"a", -1.F}, {" a", -2.F}}),
       path("t.bin"), language_model(5, 2)},
      {spec("text", "text"), "t.vocab", "<unk>\n<s>\na\nb\n \n", path("t.vocab"),
       language_model(5, 2)},
      {spec("idx"), "t10k-images-idx3-ubyte", idx_images(1, 2, 2, "abcd"), "", classifier(4, 1, 2)},
      {spec("clinc"), "data_full.json", R"({"train":[["a","b"]],"test":[["c","b"]]})", "", queries},
      {spec("csv", "x.csv"), "x.csv", "1,\"a, \"\"b\n\"\r\n1,c\n", "", queries},
      {spec("wav"), "a_1.wav", wav({0, 0.5, -1}), "", classifier(3, 2, 1)}};
  for (const Case& c : cases) {
    const auto opens = [&](const std::string& bytes) {
      write(c.file, bytes);
      try {
        labels(*open_data(c.spec, c.architecture, Split::all, 0, c.tokenizer));
        return true;
      } catch (const Error&) {
        return false;
      }
    };
    EXPECT_TRUE(opens(c.bytes)) << c.spec;
    for (std::size_t at = 0; at < c.bytes.size(); ++at) {
      opens(c.bytes.substr(0, at));
      for (const int change : {0x01, 0x80, 0xff}) {
        std::string bytes = c.bytes;
        bytes[at] = static_cast<char>(bytes[at] ^ change);
        opens(bytes);
      }
    }
  }
}

}  // namespace
}  // namespace regauge::lab
