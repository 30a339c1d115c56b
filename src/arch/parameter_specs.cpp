#include <fmt/format.h>

#include "regauge/arch/towers.h"
#include "transform_norm.h"

namespace regauge {
namespace {

class SpecList {
 public:
  explicit SpecList(const Architecture& architecture) : a_(architecture) {}

  void add(std::string name, std::int64_t rows, std::int64_t cols) {
    specs_.push_back({prefix_ + std::move(name), rows, cols, layer_});
  }
  void add_if(bool present, std::string name, std::int64_t rows, std::int64_t cols) {
    if (present) add(std::move(name), rows, cols);
  }
  void add_norm(const std::string& name) { add_norm(name, a_.width); }
  void add_norm(const std::string& name, std::int64_t width) {
    add(name + ".gain", 1, width);
    add_if(a_.norm_bias, name + ".bias", 1, width);
  }
  void add_layer_norm(const std::string& name, std::int64_t width) {
    add(name + ".gain", 1, width);
    add(name + ".bias", 1, width);
  }
  void add_linear(const std::string& name, std::int64_t in, std::int64_t out, bool bias) {
    add(name + ".weight", in, out);
    add_if(bias, name + ".bias", 1, out);
  }
  // Of experts, which stand side by side as slices of rows or of columns.
  void add_sliced(std::string name, std::int64_t rows, std::int64_t cols, std::int64_t slices,
                  bool of_rows) {
    add(std::move(name), rows, cols);
    specs_.back().slices = slices;
    specs_.back().sliced_rows = of_rows;
  }
  void enter_layer(std::int64_t layer) {
    layer_ = layer;
    prefix_ = fmt::format("layers.{}.", layer);
  }
  void leave_layers() {
    layer_ = -1;
    prefix_.clear();
  }
  std::vector<ParameterSpec> take() { return std::move(specs_); }

