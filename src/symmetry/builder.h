#pragma once

#include <string>

#include "regauge/symmetry/symmetry.h"

namespace regauge {

// Puts a Symmetry together, module by module; each part of the model is a file of its own. Wires
// and norms are named by what reads or makes them.
class SymmetryBuilder {
 public:
  explicit SymmetryBuilder(const Architecture& architecture);
  Symmetry build();

 private:
  // What a sub-layer or the head reads: the norm that made it ("" for a raw sum of tables) and,
  // after a post-norm, the space of its length (which may not exist).
  struct Wire {
    std::string norm;
    std::string scale;
    std::string latent = {};  // its space, where it is not the stream
    std::string stream = "residual";
  };

  // stream.cpp: the stream's group, the lengths that norms forget, the wires.
  void add_stream();
  std::string stream_of(std::int64_t layer) const;  // its space
  void add_table_stream();                          // of tables that a map brings into the stream
  void add_stream_exceptions();
  std::int64_t width_of(const std::string& stream) const {
    return stream == table_stream() ? a_.token_width() : a_.width;
  }
  std::string table_stream() const { return a_.maps_embedding() ? kTableStream : "residual"; }
  // A space whose coordinates turn.
  bool turns(const std::string& stream) const {
    const Space* space = find_space(stream);
    return space != nullptr && space->is_orthogonal();
  }
  Wire wire_into(std::int64_t layer, bool attention) const;
  Wire wire_behind(std::int64_t layer, const char* norm) const;  // of the layer, on a plain sum
  Wire wire_into_keys(std::int64_t layer) const;                 // and values
  // The space of the stream's length in front of a layer, where it is a plain sum; it may not
  // exist.
  std::string stream_length(std::int64_t layer) const;
  void add_stream_scale(std::int64_t layer);
  Axis reader_rows(const Wire& wire) const;
  Axis writer_cols(const Wire& wire) const;

  // embedding.cpp
  void add_embedding();
  void add_embedding_norm(std::int64_t layer);  // of the stack that begins there
  void add_embedding_map();
  void add_embedding_exchanges();
  void add_deep_input(std::int64_t layer);

  // layer_tables.cpp
  void add_tables();
  void add_table(std::int64_t layer);

  // convolutions.cpp
  void add_convolutions();
  void add_input_norm(Axis places);

  std::string embedding_scale_space() const;
  std::string head_norm() const;  // the norm that the head reads

  // norms.cpp: a norm, and the shifts that it makes invisible.
  void add_gain_space(const std::string& norm, const std::string& coordinates = "residual");
  void add_norm(const std::string& name, Axis gain, Axis bias);
  void add_pre_norm(const std::string& name, const std::string& stream = "residual");
  void add_post_norm(const std::string& name, const Wire& made);
  // `sum`: the norm behind what this one's output is added to; "": it is added to the stream.
  void add_output_norm(const std::string& name, std::int64_t branch_width,
                       const std::string& sum = "");
  void add_layer_scale(const std::string& name, const std::string& writer);
  void add_norm_shift(const std::string& norm, Axis axis, std::vector<Effect> further);
  void add_reader_shift(const std::string& norm, const Reader& reader);
  void add_writer_shift(const std::string& tensor, const std::string& layer_scale = "");

  // wires.cpp: linear maps at the ends of a wire, and the constants that travel along it.
  Reader add_reader(const std::string& name, bool has_bias, const Wire& wire, Axis cols);
  // `behind`: the norm or layer scale on what is written, or nothing.
  void add_writer(const std::string& name, bool has_bias, const Wire& wire, Axis rows,
                  const std::string& behind);
  void add_constants(std::int64_t layer, bool attention, const Reader& reader);
  void add_repeated_constants();
  std::int64_t raw_wire_constants(std::int64_t layer) const;
  std::int64_t seen_of_raw_constant(std::int64_t layer) const;

  // attention.cpp
  void add_attention(std::int64_t layer);
  Axis add_values(std::int64_t layer);           // the columns of v, if there is one
  Axis gathered_rows(std::int64_t layer) const;  // of o
  // `exchange`: of the gain's coordinates; "": the layer's own.
  void add_gain_signs(const std::string& norm, std::int64_t coordinates, const std::string& lift,
                      const std::string& exchange = "");
  // Of the heads: the layer's own, or those of the layer whose table it shares.
  std::string heads_space(std::int64_t layer) const;
  void add_relative_table(std::int64_t layer);
  void add_unreached_rows(std::int64_t layer, const std::string& table);
  void add_key_shift(std::int64_t layer, const Reader& k, const Wire& wire);
  void add_value_shift(std::int64_t layer, const Reader& v, const Wire& wire);
  Effect constant_effect(const Reader& reader, const Wire& wire) const;

