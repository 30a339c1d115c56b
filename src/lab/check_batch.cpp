#include "check_batch.h"

#include <fmt/format.h>

#include "regauge/base/error.h"

namespace regauge::lab {

void check_batch(const Architecture& a, const Batch& batch) {
  const auto expect = [](bool good, const std::string& problem) {
    if (!good) throw UsageError("the batch does not fit the architecture: " + problem);
  };
  const auto positions = static_cast<std::size_t>(batch.sequences * batch.length);
  const std::int64_t sources = batch.sequences * batch.source_length;
  expect(positions > 0, "it is empty");
  expect(batch.types.empty() || batch.types.size() == positions,
         "it needs a type for every position, or none");
  const bool vectors = batch.vectors.size() > 0 && !a.encodes_vectors();
  if (a.input == Input::tokens) {
    expect(batch.tokens.size() == positions, "it needs a token for every position");
  }
  if (a.input == Input::vectors || vectors) {
    expect(batch.vectors.rows() == static_cast<Eigen::Index>(positions) &&
               batch.vectors.cols() == a.vector_width(),
           fmt::format("it needs a vector of {} for every position", a.vector_width()));
  }
  expect(a.encoder_layers > 0 ? batch.source_length > 0 : batch.source.empty(),
         a.encoder_layers > 0 ? "it needs a source, which the encoder reads"
                              : "it has a source, and there is no encoder");
  if (a.encodes_vectors()) {
    expect(batch.vectors.rows() == sources && batch.vectors.cols() == a.input_width,
           fmt::format("it needs a vector of {} for every position of the source", a.input_width));
    expect(a.encoded_positions(batch.source_length) > 0, "its sources are too short");
  } else {
    expect(a.encoded_positions(batch.length) > 0, "its sequences are too short");
    expect(batch.source.size() == static_cast<std::size_t>(sources),
           "it needs sources of one length");
  }
  const auto expect_within = [&](const std::vector<std::int64_t>& tokens, std::int64_t vocabulary) {
    for (const std::int64_t token : tokens) {
      expect((token == -1 && vectors) || (token >= 0 && token < vocabulary),
             fmt::format("token {} is outside the vocabulary of {}", token, vocabulary));
    }
  };
  expect_within(batch.tokens, a.vocabulary);
  expect_within(batch.source, a.source_vocabulary());
  for (const std::int64_t type : batch.types) {
    expect(type >= 0 && type < a.token_types,
           fmt::format("type {} is outside the {} that there are", type, a.token_types));
  }
}

}  // namespace regauge::lab
