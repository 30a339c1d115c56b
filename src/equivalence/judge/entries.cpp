#include "entries.h"

#include <algorithm>
#include <limits>

#include "equivalence/tolerances.h"

namespace regauge {
namespace {

constexpr double kByFar = 8;  // times what rounding allows

double in_units(double difference, double allowed) {
  if (difference == 0) return 0;
  return allowed > 0 ? difference / allowed : std::numeric_limits<double>::infinity();
}

}  // namespace

void Entries::add(const Number& a, const Number& b) {
  ++count_;
  squares_ += a.value * a.value;
  ++with_room_;
  room_a_ += (a.below + a.above) * (a.below + a.above) / 12;
  room_b_ += (b.below + b.above) * (b.below + b.above) / 12;
  if (a.value == b.value || (std::isnan(a.value) && std::isnan(b.value))) return;
  ++unequal_;
  const double difference = b.value - a.value;
  squared_residual_ += difference * difference;
  const double size =
      std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::abs(difference);
  const bool b_higher = difference > 0;
  const double around_a = b_higher ? a.above : a.below, around_b = b_higher ? b.below : b.above;
  b_rounds_a_ = std::max(b_rounds_a_, in_units(size, around_b));
  a_rounds_b_ = std::max(a_rounds_b_, in_units(size, around_a));
  both_round_ = std::max(both_round_, in_units(size, around_a + around_b));
}

void Entries::add_equal(const Matrix<double>& values) {
  count_ += values.size();
  with_room_ += values.size();
  squares_ += values.squaredNorm();
}

bool Entries::certainly_differ() const {
  return std::min({b_rounds_a_, a_rounds_b_, both_round_}) > kByFar;
}

void Entries::add_values(std::span<const double> a, std::span<const double> b) {
  count_ += static_cast<std::int64_t>(a.size());
  double squares = 0, residual = 0;
  std::int64_t unequal = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = b[i] - a[i];
    squares += a[i] * a[i];
    residual += difference * difference;
    unequal += difference == 0 ? 0 : 1;
  }
  squares_ += squares;
  squared_residual_ += residual;
  unequal_ += unequal;
}

void Entries::judge(bool one_type, double most_hidden, TensorResidual& result) const {
  result.by_entry = true;
  const auto rms = [](double sum, std::int64_t count) {
    return std::sqrt(sum / static_cast<double>(std::max<std::int64_t>(count, 1)));
  };
  result.size = rms(squares_, count_);
  result.residual = rms(squared_residual_, count_);
  result.rounding = rms(room_a_ + room_b_, with_room_);
  if (unequal_ == 0) {
    result.relation = Relation::equal;
    return;
  }
  result.excess = std::min({b_rounds_a_, a_rounds_b_, both_round_});
  if (one_type) {
    result.relation = Relation::differs;
    result.excess = std::max(result.excess, kDiffers);
    result.standing_out =
        count_ > unequal_ ? std::to_string(unequal_) + " of " + std::to_string(count_) + " numbers"
                          : "all numbers";
    return;
  }
  const double slack = 1 + kHalfUnitSlack;
  if (b_rounds_a_ <= slack) {
    result.relation = Relation::b_rounds_a;
    result.rounding = rms(room_b_, with_room_);
    result.excess = std::min(b_rounds_a_, 1.0);
  } else if (a_rounds_b_ <= slack) {
    result.relation = Relation::a_rounds_b;
    result.rounding = rms(room_a_, with_room_);
    result.excess = std::min(a_rounds_b_, 1.0);
  } else if (both_round_ <= slack) {
    result.relation =
        result.rounding > most_hidden * result.size ? Relation::hidden : Relation::both_round;
    result.excess = std::min(both_round_, 1.0);
  }
}

}  // namespace regauge
