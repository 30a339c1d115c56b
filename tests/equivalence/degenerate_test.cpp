// What real models hold: parts that do nothing, twice the same part, fewer tokens than the stream
// is wide. Moved by a random element they are recognised; with a real change besides they are not.
#include <gtest/gtest.h>

#include <functional>

#include "symmetry/architectures.h"
#include "written.h"

namespace regauge {
namespace {

using testing::report;

// A layer's parts as blocks of columns (of readers) or rows (of writers).
class DegenerateLayer {
 public:
  DegenerateLayer(const Architecture& shape, std::int64_t layer, Parameters<double>& parameters)
      : shape_(shape), at_("layers." + std::to_string(layer) + "."), parameters_(parameters) {}

  bool has(const std::string& name) const { return parameters_.contains(at_ + name); }
  Matrix<double>& of(const std::string& name) { return parameters_.at(at_ + name); }

  void zero(const std::string& part, std::int64_t from, std::int64_t count) {
    if (part == "attn.o" || part == "ffn.down") {
      of(part + ".weight").middleRows(from, count).setZero();
      return;
    }
    if (!has(part + ".weight")) return;
    of(part + ".weight").middleCols(from, count).setZero();
    if (has(part + ".bias")) of(part + ".bias").middleCols(from, count).setZero();
  }
  void copy(const std::string& part, std::int64_t from, std::int64_t to, std::int64_t count) {
    if (part == "attn.o" || part == "ffn.down") {
      of(part + ".weight").middleRows(to, count) = of(part + ".weight").middleRows(from, count);
      return;
    }
    for (const char* kind : {".weight", ".bias"}) {
      if (has(part + kind)) {
        of(part + kind).middleCols(to, count) = of(part + kind).middleCols(from, count).eval();
      }
    }
  }
  // All but the first `rank` coordinates of every head are combinations of those.
  void flatten(const std::string& part, std::int64_t width, std::int64_t rank) {
    const bool rows = part == "attn.o";
    Matrix<double>& tensor = of(part + ".weight");
    for (std::int64_t at = 0; at < (rows ? tensor.rows() : tensor.cols()); at += width) {
      for (std::int64_t i = rank; i < width; ++i) {
        if (rows) {
          tensor.row(at + i) = 0.5 * tensor.row(at) - tensor.row(at + rank - 1);
        } else {
          tensor.col(at + i) = 0.5 * tensor.col(at) - tensor.col(at + rank - 1);
        }
      }
    }
  }
  void copy_neuron(std::int64_t from, std::int64_t to) {
    for (const char* part : {"ffn.gate", "ffn.up", "ffn.down"}) {
      if (has(part + std::string(".weight"))) copy(part, from, to, 1);
    }
  }
  void copy_head(std::int64_t from, std::int64_t to) {
    copy("attn.q", from * shape_.kinds[0].attention.qk_width,
         to * shape_.kinds[0].attention.qk_width, shape_.kinds[0].attention.qk_width);
    copy("attn.o", from * shape_.kinds[0].attention.v_width, to * shape_.kinds[0].attention.v_width,
         shape_.kinds[0].attention.v_width);
    if (has("attn.relative_bias")) {
      of("attn.relative_bias").col(to) = of("attn.relative_bias").col(from).eval();
    }
  }
  void copy_group(std::int64_t from, std::int64_t to) {
    const auto group = shape_.kinds[0].attention.heads / shape_.kinds[0].attention.kv_heads;
    copy("attn.k", from * shape_.kinds[0].attention.qk_width,
         to * shape_.kinds[0].attention.qk_width, shape_.kinds[0].attention.qk_width);
    copy("attn.v", from * shape_.kinds[0].attention.v_width, to * shape_.kinds[0].attention.v_width,
         shape_.kinds[0].attention.v_width);
    for (std::int64_t i = 0; i < group; ++i) copy_head(from * group + i, to * group + i);
  }

