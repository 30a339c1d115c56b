#include "io/parts.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "regauge/base/random.h"
#include "regauge/base/version.h"

namespace regauge {
namespace {

nlohmann::json asked(const std::string& option = "") {
  return {{"version", version()},
          {"verb", "test"},
          {"options", option},
          {"models", nlohmann::json::array()}};
}

// Two loops, of which the second reads what the first found; the sum of squares, then of products.
std::int64_t work(Progress& progress, std::vector<std::int64_t>* done = nullptr) {
  const std::vector<std::int64_t> sizes = {5, 1, 1, 7, 2, 2, 9};
  std::int64_t first = 0, second = 0;
  const auto note = [&](std::int64_t unit) {
    if (done != nullptr) done->push_back(unit);
  };
  for_each_unit(
      "squares", sizes, progress,
      [&](std::int64_t i, Progress&) {
        note(i);
        return i * i;
      },
      [&](std::int64_t, std::int64_t square) { first += square; });
  for_each_unit(
      "products", sizes, progress,
      [&](std::int64_t i, Progress&) {
        note(i);
        return i * first;
      },
      [&](std::int64_t, std::int64_t product) { second += product; });
  return second;
}

// A round of parts, as their files would give it back.
std::vector<PartRecord> round_of(std::int64_t of, const std::vector<PartRecord>& made) {
  std::vector<PartRecord> records = made;
  for (std::int64_t part = 1; part <= of; ++part) {
    Parts parts = Parts::part({part, of}, asked(), made);
    DividedProgress progress(Progress::silent(), parts);
    EXPECT_THROW(work(progress), Parts::ShareDone);
    records.push_back(part_from_text(part_text(parts.own()), "part"));
  }
  return records;
}

std::int64_t joined(const std::vector<PartRecord>& made, std::vector<std::int64_t>& done,
                    Parts::Rest rest = Parts::Rest::work) {
  Parts parts = Parts::join(asked(), made, rest);
  DividedProgress progress(Progress::silent(), parts);
  return work(progress, &done);
}

TEST(Parts, EveryUnitIsDoneByOnePartAndStretchesAreOfOneSize) {
  Random random(1, "parts");
  for (const std::size_t count : {0U, 1U, 2U, 7U, 300U}) {
    for (const std::int64_t of : {1, 2, 3, 16, 1000}) {
      std::vector<std::int64_t> sizes(count), all;
      for (auto& size : sizes) size = static_cast<std::int64_t>(random.uniform() * 100);
      const auto sum = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
      for (std::int64_t part = 1; part <= of; ++part) {
        std::int64_t own = 0;
        for (const auto unit : units_of({part, of}, sizes)) {
          all.push_back(unit);
          own += sizes[static_cast<std::size_t>(unit)];
        }
        EXPECT_LE(own, sum / of + 101 + std::ssize(sizes));
      }
      std::vector<std::int64_t> expected(count);
      std::iota(expected.begin(), expected.end(), 0);
      EXPECT_EQ(all, expected);
    }
  }
}

TEST(Parts, TheJoinGivesTheAnswerOfOneRun) {
  const std::int64_t whole = work(Progress::silent());
  for (const std::int64_t of : {1, 3, 20}) {
    std::vector<std::int64_t> done;
    EXPECT_EQ(joined({}, done), whole);
    EXPECT_EQ(done.size(), 14U);
    const auto first = round_of(of, {});
    done.clear();
    EXPECT_EQ(joined(first, done), whole);
    EXPECT_EQ(done.size(), 7U);  // the second loop
    done.clear();
    EXPECT_THROW(joined(first, done, Parts::Rest::stop), Parts::LoopLeft);
    EXPECT_TRUE(done.empty());
    EXPECT_EQ(joined(round_of(of, first), done, Parts::Rest::stop), whole);
    EXPECT_TRUE(done.empty());
  }
}

TEST(Parts, ALoopThatIsReadLaterIsDoneInTheSameRound) {
  const std::vector<std::int64_t> sizes(4, 1);
  const auto twice = [&](Progress& progress) {
    std::int64_t sum = 0;
    const auto loop = [&] {
      for_each_unit(
          "loop", sizes, progress, [](std::int64_t i, Progress&) { return i; },
          [&](std::int64_t, std::int64_t result) { sum += result; });
      return sum;
    };
    const auto known = unless_others_find(loop);
    loop();
    if (!known) throw Parts::ShareDone();
    return sum;
  };
  Parts parts = Parts::part({1, 2}, asked(), {});
  DividedProgress progress(Progress::silent(), parts);
  EXPECT_THROW(twice(progress), Parts::ShareDone);
  EXPECT_EQ(parts.own().loops.size(), 2U);
  for (const char* name : {"loop", "loop (2)"}) {
    EXPECT_EQ(parts.own().loops.at(name).results.size(), 2U) << name;
  }
}

TEST(Parts, WhatDoesNotFitIsRefused) {
  const auto made = round_of(3, {});
  std::vector<std::int64_t> done;
  EXPECT_THROW(joined({made[0], made[2]}, done), UsageError);
  EXPECT_THROW(Parts::part({1, 2}, asked(), made), UsageError);
  EXPECT_THROW(Parts::join(asked("another"), made, Parts::Rest::work), UsageError);
  auto overlapping = made;
  overlapping[1].loops.at("squares").results[0] = 17;
  EXPECT_THROW(joined(overlapping, done), UsageError);
  auto wrong_type = made;
  wrong_type[0].loops.at("squares").results[0] = "four";
  EXPECT_THROW(joined(wrong_type, done), UsageError);
  auto more = made;
  for (auto& record : more) record.loops.at("squares").units = 8;
  EXPECT_THROW(joined(more, done), UsageError);
}

TEST(Parts, NumbersComeBackBitByBit) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double number : {0.0, -0.0, 1.0 / 3, 5e-324, 1e300, kInfinity, -kInfinity}) {
    const auto text = number_as_json(number).dump();
    const double back = number_from_json(nlohmann::json::parse(text));
    EXPECT_EQ(std::bit_cast<std::uint64_t>(back), std::bit_cast<std::uint64_t>(number)) << text;
  }
  EXPECT_TRUE(std::isnan(number_from_json(number_as_json(std::nan("")))));
}

}  // namespace
}  // namespace regauge
