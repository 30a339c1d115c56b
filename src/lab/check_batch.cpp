#include "check_batch.h"

#include <fmt/format.h>

#include "regauge/base/error.h"

namespace regauge::lab {

void check_batch(const Architecture& a, const Batch& batch) {
  const auto expect = [](bool good, const std::string& problem) {
    if (!good) throw UsageError("the batch does not fit the architecture: " + problem);
  };
  const auto positions = static_cast<std::size_t>(batch.sequences * batch.length);
  expect(positions > 0, "it is empty");
  expect(batch.types.empty() || batch.types.size() == positions,
         "it needs a type for every position, or none");
  if (a.takes_tokens()) {
    expect(batch.tokens.size() == positions, "it needs a token for every position");
  }
  if (!a.takes_tokens() || batch.vectors.size() > 0) {
    expect(batch.vectors.rows() == static_cast<Eigen::Index>(positions) &&
               batch.vectors.cols() == a.input_width * a.vector_maps(),
           fmt::format("it needs a vector of {} for every position",
                       a.input_width * a.vector_maps()));
  }
  expect(a.encoder_layers > 0 ? batch.source_length > 0 : batch.source.empty(),
         a.encoder_layers > 0 ? "it needs a source, which the encoder reads"
                              : "it has a source, and there is no encoder");
  expect(batch.source.size() == static_cast<std::size_t>(batch.sequences * batch.source_length),
         "it needs sources of one length");
  for (const auto* tokens : {&batch.tokens, &batch.source}) {
    for (const std::int64_t token : *tokens) {
      const bool vector = token == kVector && batch.vectors.size() > 0;
      expect(vector || (token >= 0 && token < a.vocabulary),
             fmt::format("token {} is outside the vocabulary of {}", token, a.vocabulary));
    }
  }
  for (const std::int64_t type : batch.types) {
    expect(type >= 0 && type < a.token_types,
           fmt::format("type {} is outside the {} that there are", type, a.token_types));
  }
}

}  // namespace regauge::lab