 private:
  const Architecture& shape_;
  std::string at_;
  Parameters<double>& parameters_;
};

struct Defect {
  const char* name;
  std::function<void(const Architecture&, DegenerateLayer&)> spoil;
};

const std::vector<Defect>& defects() {
  static const std::vector<Defect> all = {
      {"EqualNeurons",
       [](const Architecture&, DegenerateLayer& layer) {
         layer.copy_neuron(0, 2);
         layer.copy_neuron(0, 3);
         layer.copy_neuron(1, 5);
       }},
      {"DeadNeurons",
       [](const Architecture& a, DegenerateLayer& layer) {
         for (const std::int64_t i : {0, 1}) layer.zero("ffn.down", i, 1);
         for (const std::int64_t i : {2, 3}) layer.zero("ffn.up", i, 1);
         for (const std::int64_t i : {4, 5}) {
           layer.zero("ffn.down", i, 1);
           layer.zero("ffn.up", i, 1);
         }
         // With a ReLU gate that is off nothing tells the unit's two lengths apart.
         if (a.kinds[0].ffn.activation != Activation::relu) layer.zero("ffn.gate", 6, 1);
       }},
      {"OppositeNeurons",
       [](const Architecture&, DegenerateLayer& layer) {
         layer.copy_neuron(0, 1);
         layer.of("ffn.down.weight").row(1) *= -1;
         layer.of("ffn.up.weight").col(1) *= -1;
         layer.zero("ffn.down", 2, 1);
         layer.copy("ffn.up", 2, 3, 1);
         layer.zero("ffn.down", 3, 1);
         layer.of("ffn.up.weight").col(3) *= -1;
       }},
      {"ZeroHeads",
       [](const Architecture& a, DegenerateLayer& layer) {
         layer.zero("attn.q", 0, a.kinds[0].attention.qk_width);
         layer.zero("attn.o", 0, a.kinds[0].attention.v_width);
         layer.zero("attn.q", (a.kinds[0].attention.heads - 1) * a.kinds[0].attention.qk_width,
                    a.kinds[0].attention.qk_width);
         layer.zero("attn.o", (a.kinds[0].attention.heads - 1) * a.kinds[0].attention.v_width,
                    a.kinds[0].attention.v_width);
       }},
      {"NoQueries",
       [](const Architecture& a, DegenerateLayer& layer) {
         layer.zero("attn.q", 0, a.kinds[0].attention.heads * a.kinds[0].attention.qk_width);
       }},
      {"NoKeys",
       [](const Architecture& a, DegenerateLayer& layer) {
         layer.zero("attn.k", 0, a.kinds[0].attention.kv_heads * a.kinds[0].attention.qk_width);
       }},
      {"NoValues",
       [](const Architecture& a, DegenerateLayer& layer) {
         layer.zero("attn.v", 0, a.kinds[0].attention.kv_heads * a.kinds[0].attention.v_width);
       }},
      {"NothingAtAll",
       [](const Architecture& a, DegenerateLayer& layer) {
         layer.zero("attn.q", 0, a.kinds[0].attention.heads * a.kinds[0].attention.qk_width);
         layer.zero("attn.k", 0, a.kinds[0].attention.kv_heads * a.kinds[0].attention.qk_width);
         layer.zero("attn.v", 0, a.kinds[0].attention.kv_heads * a.kinds[0].attention.v_width);
         layer.zero("attn.o", 0, a.kinds[0].attention.heads * a.kinds[0].attention.v_width);
         for (const char* part : {"ffn.gate", "ffn.up", "ffn.down"}) {
           layer.zero(part, 0, a.kinds[0].ffn.width);
         }
       }},
      {"FlatValues",
       [](const Architecture& a, DegenerateLayer& layer) {
         layer.flatten("attn.v", a.kinds[0].attention.v_width, 2);
       }},
      {"FlatValuesAndOutputs",
       [](const Architecture& a, DegenerateLayer& layer) {
         layer.flatten("attn.v", a.kinds[0].attention.v_width, 2);
         layer.flatten("attn.o", a.kinds[0].attention.v_width, 3);
       }},
      {"FlatQueriesAndKeys",
       [](const Architecture& a, DegenerateLayer& layer) {
         layer.flatten("attn.q", a.kinds[0].attention.qk_width, 2);
         layer.flatten("attn.k", a.kinds[0].attention.qk_width, 1);
       }},
      {"EqualHeads",
       [](const Architecture& a, DegenerateLayer& layer) {
         layer.copy_head(0, a.kinds[0].attention.heads / a.kinds[0].attention.kv_heads - 1);
       }},
      {"EqualGroups", [](const Architecture& a, DegenerateLayer& layer) {
         layer.copy_group(0, a.kinds[0].attention.kv_heads - 1);
       }}};
  return all;
}

class Degenerate : public ::testing::TestWithParam<Defect> {
 protected:
  Model write(const Architecture& shape, const Parameters<double>& parameters,
              DType dtype = DType::f32) {
    return files_.write(shape, parameters, dtype);
  }

  static Parameters<double> moved(const Architecture& shape, Parameters<double> parameters) {
    return testing::moved(shape, std::move(parameters), 9);
  }

  testing::Written files_{"degenerate"};
};

// The known ones, and some of several groups of heads.
std::vector<KnownArchitecture> architectures() {
  std::vector<KnownArchitecture> all = known_architectures();
  for (KnownArchitecture known : known_architectures()) {
    Architecture& a = known.architecture;
    a.width = 16;
    a.kinds[0].attention.heads = 6;
    a.kinds[0].attention.kv_heads = 3;
    a.kinds[0].ffn.width = 20;
    a.vocabulary = 30;
    a.norm_eps = 1e-6;
    known.name += ", wider";
    all.push_back(known);
  }
  return all;
}

// Under a sanitizer, which is slow, a third of the architectures for each defect, in turn.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr std::size_t kEvery = 3;
#else
constexpr std::size_t kEvery = 1;
#endif
#else
constexpr std::size_t kEvery = 1;
#endif

TEST_P(Degenerate, IsRecognised) {
  std::size_t turn = std::string_view(GetParam().name).size();
  for (const auto& [name, shape, parameters, nullity] : architectures()) {
    if (++turn % kEvery != 0) continue;
    auto original = random_parameters(shape, 3);
    DegenerateLayer layer(shape, 1, original);
    GetParam().spoil(shape, layer);
    const Model a = write(shape, original);
    const Diff result = diff(a, write(shape, moved(shape, original)), Progress::silent());
    EXPECT_EQ(result.verdict, Verdict::same) << name << ": " << report(result);
    EXPECT_NO_THROW(check_member(symmetry_of(result.architecture), result.a_from_b)) << name;

    // The negative twin.
    auto changed = original;
    Matrix<double>& tensor = changed.at("layers.0.ffn.down.weight");
    tensor(3, 2) += 0.02 * tensor.norm() / std::sqrt(static_cast<double>(tensor.size()));
    const Diff other = diff(a, write(shape, moved(shape, changed)), Progress::silent());
    EXPECT_NE(other.verdict, Verdict::same) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Degenerate, ::testing::ValuesIn(defects()),
                         [](const auto& defect) { return defect.param.name; });

}  // namespace
}  // namespace regauge
