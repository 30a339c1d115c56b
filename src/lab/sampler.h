#pragma once

#include <memory>
#include <utility>

#include "regauge/base/random.h"
#include "regauge/lab/data.h"

namespace regauge::lab {

// Batches of examples drawn at random, with replacement, from the stream "batches" of a seed.
class Sampler {
 public:
  Sampler(std::shared_ptr<const Data> data, std::int64_t size, std::uint64_t seed)
      : data_(std::move(data)),
        random_(seed, "batches"),
        examples_(static_cast<std::size_t>(size)) {}

  void skip() {
    for (auto& example : examples_) example = random_.below(data_->size());
  }
  Batch next() {
    skip();
    return data_->batch(examples_);
  }

 private:
  std::shared_ptr<const Data> data_;
  Random random_;
  std::vector<std::int64_t> examples_;
};

}  // namespace regauge::lab
