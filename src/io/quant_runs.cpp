#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "quant_blocks.h"
#include "quants.h"

namespace regauge::io {
namespace {

// Levels are numbers, in order.
int lowest(std::span<const std::int8_t> levels) { return 0 + levels.front(); }
int highest(std::span<const std::int8_t> levels) { return 0 + levels.back(); }

// The most that rounding to F16 takes from a scale. Scales are often below its normal numbers.
double half_error(float scale) {
  return std::max(0x1p-11 * std::abs(static_cast<double>(scale)), 0x1p-25);
}

// Codes that the block uses, by their distance from what stands for zero (or from the first).
struct Reach {
  int lowest = 1 << 20, highest = -(1 << 20);
};
Reach reach_of(std::span<const float> values, float origin, float step) {
  Reach reach;
  if (step == 0) return {0, 0};
  for (const float value : values) {
    const int code = static_cast<int>(std::lround((value - origin) / step));
    reach.lowest = std::min(reach.lowest, code);
    reach.highest = std::max(reach.highest, code);
  }
  return reach;
}

// Where codes around zero leave out those that the quantiser would have used.
void set_used(Run& run, Reach reach, int farthest, double expected) {
  const double share =
      static_cast<double>(std::max(std::abs(reach.lowest), std::abs(reach.highest))) / farthest;
  run.used = share < expected ? share : 1;
}

constexpr double kExtreme = 0.9;  // of the codes: the extreme one is always used

// One scale, the largest number's, and codes up to `most` on both sides.
void extreme_run(float scale, double scale_error, std::span<const float> values, int most,
                 Run& run) {
  run.step = scale;
  run.step_error = scale_error;
  run.first_code = -most;
  run.last_code = most;
  set_used(run, reach_of(values, 0, scale), most, kExtreme);
}

// One scale for 32 numbers, chosen from their extremes and rounded to F16 afterwards.
void plain_run(DType dtype, const std::uint8_t* block, std::span<const float> values, Run& run) {
  run.step = scale_at(block, 0);
  run.step_error = half_error(scale_at(block, 0));
  const double step = std::abs(run.step);
  const bool symmetric = dtype == DType::q4_0 || dtype == DType::q5_0;
  const int codes = dtype == DType::q4_0 || dtype == DType::q4_1 ? 16 : 32;
  if (symmetric) {
    run.first_code = -codes / 2;
    run.last_code = codes / 2 - 1;
    run.cut_last = (step + run.step_error) / 2;  // an extreme of the other sign
    set_used(run, reach_of(values, 0, run.step), codes / 2, kExtreme);
    return;
  }
  run.origin = scale_at(block, 2);
  run.origin_error = half_error(run.origin);
  run.last_code = codes - 1;
  const Reach reach = reach_of(values, run.origin, run.step);
  const double share = static_cast<double>(reach.highest - reach.lowest) / (codes - 1);
  run.used = share < kExtreme ? share : 1;
}

// Scales of sub-blocks are multiples of the block's, which is rounded to F16; codes are chosen for
// the scale as stored. A sub-block whose scale or minimum was rounded has its extremes cut off, and
// the search for the scale cuts up to a step.
struct Search {
  double reach = 0.8;  // of the codes: the search for the scale may leave the last ones out
  double cut = 1.0;    // steps
  double gap = 0;      // codes: where there are few, what rounding takes from the reach
};
constexpr Search kQ2Search = {0.6, 2.0, 0.5}, kQ3Search = {0.7, 1.0, 0.5};

// What rounding takes from `factor` times the block's `unit`; the factor itself is rounded by at
// most `rounding`.
double factor_error(float unit, int factor, double rounding = 0.5) {
  const double error = half_error(unit);
  return rounding * (std::abs(unit) + error) + std::abs(factor) * error;
}

void set_sub_run(Run& run, Reach reach, int farthest, double step_error, double origin_error,
                 const Search& search = {}) {
  const double step = std::abs(run.step);
  const double least =
      search.reach * (step - step_error) - (origin_error + search.gap * step) / farthest;
  set_used(run, reach, farthest, step > 0 ? least / step : 0);
  run.cut_first = run.cut_last =
      search.cut * step * run.used + (farthest + search.cut) * step_error + origin_error;
}

// Scales in F16 that are the mean of 128 sizes; one of them may be all of it.
void sign_run(float scale, Run& run) {
  static constexpr std::array<std::int8_t, 2> kLevels = {-1, 1};
  run.step = scale;
  run.step_error = half_error(scale);
  run.first_code = -1;
  run.last_code = 1;
  run.levels = kLevels;
  run.cut_first = run.cut_last = 127 * (std::abs(scale) + run.step_error);
}

constexpr int kMostIq4 = 127;
constexpr Search kIq4Search = {0.8, 20, 12};

// Codes are chosen for the scale that was searched for, before it is rounded to F16.
void iq4_nl_run(float scale, std::span<const float> values, Run& run) {
  run.step = scale;
  run.step_error = half_error(scale);
  run.first_code = lowest(kIq4Levels);
  run.last_code = highest(kIq4Levels);
  run.levels = kIq4Levels;
  set_used(run, reach_of(values, 0, scale), kMostIq4, kIq4Search.reach - kIq4Search.gap / kMostIq4);
  run.cut_first = run.cut_last = kIq4Search.cut * std::abs(scale) * run.used;
}

// A power of two that lies below the largest size by a factor of 4 to 8, so that the extremes are
// cut off at 6; others choose it so that none is, with 3 at the least. Or the sixth part of the
// largest size as a float of three binary digits. Levels are doubled.
constexpr std::array<std::int8_t, 15> kFp4Sorted = {-12, -8, -6, -4, -3, -2, -1, 0,
                                                    1,   2,  3,  4,  6,  8,  12};
void mxfp4_run(float scale, std::span<const float> values, Run& run) {
  constexpr float kLeast = 0x1p-127F;  // levels are doubled; that of a block of zeros is no larger
  run.step = scale;
  run.first_code = -12;
  run.last_code = 12;
  run.levels = kFp4Sorted;
  set_used(run, reach_of(values, 0, scale), 12, scale > kLeast ? 0.5 : 0);
  run.cut_first = run.cut_last = 3 * std::abs(scale) * run.used;
}

void nvfp4_run(float scale, std::span<const float> values, Run& run) {
  constexpr double kLeast = 0x1p-10;  // the least scale
  run.step = scale;
  run.first_code = -12;
  run.last_code = 12;
  run.levels = kFp4Sorted;
  const Reach reach = reach_of(values, 0, scale);
  const double rounded = std::max(std::abs(scale) / 16.0, kLeast / 2);
  // Next to the highest level is 8.
  set_used(run, reach, 12, scale > 0 ? (scale - rounded) / scale - 2.0 / 12 : 0);
  run.cut_first = run.cut_last = 12 * rounded;
}

// Codewords are chosen jointly: a number need not have the level that is nearest to it, and the
// eighth sign of eight may be wrong. Scales of runs are odd multiples of the block's unit.
void joint_run(float scale, std::span<const std::int8_t> levels, Run& run) {
  run.step = scale;
  run.first_code = lowest(levels);
  run.last_code = highest(levels);
  run.levels = levels;
}

constexpr std::array<std::int8_t, 3> kIq1Levels = {-1, 0, 1};
constexpr std::array<std::int8_t, 6> kIq2Levels = {-43, -25, -8, 8, 25, 43};
constexpr std::array<std::int8_t, 16> kIq3XxsLevels = {-62, -52, -44, -36, -28, -20, -12, -4,
                                                       4,   12,  20,  28,  36,  44,  52,  62};
constexpr std::array<std::int8_t, 16> kIq3SLevels = {-15, -13, -11, -9, -7, -5, -3, -1,
                                                     1,   3,   5,   7,  9,  11, 13, 15};

// Runs of a block with codebooks, of 16 numbers or 32.
std::size_t joint_runs(std::size_t count, float (*scale)(const std::uint8_t*, std::size_t),
                       const std::uint8_t* block, std::span<const std::int8_t> levels, Run* runs) {
  for (std::size_t i = 0; i < count; ++i) {
    runs[i] = {};
    joint_run(scale(block, i), levels, runs[i]);
  }
  return count;
}

// Eight numbers each, shifted by an eighth of a step.
std::size_t shifted_runs(std::size_t per_scale, float (*scale)(const std::uint8_t*, std::size_t),
                         bool (*below)(const std::uint8_t*, std::size_t), const std::uint8_t* block,
                         Run* runs) {
  for (std::size_t i = 0; i < 32; ++i) {
    runs[i] = {};
    joint_run(scale(block, i / per_scale), kIq1Levels, runs[i]);
    runs[i].origin = runs[i].step * (below(block, i) ? -0.125f : 0.125f);
  }
  return 32;
}

}  // namespace

std::size_t runs_of(DType dtype, std::span<const std::byte> bytes, Run* runs) {
  const auto* block = reinterpret_cast<const std::uint8_t*>(bytes.data());
  std::array<float, 256> numbers;
  dequantise(dtype, bytes, numbers.data());
  const auto values = [&](std::size_t first, std::size_t count) {
    return std::span<const float>(numbers.data() + first, count);
  };
  runs[0] = {};
  switch (dtype) {
    case DType::q2_k:
      for (std::size_t i = 0; i < 16; ++i) {
        const Factor scale{scale_at(block, 80), block[i] & 15};
        const Factor minimum{scale_at(block, 82), block[i] >> 4};
        Run& run = runs[i] = {};
        run.step = scale.scale();
        run.origin = -minimum.scale();
        run.last_code = 3;
        set_sub_run(run, reach_of(values(16 * i, 16), run.origin, run.step), 3,
                    factor_error(scale.unit, scale.factor),
                    factor_error(minimum.unit, minimum.factor), kQ2Search);
      }
      return 16;
    case DType::q3_k:
      for (std::size_t i = 0; i < 16; ++i) {
        const Factor scale = q3_k_scale(block, i);
        Run& run = runs[i] = {};
        run.step = scale.scale();
        run.first_code = -4;
        run.last_code = 3;
        set_sub_run(run, reach_of(values(16 * i, 16), 0, run.step), 4,
                    factor_error(scale.unit, scale.factor, scale.factor == 31 ? 1.5 : 0.5), 0,
                    kQ3Search);
      }
      return 16;
    case DType::q4_k:
    case DType::q5_k:
      for (std::size_t sub = 0; sub < 8; ++sub) {
        const SubScale scales = sub_scale(block, sub);
        Run& run = runs[sub] = {};
        run.step = scales.scale;
        run.origin = -scales.minimum;
        run.last_code = dtype == DType::q4_k ? 15 : 31;
        set_sub_run(run, reach_of(values(32 * sub, 32), run.origin, run.step), run.last_code,
                    factor_error(scale_at(block, 0), scales.scale_factor),
                    factor_error(scale_at(block, 2), scales.minimum_factor));
      }
      return 8;
    case DType::q6_k:
      for (std::size_t part = 0; part < 16; ++part) {
        const float unit = scale_at(block, 208), factor = signed_value(block[192 + part]);
        Run& run = runs[part] = {};
        run.step = unit * factor;
        run.first_code = -32;
        run.last_code = 31;
        // A factor of 128 is stored as 127.
        set_sub_run(run, reach_of(values(16 * part, 16), 0, run.step), 32,
                    factor_error(unit, static_cast<int>(factor), factor == 127 ? 1.5 : 0.5), 0);
      }
      return 16;
    case DType::iq4_xs:
      for (std::size_t i = 0; i < 8; ++i) {
        const Factor scale = iq4_xs_scale(block, i);
        Run& run = runs[i] = {};
        run.step = scale.scale();
        run.first_code = lowest(kIq4Levels);
        run.last_code = highest(kIq4Levels);
        run.levels = kIq4Levels;
        set_sub_run(run, reach_of(values(32 * i, 32), 0, run.step), kMostIq4,
                    factor_error(scale.unit, scale.factor, scale.factor == 31 ? 1.5 : 0.5), 0,
                    kIq4Search);
        // Codes are chosen before the block's unit is rounded.
        run.step_error = std::abs(scale.factor) * half_error(scale.unit);
      }
      return 8;
    case DType::iq4_nl:
      iq4_nl_run(scale_at(block, 0), values(0, 32), runs[0]);
      return 1;
    case DType::mxfp4:
      mxfp4_run(mxfp4_scale(block[0]), values(0, 32), runs[0]);
      return 1;
    case DType::nvfp4:
      for (std::size_t i = 0; i < 4; ++i) {
        runs[i] = {};
        nvfp4_run(nvfp4_scale(block[i]), values(16 * i, 16), runs[i]);
      }
      return 4;
    case DType::tq1_0:
    case DType::tq2_0: {
      const float scale = scale_at(block, dtype == DType::tq1_0 ? 52 : 64);
      extreme_run(scale, half_error(scale), values(0, 256), 1, runs[0]);
      return 1;
    }
    case DType::q8_0:
    case DType::q8_1:
      extreme_run(scale_at(block, 0), half_error(scale_at(block, 0)), values(0, 32), 127, runs[0]);
      return 1;
    case DType::q8_k:
      extreme_run(std::bit_cast<float>(u32_at(block, 0)), 0, values(0, 256), 127, runs[0]);
      return 1;
    case DType::q1_0:
      sign_run(scale_at(block, 0), runs[0]);
      return 1;
    case DType::iq1_s:
      return shifted_runs(4, iq1_s_scale, iq1_s_below, block, runs);
    case DType::iq1_m:
      return shifted_runs(2, iq1_m_scale, iq1_m_below, block, runs);
    case DType::iq2_xxs:
      return joint_runs(8, iq2_xxs_scale, block, kIq2Levels, runs);
    case DType::iq2_xs:
      return joint_runs(16, iq2_xs_scale, block, kIq2Levels, runs);
    case DType::iq2_s:
      return joint_runs(16, iq2_s_scale, block, kIq2Levels, runs);
    case DType::iq3_xxs:
      return joint_runs(8, iq3_xxs_scale, block, kIq3XxsLevels, runs);
    case DType::iq3_s:
      return joint_runs(8, iq3_s_scale, block, kIq3SLevels, runs);
    default:
      plain_run(dtype, block, values(0, 32), runs[0]);
      return 1;
  }
}

}  // namespace regauge::io
