#include "path_sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace regauge {
namespace {

constexpr double kMemory = 0.8;

}  // namespace

PathSampler::PathSampler(std::uint64_t seed) : random_(seed, "path") {
  losses_.fill(std::numeric_limits<double>::infinity());
}

double PathSampler::draw() {
  const double anywhere = random_.uniform();
  if (draws_++ % 2 == 0) return anywhere;
  const auto worst = std::max_element(losses_.begin(), losses_.end()) - losses_.begin();
  return (static_cast<double>(worst) + anywhere) / static_cast<double>(kParts);
}

void PathSampler::note(double t, double loss) {
  double& mean = losses_.at(static_cast<std::size_t>(t * static_cast<double>(kParts)));
  mean = std::isfinite(mean) ? kMemory * mean + (1 - kMemory) * loss : loss;
}

void PathSampler::restore(std::int64_t draws, const std::array<double, kParts>& losses) {
  for (; draws_ < draws; ++draws_) random_.uniform();
  losses_ = losses;
}

}  // namespace regauge
