#pragma once

#include <nlohmann/json_fwd.hpp>

#include <filesystem>

#include "regauge/arch/parameters.h"
#include "regauge/lab/objective.h"

namespace regauge::lab {

// How a model is trained: AdamW, the learning rate warmed up linearly and then lowered along a half
// cosine, weight decay on matrices and tables, the gradient cut to length `clip`.
struct Training {
  std::string data;             // KIND:PATH
  std::string test_data;        // KIND:PATH; empty: the test part of `data`
  std::string tokenizer;        // of text
  std::string from;             // a model to begin with; empty: from scratch
  std::string reinit;           // the part of it (a Scope) that starts anew; empty: none
  std::string freeze = "rest";  // what does not train beside that part: rest, or none
  std::int64_t length = 0;      // positions; 0: the architecture's max_positions
  std::int64_t steps = 2000;
  std::int64_t batch = 32;
  std::int64_t warmup = 100;
  double deviation = 0;  // of the first weights; 0: 1/sqrt(inputs)
  double learning_rate = 1e-3;
  double final_fraction = 0.1;  // of the learning rate, at the end
  double weight_decay = 0.1;
  double beta1 = 0.9, beta2 = 0.95;
  double clip = 1;
  std::uint64_t seed = 1;
  std::int64_t test_every = 500;
  std::int64_t test_examples = 500;  // 0: all
};

nlohmann::json to_json(const Training& training);
// Absent keys at their defaults; throws UsageError for unknown ones and for values out of range.
Training training_from_json(const nlohmann::json& json);

// Where training starts: what is not taken from a model, each tensor from its own stream of the
// seed. Weights normal with the deviation that is asked for, those that write to the stream smaller
// by sqrt(2 layers), tables of deviation 0.02, gains 1, biases 0. Throws UsageError if the model
// that is begun with is of another architecture.
Parameters<float> initial_parameters(const Architecture& architecture, const Training& training);

// Trains from `start` and writes a folder of the family `regauge`, with training.json and
// metrics.jsonl beside the weights. While it runs the work lies in OUTPUT.partial; the same call
// goes on from there, to the same numbers on one thread. Progress counts steps. Returns the final
// score on the test data, all of it.
Score train(const Architecture& architecture, const Training& training,
            const Parameters<float>& start, const std::filesystem::path& output,
            Progress& progress);

// Of libtorch's own loops; 0: as many as there are cores.
void set_threads(int count);

}  // namespace regauge::lab
