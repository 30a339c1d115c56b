#include "regauge/lab/activations.h"

#include "regauge/lab/forward.h"
#include "sampler.h"

namespace regauge::lab {
namespace {

class DataActivations final : public PairActivations {
 public:
  DataActivations(const Architecture& architecture, Parameters<float> a, Parameters<float> b,
                  Sampler sampler, std::int64_t batches)
      : architecture_(architecture),
        a_(std::move(a)),
        b_(std::move(b)),
        sampler_(std::move(sampler)),
        left_(batches) {}

  std::int64_t batches() const override { return left_; }

  void next(Taps<float>& a, Taps<float>& b) override {
    const Batch batch = sampler_.next();
    forward(architecture_, a_, batch, &a);
    forward(architecture_, b_, batch, &b);
    --left_;
  }

 private:
  Architecture architecture_;
  Parameters<float> a_, b_;
  Sampler sampler_;
  std::int64_t left_;
};

}  // namespace

std::unique_ptr<PairActivations> make_activations(const Architecture& architecture,
                                                  Parameters<float> a, Parameters<float> b,
                                                  std::shared_ptr<const Data> data,
                                                  std::int64_t batches, std::int64_t size,
                                                  std::uint64_t seed) {
  return std::make_unique<DataActivations>(architecture, std::move(a), std::move(b),
                                           Sampler(std::move(data), size, seed), batches);
}

}  // namespace regauge::lab
