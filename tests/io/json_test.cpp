#include "io/json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <ctime>

#include "files.h"
#include "regauge/io/checkpoint.h"

namespace regauge {
namespace {

using namespace testing;

TEST(Json, IsReadAsItStands) {
  const std::string text =
      R"({"a": [1, -2, 2.5, true, null, {"b": "é"}, [], {}], "c": {"a": 18446744073709551615}})";
  EXPECT_EQ(io::parse_json_object(text, "test"), nlohmann::json::parse(text));
}

// The processor time that opening a file of so many tensors takes, the least of three.
double seconds_to_open(int tensors) {
  const TemporaryFolder folder;
  std::string header = "{";
  for (int i = 0; i < tensors; ++i) {
    header +=
        fmt::format(R"({}"model.layers.{}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
                    i == 0 ? "" : ",", i);
  }
  write_bytes(folder / "x.safetensors", safetensors_bytes(header + "}", ""));
  std::clock_t least = 0;
  for (int run = 0; run < 3; ++run) {
    const std::clock_t start = std::clock();
    EXPECT_EQ(Checkpoint::open(folder / "x.safetensors").tensors().size(),
              static_cast<std::size_t>(tensors));
    const std::clock_t took = std::clock() - start;
    least = run == 0 ? took : std::min(least, took);
  }
  return static_cast<double>(least) / CLOCKS_PER_SEC;
}

// Eight times the tensors take about eight times as long; it would be 64 times if each were
// compared with all others.
TEST(Json, ManyTensorsTakeTimeInProportion) {
  EXPECT_LT(seconds_to_open(16000), 24 * seconds_to_open(2000));
}

}  // namespace
}  // namespace regauge