 private:
  const Architecture& a_;
  std::vector<ParameterSpec> specs_;
  std::int64_t layer_ = -1;
  std::string prefix_;
};

void add_convolutions(SpecList& specs, const Architecture& a) {
  std::int64_t read = a.input_width;
  for (std::size_t i = 0; i < a.convolutions.size(); ++i) {
    const Convolution& of = a.convolutions[i];
    const std::string name = a.convolution(i);
    specs.add_linear(name, read * of.kernel, of.channels, of.bias);
    if (a.has_norm_behind(i)) specs.add_layer_norm(name + ".norm", of.channels);
    read = of.channels;
  }
}

void add_embedding(SpecList& specs, const Architecture& a) {
  const std::int64_t width = a.token_width();
  specs.add_if(a.input == Input::tokens, "embed.tokens", a.vocabulary, width);
  if (!a.encodes_vectors()) {
    add_convolutions(specs, a);
    if (a.input_norm) specs.add_layer_norm("embed.input.norm", a.mapped_width());
    if (a.input_width > 0) {
      specs.add_linear("embed.input", a.mapped_width(), a.width, a.input_bias);
    }
  }
  specs.add_if(a.class_token, "embed.class_token", 1, a.width);
  specs.add_if(a.distillation_token, "embed.distillation_token", 1, a.width);
  specs.add_if(a.registers > 0, "embed.registers", a.registers, a.width);
  specs.add_if(a.position_table == PositionTable::learned, "embed.positions", a.max_positions,
               width);
  specs.add_if(a.token_types > 0, "embed.types", a.token_types, width);
  if (a.has_positional()) {
    specs.add("embed.positional.weight", a.positional_kernel,
              a.width * (a.width / a.positional_groups));
    specs.add("embed.positional.length", 1, a.positional_kernel);
    specs.add("embed.positional.bias", 1, a.width);
  }
  if (a.embedding_norm) specs.add_norm("embed.norm", width);
  if (a.maps_embedding()) specs.add_linear("embed.map", width, a.width, true);
  specs.add_if(a.has_tables(), "embed.tables.norm.gain", 1, a.table_width);
  if (a.encoder_layers == 0) return;
  specs.add_if(a.encoder_vocabulary > 0, "encoder.embed.tokens", a.encoder_vocabulary, a.width);
  if (a.encodes_vectors()) add_convolutions(specs, a);
  specs.add_if(a.position_table == PositionTable::learned, "encoder.embed.positions",
               a.source_positions(), a.width);
  if (a.embedding_norm) specs.add_norm("encoder.embed.norm");
}

// A vector of its own width behind an rms norm, from which others are read; returns that width, or
// the stream's where there is none.
std::int64_t add_latent(SpecList& specs, const std::string& name, std::int64_t width,
                        std::int64_t latent) {
  if (latent == 0) return width;
  specs.add_linear(name, width, latent, false);
  specs.add(name + ".norm.gain", 1, latent);
  return latent;
}

void add_attention(SpecList& specs, const Layer& layer, std::int64_t width, bool normed) {
  const Attention& a = layer.attention;
  if (normed) specs.add_norm("attn.norm");
  const std::int64_t rotating = a.has_latents() ? a.rotary_dims : 0;
  const std::int64_t into_q = add_latent(specs, "attn.q_latent", width, a.q_latent);
  specs.add_linear("attn.q", into_q, a.heads * a.plain_width(), a.biases.q);
  specs.add_if(rotating > 0, "attn.q_rotary.weight", into_q, a.heads * rotating);
  const std::int64_t into_kv = add_latent(specs, "attn.kv_latent", width, a.kv_latent);
  const bool own_keys = !a.shares_keys;
  if (own_keys) specs.add_linear("attn.k", into_kv, a.kv_heads * a.plain_width(), a.biases.k);
  specs.add_if(rotating > 0, "attn.k_rotary.weight", width, rotating);
  if (own_keys && !a.keys_as_values) {
    specs.add_linear("attn.v", into_kv, a.kv_heads * a.v_width, a.biases.v);
  }
  const bool joint = a.qk_norm == QkNorm::joint;
  specs.add_if(a.has_qk_norm(), "attn.q_norm.gain", 1, (joint ? a.heads : 1) * a.qk_width);
  specs.add_if(a.has_qk_norm() && own_keys, "attn.k_norm.gain", 1,
               (joint ? a.kv_heads : 1) * a.qk_width);
  specs.add_if(a.positions == Positions::relative && !a.shares_table, "attn.relative_bias",
               a.relative_buckets, a.heads);
  specs.add_if(a.sinks, "attn.sinks", 1, a.heads);
  specs.add_if(a.contacts, "attn.contacts", 1, a.heads);
  specs.add_if(a.gate, "attn.gate.weight", width, a.heads * a.v_width);
  specs.add_linear("attn.o", a.heads * a.v_width, width, a.biases.o);
  specs.add_if(layer.layer_scale, "attn.layer_scale.gain", 1, width);
  if (layer.norms_output()) specs.add_norm("attn.post_norm");
  if (layer.norms_sum()) specs.add_norm("attn.norm");
}

void add_delta_net(SpecList& specs, const DeltaNet& d, std::int64_t width) {
  specs.add_norm("attn.norm");
  specs.add_linear("delta.q", width, d.keys(), false);
  specs.add_linear("delta.k", width, d.keys(), false);
  specs.add_linear("delta.v", width, d.values(), false);
  specs.add_linear("delta.z", width, d.values(), false);
  specs.add_linear("delta.a", width, d.value_heads, true);
  specs.add_linear("delta.b", width, d.value_heads, false);
  specs.add("delta.q_conv.weight", d.kernel, d.keys());
  specs.add("delta.k_conv.weight", d.kernel, d.keys());
  specs.add("delta.v_conv.weight", d.kernel, d.values());
  specs.add("delta.decay", 1, d.value_heads);
  specs.add("delta.norm.gain", 1, d.value_width);
  specs.add_linear("delta.o", d.values(), width, false);
}

void add_feed_forward(SpecList& specs, const Layer& layer, std::int64_t width) {
  const FeedForward& f = layer.ffn;
  if (!layer.has_ffn()) return;
  if (layer.norms_input() && layer.has_ffn_norm()) specs.add_norm("ffn.norm");
  if (const Experts& e = f.experts; e.count > 0) {
    const std::int64_t all = f.neurons();
    if (e.own_norms) specs.add_norm("ffn.router.norm");
    specs.add_linear("ffn.router", width, e.count, e.router_bias);
    specs.add_if(e.selection_bias, "ffn.selection.bias", 1, e.count);
    if (f.gated) specs.add_sliced("ffn.gate.weight", width, all, e.count, false);
    if (f.biases.gate) specs.add_sliced("ffn.gate.bias", 1, all, e.count, false);
    specs.add_sliced("ffn.up.weight", width, all, e.count, false);
    if (f.biases.up) specs.add_sliced("ffn.up.bias", 1, all, e.count, false);
    specs.add_sliced("ffn.down.weight", all, width, e.count, true);
    if (f.biases.down) specs.add_sliced("ffn.down.bias", e.count, width, e.count, true);
    specs.add_if(e.scales, "ffn.experts.scale.gain", 1, e.count);
    if (e.own_norms) specs.add_norm("ffn.experts.post_norm");
    if (e.shared_width > 0) {
      if (e.own_norms) specs.add_norm("ffn.shared.norm");
      if (e.shared_gate) specs.add_linear("ffn.shared.router", width, 1, false);
      if (f.gated) specs.add_linear("ffn.shared.gate", width, e.shared_width, false);
      specs.add_linear("ffn.shared.up", width, e.shared_width, false);
      specs.add_linear("ffn.shared.down", e.shared_width, width, false);
      if (e.own_norms) specs.add_norm("ffn.shared.post_norm");
    }
  } else {
    if (f.gated) specs.add_linear("ffn.gate", width, f.width, f.biases.gate);
    specs.add_linear("ffn.up", width, f.width, f.biases.up);
    specs.add_linear("ffn.down", f.width, width, f.biases.down);
  }
  specs.add_if(layer.layer_scale, "ffn.layer_scale.gain", 1, width);
  if (layer.norms_output()) specs.add_norm("ffn.post_norm");
  if (layer.norms_sum()) specs.add_norm("ffn.norm");
}

void add_table(SpecList& specs, const Architecture& a) {
  specs.add_linear("table.gate", a.width, a.table_width, false);
  specs.add_linear("table.map", a.width, a.table_width, false);
  specs.add("table.tokens", a.vocabulary, a.table_width);
  specs.add_linear("table.down", a.table_width, a.width, false);
  specs.add_norm("table.post_norm");
}

void add_layer(SpecList& specs, const Architecture& a, std::int64_t layer) {
  specs.enter_layer(layer);
  const Layer& here = a.layer(layer);
  if (here.has_delta()) {
    add_delta_net(specs, here.delta, a.width);
  } else {
    add_attention(specs, here, a.width, a.norms_attention(layer));
  }
  add_feed_forward(specs, here, a.width);
  if (a.has_tables()) add_table(specs, a);
  specs.add_if(here.stream_scale, "scale", 1, 1);
  if (layer < a.deep_inputs) specs.add_linear("input", a.input_width, a.width, a.input_bias);
}

std::vector<ParameterSpec> specs_alone(const Architecture& a) {
  SpecList specs(a);
  add_embedding(specs, a);
  for (std::int64_t layer = 0; layer < a.layers; ++layer) {
    if (a.plain_stream() && layer > 0 && layer == a.encoder_layers) {
      specs.leave_layers();
      specs.add_norm("encoder.norm");
    }
    add_layer(specs, a, layer);
  }
  specs.leave_layers();
  if (a.plain_stream()) specs.add_norm("head.norm");
  if (a.head_transform) {
    specs.add_linear("head.transform", a.width, a.head_width(), a.transform_bias);
    specs.add_norm(transform_norm(a), a.head_width());
  }
  if (a.has_head()) {
    specs.add_if(!a.tied, "head.weight", a.head_width(), a.outputs());
    specs.add_if(a.head_bias, "head.bias", 1, a.outputs());
  }
  if (a.pooler) specs.add_linear("head.pooler", a.width, a.width, true);
  if (a.distillation_head) {
    specs.add_linear("head.distillation", a.width, a.classes, a.head_bias);
  }
  specs.add_if(a.has_contacts(), "head.contacts.bias", 1, 1);
  if (a.output.has(Output::tokens) && a.output.has(Output::classes)) {
    specs.add_linear("head.classes", a.width, a.classes, a.head_bias);
  }
  return specs.take();
}

}  // namespace

std::vector<ParameterSpec> parameter_specs(const Architecture& a) {
  std::vector<ParameterSpec> all = specs_alone(a);
  if (a.beside.empty()) return all;
  const Tower beside = towers_of(a).back();
  for (ParameterSpec spec : specs_alone(beside.architecture)) {
    spec.name = beside.among_all(spec.name);
    spec.layer = layer_of(spec.name);
    all.push_back(std::move(spec));
  }
  return all;
}

std::vector<ParameterSpec> parameter_specs(const Architecture& a, std::int64_t layer) {
  if (layer >= 0 && a.beside.empty()) {
    SpecList specs(a);
    add_layer(specs, a, layer);
    return specs.take();
  }
  std::vector<ParameterSpec> specs = parameter_specs(a);
  std::erase_if(specs, [&](const ParameterSpec& spec) { return spec.layer != layer; });
  return specs;
}

std::int64_t parameter_count(const Architecture& architecture) {
  std::int64_t count = 0;
  for (const auto& spec : parameter_specs(architecture)) count += spec.rows * spec.cols;
  return count;
}

}  // namespace regauge