  // latents.cpp
  void add_latent_attention(std::int64_t layer);
  Wire add_latent(std::int64_t layer, const std::string& name, std::int64_t width,
                  const Wire& from);

  // delta_net.cpp
  void add_delta_net(std::int64_t layer);

  // feed_forward.cpp, head.cpp
  void add_feed_forward(std::int64_t layer);
  Reader add_neurons(std::int64_t layer, const std::string& at, const Wire& wire,
                     std::int64_t count, std::int64_t group_size);
  void add_own_norms(std::int64_t layer);
  void add_expert_scales(std::int64_t layer);
  void add_router(std::int64_t layer);
  // What stands behind a map that ends the branch, or one of its two; "": nothing.
  std::string norm_behind(std::int64_t layer, const std::string& at) const;
  void add_head();
  void add_pooler(const Wire& wire);
  Reader add_classes(const Wire& wire);
  void add_token_head(const std::string& norm, Axis rows);
  void add_head_transform(const Wire& wire);
  Axis end_rows(const Wire& wire) const;
  void add_end_reader(const Wire& wire, const Reader& reader, Axis cols);
  void add_log_probability_shifts(const Reader& head, const std::string& norm, const Axis& axis);
  void add_common_constant(const std::string& bias);
  void add_common_column(const Reader& reader, const std::string& norm, Axis axis);

  // A vector in a stream's coordinates, apart from any scale.
  Axis stream_axis(const std::string& stream = "residual") const;
  void add_space(Space space) {
    positions_.emplace(space.name, symmetry_.spaces.size());
    symmetry_.spaces.push_back(std::move(space));
  }
  void add_shift(Shift shift);
  void add_counted_shift(std::string name, std::int64_t dimension);
  bool has_space(const std::string& name) const { return positions_.contains(name); }
  // Null if there is none yet.
  const Space* find_space(const std::string& name) const {
    const auto found = positions_.find(name);
    return found == positions_.end() ? nullptr : &symmetry_.spaces[found->second];
  }
  // The part for a space that is one number, on an axis of `length`; nothing if there is no such
  // space.
  void append_scalar(Axis& axis, const std::string& space, std::int64_t length, bool dual) const;
  TensorAxes& tensor(const std::string& name) { return symmetry_.tensors.at(name); }

  bool layer_norm() const { return a_.norm == Norm::layer; }
  bool plain() const { return a_.plain_stream(); }  // the stream is a plain sum
  // The head is the token table that this layer's stack reads.
  bool is_tied(std::int64_t layer) const {
    const bool own = a_.encoder_vocabulary > 0 || a_.encodes_vectors();
    return a_.tied && (layer >= a_.encoder_layers || !own);
  }
  // The first attention reads what the embedding norm writes.
  bool reads_embedding(std::int64_t layer) const { return layer == 0 && a_.bare_first_attention; }
  const Attention& attention(std::int64_t layer) const { return a_.layer(layer).attention; }
  const FeedForward& feed_forward(std::int64_t layer) const { return a_.layer(layer).ffn; }
  // The constant that a norm's bias makes, readable through a reader without a bias of its own.
  bool constant_behind(const std::string& norm) const {
    return !norm.empty() && layer_norm() && a_.norm_bias;
  }
  // Numbers that a constant in the stream must meet: all of them, or all but the part along 1 that
  // layer norms do not see.
  std::int64_t visible_width() const { return a_.width - (layer_norm() ? 1 : 0); }

  std::int64_t rows(const std::string& tensor) const;
  std::int64_t cols(const std::string& tensor) const;

  Architecture a_;
  Symmetry symmetry_;
  ByName<std::size_t> positions_;  // of the spaces so far
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> shapes_;
  bool rotates_ =
      false;  // the stream has a dense rotation; readers see it through their norm's gain
  bool lengths_free_ = false;  // eps = 0
};

}  // namespace regauge
