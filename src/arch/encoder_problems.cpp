#include "encoder_problems.h"

#include <algorithm>

namespace regauge {
namespace {

// A pre-norm stack of its own, of branches that follow one another, with plain attention.
bool is_plain_stack(const Architecture& a) {
  return a.encoder_layers == 0 && std::ranges::all_of(a.kinds, [](const Layer& kind) {
           return kind.placement == Placement::pre && !kind.parallel && !kind.has_delta() &&
                  !kind.attention.has_latents() && !kind.attention.gate && !kind.attention.sinks;
         });
}

// A stack of its own that norms sums and reads tables alone, with biases everywhere (ALBERT).
bool is_post_norm_encoder(const Architecture& a) {
  return a.encoder_layers == 0 && a.input == Input::tokens && a.input_width == 0 &&
         a.norm == Norm::layer && a.norm_bias && a.position_table == PositionTable::learned &&
         std::ranges::all_of(a.kinds, [](const Layer& kind) {
           const Attention& of = kind.attention;
           const bool plain = (of.positions == Positions::none) && !of.has_qk_norm() && !of.gate &&
                              !of.sinks && !of.has_latents() && !of.contacts;
           return kind.norms_sum() && kind.has_ffn() && kind.ffn.experts.count == 0 && plain &&
                  of.biases == Attention::Biases{true, true, true, true} && kind.ffn.biases.down;
         });
}

bool is_square_with_class_token(std::int64_t buckets) {
  const std::int64_t differences = side_of(buckets - 3);
  return differences % 2 == 1;
}

}  // namespace

std::vector<std::string> problems_of_encoder(const Architecture& a) {
  std::vector<std::string> problems;
  const auto require = [&](bool holds, const char* problem) {
    if (!holds) problems.emplace_back(problem);
  };
  const bool plain = is_plain_stack(a), vectors = a.input == Input::vectors;
  require(!a.bare_first_attention || (plain && a.embedding_norm && !vectors),
          "bare_first_attention needs input 'tokens', an embedding norm, placement 'pre', one "
          "branch after another, one stack, and neither delta nets, latents, gates nor sinks");
  for (const Layer& kind : a.kinds) {
    const Attention& of = kind.attention;
    const bool alike = of.grid == a.kinds.front().attention.grid &&
                       of.contacts == a.kinds.front().attention.contacts;
    require(alike, "grid and contacts are of all layers, or of none");
    if (!of.grid) continue;
    require(plain && vectors && !a.causal && !of.has_qk_norm() && of.window == 0 &&
                of.softcap == 0 && !a.embedding_norm && a.convolutions.empty() &&
                !a.distillation_token && of.temperature == 0,
            "grid needs input 'vectors' in a plain encoder, without norms of q and k or of the "
            "embedding, windows, caps, temperatures, convolutions or a distillation token");
    require(of.positions != Positions::none && of.positions != Positions::alibi,
            "grid needs positions 'rotary' or 'relative'");
    if (of.positions == Positions::rotary) {
      require(of.rotary_dims == of.qk_width && of.qk_width % 4 == 0,
              "a grid with positions 'rotary' turns whole heads, of a width that 4 divides");
    } else if (of.positions == Positions::relative) {
      require(is_square_with_class_token(of.relative_buckets) && a.class_token && a.registers == 0,
              "a grid with positions 'relative' needs a class_token, no registers, and "
              "relative_buckets (2n - 1)^2 + 3");
    }
  }
  require(
      !a.distillation_token || (a.class_token && a.registers == 0 && plain &&
                                a.position_table == PositionTable::learned && !a.embedding_norm),
      "distillation_token needs a class_token, positions 'learned' and a plain encoder "
      "without registers or an embedding norm");
  require(!a.distillation_head ||
              (a.distillation_token && a.output == Output::classes && !a.classes_everywhere &&
               !a.classes_pooled && !a.mean_position && !a.last_position && !a.head_transform &&
               !a.log_probabilities && !a.causal),
          "distillation_head needs a distillation_token and output 'classes' alone, read off one "
          "position, whose logits count");
  require(
      !a.mean_norm || (a.mean_position && plain && vectors && !a.causal &&
                       a.output == Output::classes && !a.head_transform),
      "mean_norm needs mean_position and output 'classes' alone, of vectors in a plain encoder");
  require(
      a.dropped_token == -1 ||
          (a.dropped_token >= 0 && a.dropped_token < a.vocabulary && !vectors && plain &&
           !a.embedding_norm && !a.has_position_table() && a.token_types == 0 &&
           a.input_width == 0 && !a.causal && a.norm_eps > 0),
      "dropped_token is a token of an encoder with norm_eps above 0, or -1, without an embedding "
      "norm, a position table, token types or vectors");
  require(a.passes > 0, "passes is not a positive number");
  require(a.embedding_width >= 0 && a.embedding_width <= a.width,
          "embedding_width is not a number from 0 to width");
  require(!a.repeats_layers() || a.maps_embedding(), "passes above 1 need an embedding_width");
  require(!a.maps_embedding() ||
              (is_post_norm_encoder(a) && a.embedding_norm && a.repeats_layers() &&
               (!a.has_head() || a.head_bias) && (a.tied ? a.head_transform : true) &&
               (!a.head_transform || a.output.has(Output::tokens))),
          "embedding_width needs passes above 1, an embedding norm, tokens, positions 'learned', "
          "placement 'post', norm "
          "'layer', biases of q, k, v, o, down, norms and head, a plain attention of one kind of "
          "stack, and a transform in front of a tied head");
  require(!a.has_contacts() || (plain && !vectors && !a.causal && !a.log_probabilities),
          "contacts need tokens, a plain encoder and logits that count");
  return problems;
}

}  // namespace regauge
