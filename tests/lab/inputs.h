#pragma once

#include "regauge/base/random.h"
#include "regauge/lab/data.h"

namespace regauge::testing {

// Generic inputs as long as the architecture's table of positions allows, 6 where there is none.
inline lab::Batch random_batch(const Architecture& a, std::int64_t sequences, std::uint64_t seed) {
  Random random(seed, "batch");
  const bool table = a.has_position_table();
  lab::Batch batch;
  batch.sequences = sequences;
  batch.length = table ? a.max_positions - (a.class_token ? 1 : 0) : 6;
  if (!a.convolutions.empty() && !a.encodes_vectors()) {
    while (a.encoded_positions(batch.length) < 6) ++batch.length;
  }
  const std::int64_t count = sequences * batch.length;
  if (a.encodes_vectors()) {  // as many as reach every row of the encoder's position table
    while (a.encoded_positions(batch.source_length + 1) <= a.source_positions()) {
      ++batch.source_length;
    }
  } else if (a.encoder_layers > 0) {
    batch.source_length = 5;
  }
  if (a.input_width > 0) {
    const bool of_sources = a.encodes_vectors();
    batch.vectors.resize(of_sources ? sequences * batch.source_length : count, a.vector_width());
    for (auto& entry : batch.vectors.reshaped()) entry = static_cast<float>(random.normal());
  }
  if (a.input == Input::tokens) {
    for (std::int64_t i = 0; i < count; ++i) {
      const bool among = a.input_width > 0 && !a.encodes_vectors();
      const bool vector = among && random.below(3) == 0;
      batch.tokens.push_back(vector ? -1 : random.below(a.vocabulary));
      if (a.token_types > 0) batch.types.push_back(random.below(a.token_types));
    }
  }
  const bool tokens = a.encoder_layers > 0 && !a.encodes_vectors();
  for (std::int64_t i = 0; tokens && i < sequences * batch.source_length; ++i) {
    batch.source.push_back(random.below(a.source_vocabulary()));
  }
  const bool one = a.reads_one_position() || a.mean_position;
  const std::int64_t targets = one ? sequences : count;
  for (std::int64_t i = 0; a.has_head() && i < targets; ++i) {
    batch.targets.push_back(random.below(a.outputs()));
  }
  return batch;
}

}  // namespace regauge::testing
