// Charts are well-formed, hold all that they were given and nothing that was only text.
#include "connect/chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "connect/report.h"
#include "records.h"
#include "xml.h"

namespace regauge::connect {
namespace {

using testing::count;
using testing::record;
using testing::xml_problem;

const std::string kHostile = "<b onload=\"x\">&amp;'\xff\x01";

Series line(const std::string& name, std::size_t points) {
  Series series;
  series.name = name;
  for (std::size_t i = 0; i < points; ++i) {
    series.x.push_back(static_cast<double>(i) / static_cast<double>(points - 1));
    series.y.push_back(series.x.back() * (1 - series.x.back()));
  }
  return series;
}

// The numbers of points of the polylines of a chart.
std::vector<std::size_t> points_of(const std::string& svg) {
  std::vector<std::size_t> result;
  const std::regex polyline("<polyline[^>]*points=\"([^\"]*)\"");
  for (std::sregex_iterator i(svg.begin(), svg.end(), polyline), end; i != end; ++i) {
    result.push_back(count((*i)[1], ","));
  }
  return result;
}

TEST(LineChart, HasEveryPointOfEverySeries) {
  const std::string svg = line_chart({line("a", 25), line("b", 13)}, {"title", "t", "loss"});
  EXPECT_EQ(xml_problem(svg), "") << svg;
  EXPECT_EQ(points_of(svg), (std::vector<std::size_t>{25, 13}));
  EXPECT_NE(svg.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_EQ(line_chart({line("a", 25)}, {}, Medium::page).find("<style>"), std::string::npos);
}

TEST(LineChart, TellsItsNumbers) {
  Series series = line("a", 3);
  series.low = {0, 0.2, 0};
  series.high = {0, 0.3, 0};
  const std::string svg = line_chart({series}, {"", "t", "loss"});
  EXPECT_NE(svg.find("<title>0.5&#10;a 0.250 (0.200 to 0.300)</title>"), std::string::npos) << svg;
  EXPECT_EQ(count(svg, "class=\"band "), 1U);
}

TEST(LineChart, ByRatio) {
  Series series = {"a", {64, 128, 256}, {1, 2, 3}, {}, {}, 0};
  LineLabels labels;
  labels.log_x = true;
  const std::string svg = line_chart({series}, labels);
  std::smatch found;
  ASSERT_TRUE(std::regex_search(
      svg, found, std::regex("points=\"([0-9.]+),[0-9.]+ ([0-9.]+),[0-9.]+ ([0-9.]+),")));
  EXPECT_NEAR(std::stod(found[1]) + std::stod(found[3]), 2 * std::stod(found[2]), 0.2);
  for (const char* label : {">64<", ">128<", ">256<"}) {
    EXPECT_NE(svg.find(label), std::string::npos) << svg;
  }
}

TEST(LineChart, WhatIsNotFiniteIsLeftOut) {
  Series series = line("a", 5);
  series.y[2] = NAN;
  series.y[3] = INFINITY;
  const std::string svg = line_chart({series}, {});
  EXPECT_EQ(points_of(svg), (std::vector<std::size_t>{3}));
  EXPECT_EQ(svg.find("nan,"), std::string::npos);
  EXPECT_EQ(xml_problem(line_chart({}, {})), "");
  EXPECT_EQ(xml_problem(line_chart({Series{}}, {})), "");
  EXPECT_EQ(xml_problem(line_chart({Series{"flat", {0, 1}, {2, 2}, {}, {}, 3}}, {})), "");
}

TEST(LineChart, TextIsText) {
  Series series = line(kHostile, 3);
  for (const Medium placement : {Medium::file, Medium::page}) {
    const std::string svg = line_chart({series}, {kHostile, kHostile, kHostile}, placement);
    EXPECT_EQ(xml_problem(svg), "") << svg;
    EXPECT_EQ(svg.find("<b "), std::string::npos);
  }
}

TEST(HeatMap, HasEveryValueAndItsNumber) {
  const HeatMap map = {kHostile, {"q", kHostile}, {"0", "1"}, {{0.25, NAN}, {1.5}}, 0, 1.5};
  const std::string svg = heat_map(map);
  EXPECT_EQ(xml_problem(svg), "") << svg;
  EXPECT_EQ(count(svg, "<rect"), 2U);
  EXPECT_NE(svg.find(">.25<"), std::string::npos);
  EXPECT_NE(svg.find("<title>q, 0: 0.250</title>"), std::string::npos);
  EXPECT_NE(svg.find(">1.50<"), std::string::npos);
  EXPECT_EQ(xml_problem(heat_map({})), "");
}

TEST(PlaneChart, LevelsPlacesAndLosses) {
  const RecordedPlane plane = {{0, 1, 2}, {0, 2}, {{0, 1, 4}, {2, 3, NAN}},
                               {0, 0},    {2, 0}, {0.5, 1}};
  EXPECT_DOUBLE_EQ(loss_at(plane, 0, 0), 0);
  EXPECT_DOUBLE_EQ(loss_at(plane, 2, 0), 4);
  EXPECT_DOUBLE_EQ(loss_at(plane, 0.5, 1), 1.5);
  EXPECT_TRUE(std::isnan(loss_at(plane, 2.1, 0)));
  EXPECT_TRUE(std::isnan(loss_at(plane, 1.5, 1)));
  EXPECT_EQ(plane_levels({&plane}, 2), (std::vector<double>{0, 1, 4}));
  const std::string svg = plane_chart(plane, plane_levels({&plane}, 4), kHostile);
  EXPECT_EQ(xml_problem(svg), "") << svg;
  EXPECT_NE(svg.find("<title>B aligned: loss 1.500</title>"), std::string::npos) << svg;
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(xml_problem(plane_chart(plane, plane_levels({}), "")), "");
}

// A plane on [0, 1] x [0, 1] with this loss.
template <class Loss>
RecordedPlane square(Loss loss) {
  RecordedPlane plane = {{}, {}, {}, {0, 0}, {1, 0}, {0, 1}};
  for (int i = 0; i <= 20; ++i) plane.x.push_back(i / 20.0);
  plane.y = plane.x;
  for (const double y : plane.y) {
    auto& row = plane.loss.emplace_back();
    for (const double x : plane.x) row.push_back(loss(x, y));
  }
  return plane;
}

// The areas of the loops of the band above `level`, as shares of the picture, largest first.
std::vector<double> loop_areas(const RecordedPlane& plane, double level) {
  const std::string svg = plane_chart(plane, {0, level, 2}, "", Medium::page);
  std::smatch found;
  const std::regex frame("<rect x=\"2\" y=\"[0-9.]*\" width=\"([0-9.]+)\" height=\"([0-9.]+)");
  EXPECT_TRUE(std::regex_search(svg, found, frame));
  const double whole = std::stod(found[1]) * std::stod(found[2]);
  std::vector<double> areas;
  if (!std::regex_search(svg, found, std::regex("evenodd\"[^>]* d=\"([^\"]*)\""))) return areas;
  const std::string path = found[1];
  const std::regex loop("M([^Z]*)Z"), number("-?[0-9.]+");
  for (std::sregex_iterator i(path.begin(), path.end(), loop), end; i != end; ++i) {
    const std::string inside = (*i)[1];
    std::vector<double> at;
    for (std::sregex_iterator j(inside.begin(), inside.end(), number); j != end; ++j) {
      at.push_back(std::stod(j->str()));
    }
    double twice = 0;  // the shoelace formula
    for (std::size_t j = 0; j + 1 < at.size(); j += 2) {
      const std::size_t next = (j + 2) % at.size();
      twice += at[j] * at[next + 1] - at[next] * at[j + 1];
    }
    areas.push_back(std::abs(twice) / 2 / whole);
  }
  std::sort(areas.rbegin(), areas.rend());
  return areas;
}

TEST(PlaneChart, BandsCoverWhatLiesAbove) {
  const auto corner = loop_areas(square([](double x, double y) { return x + y; }), 1.3);
  ASSERT_EQ(corner.size(), 1U);
  EXPECT_NEAR(corner[0], 0.7 * 0.7 / 2, 2e-3);
  // All but a disc: the border, and a hole in it.
  const auto ring =
      loop_areas(square([](double x, double y) { return std::hypot(x - 0.5, y - 0.5); }), 0.3);
  ASSERT_EQ(ring.size(), 2U);
  EXPECT_NEAR(ring[0], 1, 2e-3);
  EXPECT_NEAR(ring[1], 0.09 * std::acos(-1), 5e-3);
  // Two hills, one of them not finite at the top.
  const auto hills = loop_areas(square([](double x, double y) {
                                  const double height =
                                      1.9 - 4 * std::abs(y - 0.5) -
                                      4 * std::min(std::abs(x - 0.2), std::abs(x - 0.8));
                                  return height > 1.85 && x > 0.5 ? NAN : height;
                                }),
                                1.5);
  ASSERT_EQ(hills.size(), 2U);
  for (const double area : hills) EXPECT_NEAR(area, 2 * 0.1 * 0.1, 2e-3);
  EXPECT_TRUE(loop_areas(square([](double, double) { return 0.1; }), 1).empty());
}

TEST(Ticks, AreRoundAndReachBothEnds) {
  EXPECT_EQ(ticks(0, 1, 5), (std::vector<double>{0, 0.2, 0.4, 0.6000000000000001, 0.8, 1}));
  for (const auto& [low, high] : {std::pair(0.0, 0.0037), {-3.1, 8.4}, {1e6, 1e6 + 3}}) {
    const auto found = ticks(low, high, 5);
    EXPECT_LE(found.front(), low);
    EXPECT_GE(found.back(), high - 1e-9);
    EXPECT_LE(found.size(), 8U);
  }
  EXPECT_EQ(ticks(2, 2, 5).size(), 1U);
}

TEST(Report, TextOfRecordsIsText) {
  Record hostile = record({{kHostile, kHostile}}, kHostile, {1, 2}, kHostile, 0.5);
  hostile.experiment = kHostile;
  hostile.residuals = {{kHostile, 1}, {"layers.99999999999999999999.q", 1}, {"layers.-1.q", 1}};
  hostile.training = {{kHostile, kHostile}};
  hostile.seconds = {{kHostile, 1}};
  hostile.made_by = {{"regauge", kHostile}, {"commit", kHostile}};
  hostile.plane = RecordedPlane{{0, 1}, {0, 1}, {{1, 2}, {3, NAN}}, {0, 0}, {9, 9}, {1, 1}};
  Record other = hostile;
  other.cell[kHostile] = "other";
  const std::vector<Record> records = {hostile, other};
  std::string page = report_page(summarise(records));
  page = page.substr(page.find("<html"));
  page.erase(page.find("<style>"), page.find("</style>") - page.find("<style>"));
  page.erase(page.find("</style>"), 8);
  EXPECT_EQ(xml_problem(page), "");
  EXPECT_EQ(page.find("<b onload"), std::string::npos);
}

}  // namespace
}  // namespace regauge::connect
