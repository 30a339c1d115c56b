#include "vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace regauge {
namespace {

constexpr std::int64_t kPieceRows = 256;

// Every number of the tokens `from` to `to` is zero in a table that is stored token by token; false
// for one that is stored otherwise.
bool rows_are_zero(const Model& model, const std::string& parameter, std::int64_t from,
                   std::int64_t to) {
  const StoredTensor& tensor = model.checkpoint.at(model.layout.holder(parameter).name);
  const bool transposed = model.layout.pieces(parameter).front().place.transposed;
  const bool by_token = transposed == (parameter == "head.weight");
  if (!by_token || tensor.shape.size() != 2 || tensor.shape[0] < to) return false;
  const std::int64_t rows = tensor.shape[0], cols = tensor.shape[1];
  if (rows == 0 || cols % block_elements(tensor.dtype) != 0) return false;
  const Numbers stored = model.checkpoint.numbers(tensor);
  std::vector<double> values;
  for (std::int64_t row = from; row < to; row += kPieceRows) {
    const std::int64_t count = std::min(kPieceRows, to - row);
    values.resize(static_cast<std::size_t>(count * cols));
    stored.range(row * cols, count * cols).decode<double>(values);
    if (std::any_of(values.begin(), values.end(), [](double x) { return x != 0; })) return false;
  }
  model.checkpoint.release(tensor);
  return true;
}

}  // namespace

VocabularyNotes vocabulary_differences(const Model& a, const Model& b) {
  VocabularyNotes notes;
  const Architecture &left = a.architecture, &right = b.architecture;
  if (left.input != Input::tokens || right.input != Input::tokens ||
      left.vocabulary == right.vocabulary) {
    return notes;
  }
  const bool a_longer = left.vocabulary > right.vocabulary;
  const Model& longer = a_longer ? a : b;
  const std::int64_t first = std::min(left.vocabulary, right.vocabulary);
  const std::int64_t last = std::max(left.vocabulary, right.vocabulary) - 1;
  const std::string which = fmt::format(
      "{} has {} token{} more than {}, row{} {}", a_longer ? "A" : "B", last - first + 1,
      last == first ? "" : "s", a_longer ? "B" : "A", last == first ? "" : "s",
      last == first ? fmt::format("{}", first) : fmt::format("{} to {}", first, last));
  if (longer.architecture.output.has(Output::tokens)) {
    const char* table = longer.architecture.tied ? "embed.tokens" : "head.weight";
    const bool bias = longer.architecture.head_bias;
    const bool zero = !bias && rows_are_zero(longer, table, first, last + 1);
    notes.matter.push_back(
        which + (zero ? ": their rows are zero, as converters pad, but a logit of 0 still gets a "
                        "share of every softmax; both are compared on the tokens that they share"
                      : ": each gets a share of every softmax; both are compared on the tokens "
                        "that they share"));
  } else {
    notes.harmless.push_back(which + ": only inputs with these tokens reach them");
  }
  return notes;
}

}  // namespace regauge
