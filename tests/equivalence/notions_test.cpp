// Every notion of Architecture through diff and canon, in a stream that is narrow and in one that
// is wide enough for a frame to be used: a moved copy is the same, a damaged one is not.
#include <gtest/gtest.h>

#include <functional>

#include "regauge/equivalence/canon.h"
#include "symmetry/architectures.h"
#include "written.h"

namespace regauge {
namespace {

using testing::report;
using testing::Written;

struct Notion {
  std::string name;
  std::function<void(Architecture&)> set;
};

void PrintTo(const Notion& notion, std::ostream* out) { *out << notion.name; }

// Gated, rotary, fewer kv heads than heads.
Architecture base(std::int64_t width) {
  Architecture a = widened(known_architecture("llama"));
  a.width = width;
  a.vocabulary = 3 * width;
  a.kinds[0].ffn.width = 24;
  return a;
}

void set_latents(Architecture& a, std::int64_t of_queries) {
  Attention& attention = a.kinds[0].attention;
  attention.kv_heads = attention.heads;
  attention.qk_width = 7;
  attention.v_width = 5;
  attention.kv_latent = 12;
  attention.q_latent = of_queries;
}

void set_experts(Architecture& a) {
  a.kinds[0].ffn.width = 6;
  a.kinds[0].ffn.experts = {.count = 4, .active = 2};
}

void set_tables(Architecture& a) {
  Layer layer = a.kinds[0];
  layer.placement = Placement::both;
  layer.stream_scale = true;
  layer.attention.qk_norm = QkNorm::heads;
  layer.attention.value_norm = true;
  layer.attention.heads = 4;
  layer.attention.kv_heads = 2;
  Layer shared = layer;
  shared.attention.shares_keys = true;
  shared.ffn.width *= 2;
  a.set_layers({layer, layer, shared, shared});
  a.table_width = 5;
}

T5Sizes two_stacks_of(std::int64_t width) {
  return {
      .vocabulary = 3 * width, .width = width, .encoder = 2, .decoder = 2, .head = 4, .ffn = 24};
}

const std::vector<Notion>& notions() {
  static const std::vector<Notion> all = {
      {"NormsOnBothSides", [](Architecture& a) { a.kinds[0].placement = Placement::both; }},
      {"NormsBehind",
       [](Architecture& a) {
         a.kinds[0].placement = Placement::behind;
         a.kinds[0].attention.qk_norm = QkNorm::joint;
       }},
      {"Parallel", [](Architecture& a) { a.kinds[0].parallel = a.kinds[0].shared_norm = true; }},
      {"LayersWithoutPositions",
       [](Architecture& a) {
         Layer other = a.kinds[0];
         other.attention.positions = Positions::none;
         other.attention.rotary_dims = 0;
         other.attention.rotary_frequencies.clear();
         a.set_layers({a.kinds[0], other});
       }},
      {"QkNorm", [](Architecture& a) { a.kinds[0].attention.qk_norm = QkNorm::heads; }},
      {"Experts", set_experts},
      {"SharedExpert",
       [](Architecture& a) {
         set_experts(a);
         a.kinds[0].ffn.experts.shared_width = 8;
         a.kinds[0].ffn.experts.shared_gate = true;
       }},
      {"NormsAndFactorsOfExperts",
       [](Architecture& a) {
         set_experts(a);
         Layer& layer = a.kinds[0];
         layer.placement = Placement::both;
         Experts& experts = layer.ffn.experts;
         experts.renormalised = experts.own_norms = experts.scales = true;
         experts.shared_width = 18;
         experts.router_scale = 0.25;
       }},
      {"RoutingGroups",
       [](Architecture& a) {
         set_experts(a);
         Experts& experts = a.kinds[0].ffn.experts;
         experts.scoring = Scoring::sigmoid;
         experts.selection_bias = experts.renormalised = true;
         experts.groups = 2;
         experts.count = 6;
         experts.group_leaders = 2;
       }},
      {"Latents", [](Architecture& a) { set_latents(a, 0); }},
      {"LatentOfQueries", [](Architecture& a) { set_latents(a, 14); }},
      {"EncoderDecoder",
       [](Architecture& a) {
         a = t5_architecture(two_stacks_of(a.width), true, false);
         a.norm_eps = 1e-6;
       }},
      {"TwoStreamsOfSums",
       [](Architecture& a) {
         a = bart_architecture(two_stacks_of(a.width), PositionTable::learned, Placement::post,
                               true);
       }},
      {"TwoStreamsAndAFixedTable",
       [](Architecture& a) {
         a = bart_architecture(two_stacks_of(a.width), PositionTable::sinusoidal, Placement::pre,
                               false);
       }},
      {"AnEncoderOfVectors",
       [](Architecture& a) { a = whisper_architecture(two_stacks_of(a.width)); }},
      {"APositionalConvolution",
       [](Architecture& a) {
         const std::int64_t width = a.width;
         a = wav2vec2_architecture(true);
         a.width = width;
         a.positional_groups = width / 4;
         a.set_layers({a.kinds[0], a.kinds[0]});
       }},
      {"Pooler",
       [](Architecture& a) {
         a.pooler = true;
         a.output.add(Output::pooled);
       }},
      {"Sinks",
       [](Architecture& a) {
         set_experts(a);
         a.kinds[0].attention.sinks = true;
         a.kinds[0].ffn.limit = 0.5;
         a.kinds[0].ffn.up_offset = 1;
         a.kinds[0].ffn.experts.router_bias = true;
       }},
      {"LayerScales", [](Architecture& a) { a.kinds[0].layer_scale = true; }},
      {"LayerScalesAndLayerNorms",
       [](Architecture& a) {
         a.norm = Norm::layer;
         a.norm_bias = a.kinds[0].layer_scale = true;
         a.kinds[0].attention.biases = {.q = true, .k = true, .v = true, .o = true};
         a.kinds[0].ffn.biases = {.gate = true, .up = true, .down = true};
       }},
      {"VectorsAmongTokens",
       [](Architecture& a) {
         a.input_width = 2 * a.width;
         a.input_bias = true;
       }},
      {"VectorsBehindLayers",
       [](Architecture& a) {
         a.input_width = 2 * a.width;
         a.input_bias = true;
         a.deep_inputs = 1;
       }},
      {"SquaredRelu",
       [](Architecture& a) {
         a.kinds[0].ffn.gated = false;
         a.kinds[0].ffn.activation = Activation::relu_squared;
       }},
      {"Temperature",
       [](Architecture& a) {
         a.kinds[0].attention.temperature = 0.3;
         a.kinds[0].attention.temperature_length = 3;
       }},
      {"OutputGate",
       [](Architecture& a) {
         a.kinds[0].attention.gate = true;
         a.kinds[0].attention.qk_norm = QkNorm::heads;
       }},
      {"DeltaNet",
       [](Architecture& a) {
         Layer delta = a.kinds[0];
         set_delta_net(
             delta,
             {.key_heads = 2, .value_heads = 4, .key_width = 5, .value_width = 3, .kernel = 4});
         a.kinds[0].attention.gate = true;
         a.set_layers({delta, a.kinds[0]});
       }},
      {"NormOfValues", [](Architecture& a) { a.kinds[0].attention.value_norm = true; }},
      {"KeysAsValues",
       [](Architecture& a) {
         Layer& layer = a.kinds[0];
         layer.placement = Placement::both;
         layer.stream_scale = true;
         layer.attention.qk_norm = QkNorm::heads;
         layer.attention.value_norm = true;
         layer.attention.v_width = layer.attention.qk_width;
         Layer keys = layer;
         keys.attention.keys_as_values = true;
         keys.attention.rotary_frequencies.back() = 0;
         a.set_layers({layer, keys});
       }},
      {"TablesAndKeysOfAnEarlierLayer", set_tables},
      {"TablesBesideVectors",
       [](Architecture& a) {
         set_tables(a);
         a.input_width = 9;
         a.vector_row = 2;
         a.tied = true;
       }},
      {"PatchesThatTurnByPlaces",
       [](Architecture& a) {
         const std::int64_t width = a.width;
         a = dinov3_architecture(false);
         a.width = width;
         a.input_width = 2 * width;
       }},
      {"ATableOfPlaces",
       [](Architecture& a) {
         const std::int64_t width = a.width;
         a = beit_architecture(2, true, true);
         a.width = width;
         a.input_width = 2 * width;
       }},
      {"ATokenForDistillation",
       [](Architecture& a) {
         const std::int64_t width = a.width;
         a = deit_architecture(true);
         a.width = width;
         a.input_width = 2 * width;
       }},
      {"ContactsAndADroppedToken",
       [](Architecture& a) {
         const std::int64_t width = a.width;
         a = esm_architecture(true, true);
         a.width = width;
         a.vocabulary = 3 * width;
       }},
      {"ABareFirstAttention",
       [](Architecture& a) {
         a.norm = Norm::layer;
         a.embedding_norm = a.bare_first_attention = true;
         a.head_transform = true;
         a.transform_bias = false;
       }},
      {"WindowsInBothDirections",
       [](Architecture& a) {
         a.kinds[0].attention.window = 5;
         a.causal = false;
       }},
      {"ClassesOfTheMean",
       [](Architecture& a) {
         a.output = Output::classes;
         a.classes = 3;
         a.causal = false;
         a.mean_position = a.head_transform = a.head_bias = true;
       }},
      {"Classes",
       [](Architecture& a) {
         a.output = Output::classes;
         a.classes = 3;
       }},
      {"Pooled",
       [](Architecture& a) {
         a.output = Output::pooled;
         a.pooler = true;
         a.causal = false;
       }},
      {"ClampWithoutOffset", [](Architecture& a) { a.kinds[0].ffn.limit = 0.5; }},
      {"Window", [](Architecture& a) { a.kinds[0].attention.window = 5; }},
      {"GatedRelu", [](Architecture& a) { a.kinds[0].ffn.activation = Activation::relu; }},
  };
  return all;
}

class Notions : public ::testing::TestWithParam<Notion> {
 protected:
  static void each(const std::function<void(const Architecture&, const std::string&)>& use) {
    for (const std::int64_t width : {20, 144}) {
      for (const double eps : {1e-6, 0.0}) {
        Architecture a = base(width);
        GetParam().set(a);
        const bool lengths = a.encoder_layers == 0 || a.norm == Norm::rms;
        if (eps == 0 && (!lengths || a.has_positional() || a.dropped_token >= 0 || a.has_tables()))
          continue;  // not understood
        a.norm_eps = eps;
        validate(a);
        use(a, "width " + std::to_string(width) + ", eps " + std::to_string(eps));
      }
    }
  }
};

TEST_P(Notions, AMovedCopyIsTheSameAndADamagedOneIsNot) {
  each([](const Architecture& shape, const std::string& where) {
    Written files("notion");
    const auto parameters = random_parameters(shape, 3);
    const Model a = files.write(shape, parameters, DType::f32);
    const auto copy = testing::moved(shape, parameters, 4);
    const Diff same = diff(a, files.write(shape, copy, DType::f32), Progress::silent());
    EXPECT_EQ(same.verdict, Verdict::same) << where << ": " << report(same);
    if (shape.norm_eps == 0) return;
    for (const char* part : {"attn.o", "attn.k", "ffn.down"}) {
      const std::string name = std::string("layers.1.") + part + ".weight";
      auto damaged = copy;
      damaged.at(name).col(0) *= 1.5;
      const Model b = files.write(shape, damaged, DType::f32);
      const Diff found = diff(a, b, Progress::silent());
      EXPECT_NE(found.verdict, Verdict::same) << where << ": " << name;
      // Its many hypotheses take long in a wide stream.
      if (shape.width > 20 || part != std::string("attn.k")) continue;
      EXPECT_NO_THROW(diagnose(a, b, found, Progress::silent())) << where << ": " << name;
    }
  });
}

TEST_P(Notions, EqualModelsHaveOneCanonicalForm) {
  each([](const Architecture& shape, const std::string& where) {
    Written files("notion-canon");
    const Symmetry symmetry = symmetry_of(shape);
    const auto canonical = [&](Parameters<double> parameters) {
      const Model model = files.write(shape, parameters, DType::f32);
      const Canon form =
          canon(symmetry, ParameterSource(model, model.architecture), Progress::silent());
      check_member(symmetry, form.element);
      act(symmetry, form.element, parameters);
      return parameters;
    };
    const auto parameters = random_parameters(shape, 3);
    const auto a = canonical(parameters), b = canonical(testing::moved(shape, parameters, 4));
    for (const auto& [name, tensor] : a) {
      EXPECT_LT((tensor - b.at(name)).norm(), 1e-3 * std::max(1.0, tensor.norm()))
          << where << ": " << name;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Every, Notions, ::testing::ValuesIn(notions()),
                         [](const auto& notion) { return notion.param.name; });

}  // namespace
}  // namespace regauge
