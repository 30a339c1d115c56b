#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "regauge/arch/parameters.h"

namespace regauge::lab {

// Inputs of one forward pass, all of the same length, sequence after sequence.
struct Batch {
  std::int64_t sequences = 0;
  std::int64_t length = 0;            // positions of each, without the class token
  std::vector<std::int64_t> tokens;   // sequences * length (Input::tokens); -1: a vector
  std::vector<std::int64_t> types;    // sequences * length, or empty: all of type 0
  Matrix<float> vectors;              // sequences * length rows (Input::vectors), or of sources
  std::int64_t source_length = 0;     // of what an encoder reads
  std::vector<std::int64_t> source;   // sequences * source_length tokens; none if it is vectors
  std::vector<std::int64_t> targets;  // by position (Output::tokens) or by sequence (classes);
                                      // kIgnore does not count
};

inline constexpr std::int64_t kIgnore = -1;

// Which part of a data set. `all` of a folder that has its own split is both parts together; a
// single file without one gives its first nine tenths to `train` and the rest to `test`.
enum class Split { all, train, test };

// Examples by number, so that who trains draws at random and who evaluates walks in order.
class Data {
 public:
  virtual ~Data() = default;
  virtual std::int64_t size() const = 0;  // at least 1
  // An evaluation visits 0, stride, 2 stride, ...: the windows of a token stream overlap, and no
  // token is predicted twice.
  virtual std::int64_t stride() const { return 1; }
  virtual Batch batch(std::span<const std::int64_t> examples) const = 0;  // each in [0, size())
};

// `spec` is KIND:PATH, where a path may begin with $NAME of the environment; every file may be
// gzipped. Throws UsageError for an unknown kind and for data that the architecture cannot take
// (the message says which field of it must be what), FileError, CorruptFile.
//   bytes:FILE   the file's bytes as tokens 0..255
//   tokens:FILE  token numbers: decimal text, or .bin with little-endian uint16
//   text:FILE    text through `tokenizer`, a file: llama2.c's tokenizer .bin, or a .vocab with one
//                piece per line (one token per character)
//   idx:DIR      MNIST's files, cut into square patches
//   cifar:DIR    CIFAR-10's binary batches, cut into square patches
//   clinc:DIR    data_full.json: 256 begins, then the bytes of the query, 257 fills up. The classes
//                are the intents, or the domains of domains.json: whose number `classes` is
//   csv:FILE     records of a class (a whole number) and texts, no header: 0 begins, then the words
//                of the texts, 1 fills up, 2 is a rare word. The rows of the vocabulary that are
//                left are the most frequent words of the training part: four fifths of the
//                records, by a fixed shuffle
//   wav:DIR      LABEL_*_TAKE.wav, 16-bit mono: a log spectrum of input_width numbers every 16 ms;
//                takes 0 to 4 are for testing
// An example of bytes, tokens and text is a window at any place of the stream; where the text has
// <|endoftext|> in it, an example is the beginning of a story, short ones filled up with kIgnore.
// Patches go row by row, the numbers of one are ordered as a ViT's convolution reads them: channel,
// row, column. `length` is the number of positions of each example (0: all that the architecture
// has; pictures have as many as patches).
std::unique_ptr<Data> open_data(const std::string& spec, const Architecture& architecture,
                                Split split, std::int64_t length = 0,
                                const std::string& tokenizer = {});

}  // namespace regauge::lab
