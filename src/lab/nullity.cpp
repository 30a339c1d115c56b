#include "regauge/lab/nullity.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "regauge/base/error.h"
#include "regauge/base/random.h"
#include "towers.h"

namespace regauge::lab {
namespace {

// A singular value can be kept above the first bound and dropped below the second; the widest gap
// in between decides.
constexpr double kKept = 1e-11, kDropped = 1e-8;
// A ReLU unit that is on for less than this share of the inputs, or off, is stuck.
constexpr double kRare = 0.02;
// A row combines the outputs of one of so many random choices of a third of the sequences: their
// derivatives differ in size.
constexpr std::int64_t kChoices = 12;

std::int64_t positions_needed(const Architecture& a) {
  std::int64_t most = 7;
  for (const auto& kind : a.kinds) {
    const Attention& attention = kind.attention;
    if (attention.positions == Positions::rotary) most = std::max<std::int64_t>(most, 12);
    if (attention.grid && attention.positions == Positions::rotary) most = a.leading_rows() + 16;
    if (attention.grid && attention.positions == Positions::relative) return a.max_positions;
    if (attention.positions == Positions::relative && !attention.grid) {
      most = attention.relative_max_distance + 2;
    }
    if (kind.has_delta()) most = std::max(most, kind.delta.kernel + 4);
  }
  return most;
}

// Long enough for every position, bucket and distance to be seen, many enough for every token.
Batch random_batch(const Architecture& a, std::uint64_t seed, std::int64_t least = 40) {
  Random random(seed, "nullity.inputs");
  const bool table = a.has_position_table();
  Batch batch;
  const std::int64_t positions = table ? a.max_positions : positions_needed(a);
  const bool places = a.kinds.front().attention.grid;
  batch.length = positions - (places ? a.leading_rows() : table ? a.placed_rows() : 0);
  if (!a.encodes_vectors()) {
    while (a.encoded_positions(batch.length) < positions && !a.convolutions.empty()) ++batch.length;
  }
  // At least three outputs for every parameter.
  const bool by_position =
      a.output.has(Output::tokens) || a.output.has(Output::hidden) || a.classes_everywhere;
  const std::int64_t columns = a.has_head() ? a.outputs() : a.width;
  const std::int64_t outputs = columns * (by_position ? batch.length : 1);
  batch.sequences = std::max({least, 600 / batch.length, 12 * a.vocabulary / batch.length,
                              3 * parameter_count(a) / outputs});
  const std::int64_t count = batch.sequences * batch.length;
  const auto add_vectors = [&](std::int64_t rows) {
    batch.vectors.resize(rows, a.vector_width());
    for (auto& entry : batch.vectors.reshaped()) entry = static_cast<float>(random.normal());
  };
  if (a.input_width > 0 && !a.encodes_vectors()) add_vectors(count);
  if (a.input == Input::vectors) return batch;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool vector = a.input_width > 0 && !a.encodes_vectors() && random.below(3) == 0;
    batch.tokens.push_back(vector ? -1 : random.below(a.vocabulary));
    if (a.token_types > 0) batch.types.push_back(random.below(a.token_types));
  }
  if (a.encoder_layers == 0) return batch;
  if (a.encodes_vectors()) {  // as many as reach every row of the encoder's position table
    while (a.encoded_positions(batch.source_length + 1) <= a.source_positions()) {
      ++batch.source_length;
    }
    add_vectors(batch.sequences * batch.source_length);
    return batch;
  }
  batch.source_length = batch.length;
  for (std::int64_t i = 0; i < count; ++i) {
    batch.source.push_back(random.below(a.source_vocabulary()));
  }
  return batch;
}

// Of all models that stand side by side: tokens of one, vectors of the other.
Batch random_inputs(const Architecture& a, std::uint64_t seed) {
  Batch batch = random_batch(a.alone(), seed);
  if (a.beside.empty()) return batch;
  Batch other = random_batch(a.beside.front(), seed, batch.sequences);
  if (other.sequences > batch.sequences) batch = random_batch(a.alone(), seed, other.sequences);
  if (!other.tokens.empty() || batch.sequences != other.sequences) {
    throw UsageError("nullity: of two models side by side the second must read vectors alone");
  }
  batch.vectors = std::move(other.vectors);
  return batch;
}

Batch random_third(const Batch& batch, Random& random) {
  Batch some;
  some.length = batch.length;
  some.source_length = batch.source_length;
  std::vector<Eigen::Index> rows;
  const std::int64_t vectors = batch.vectors.rows() / batch.sequences;  // of a sequence
  for (std::int64_t i = 0; i < batch.sequences; ++i) {
    if (random.below(3) != 0) continue;
    ++some.sequences;
    for (std::int64_t j = i * batch.length; j < (i + 1) * batch.length; ++j) {
      const auto at = static_cast<std::size_t>(j);
      if (!batch.tokens.empty()) some.tokens.push_back(batch.tokens[at]);
      if (!batch.types.empty()) some.types.push_back(batch.types[at]);
    }
    for (std::int64_t j = i * vectors; j < (i + 1) * vectors; ++j) rows.push_back(j);
    if (batch.source.empty()) continue;
    const auto source = batch.source.begin() + i * batch.source_length;
    some.source.insert(some.source.end(), source, source + batch.source_length);
  }
  if (!rows.empty()) some.vectors = batch.vectors(rows, Eigen::all);
  return some;
}

at::Tensor normals(Random& random, at::IntArrayRef shape) {
  at::Tensor values = at::empty(shape, at::kDouble);
  auto* data = values.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < values.numel(); ++i) data[i] = random.normal();
  return values;
}

}  // namespace

Nullity measure_nullity(const Architecture& architecture, const Parameters<double>& parameters,
                        std::uint64_t seed, Progress& progress, std::int64_t max_bytes) {
  const std::int64_t columns = parameter_count(architecture);
  const std::int64_t rows = columns + columns / 3 + 60;
  if (columns > (std::int64_t{1} << 24) || 3 * 8 * rows * columns > max_bytes) {
    throw UsageError(fmt::format(
        "nullity: {} parameters need a matrix of {:.1f} GB and as much again twice; try a smaller "
        "model of the same architecture",
        columns, 8e-9 * static_cast<double>(rows) * static_cast<double>(columns)));
  }
  const Batch batch = random_inputs(architecture, seed);
  const Towers transformer(architecture, batch, at::kDouble);
  Tensors tensors = view(parameters);
  std::vector<at::Tensor> leaves;
  for (auto& [name, tensor] : tensors) leaves.push_back(tensor.set_requires_grad(true));
  Nullity result;
  result.stuck_units = stuck_units(architecture, parameters, seed);

  Random random(seed, "nullity.combinations");
  at::Tensor jacobian = at::empty({rows, columns}, at::kDouble);
  progress.start("differentiating", rows);
  for (std::int64_t choice = 0; choice < kChoices; ++choice) {
    const Batch some = random_third(batch, random);
    at::Tensor outputs = transformer(tensors, some);
    const bool one = architecture.output.list().size() == 1;
    if (architecture.log_probabilities && one) outputs = at::log_softmax(outputs, -1);
    for (std::int64_t row = choice; row < rows; row += kChoices) {
      const auto slopes = torch::autograd::grad(
          {outputs}, leaves, {normals(random, outputs.sizes())}, true, false, true);
      std::int64_t column = 0;
      for (std::size_t i = 0; i < leaves.size(); ++i) {
        const std::int64_t size = leaves[i].numel();
        at::Tensor target = jacobian[row].narrow(0, column, size);
        if (slopes[i].defined()) {
          target.copy_(slopes[i].reshape(-1));
        } else {
          target.zero_();
        }
        column += size;
      }
      progress.advance(1);
    }
  }
  progress.finish();
  const Matrix<double> values = matrix<double>(at::linalg_svdvals(jacobian).unsqueeze(0));
  result.singular_values.assign(values.data(), values.data() + values.size());
  const double largest = result.singular_values.front();
  for (double& value : result.singular_values) value /= largest;

  const auto& sigma = result.singular_values;
  std::size_t kept = sigma.size();
  double widest = 0;
  for (std::size_t i = 1; sigma.back() < kKept && i < sigma.size(); ++i) {
    const double gap = sigma[i - 1] / std::max(sigma[i], 1e-300);
    if (sigma[i - 1] > kKept && sigma[i] < kDropped && gap > widest) {
      widest = gap;
      kept = i;
    }
  }
  result.nullity = static_cast<std::int64_t>(sigma.size() - kept);
  result.smallest_kept = sigma[kept - 1];
  result.largest_dropped = kept < sigma.size() ? sigma[kept] : 0;
  return result;
}

std::int64_t stuck_units(const Architecture& a, const Parameters<double>& parameters,
                         std::uint64_t seed) {
  const auto is_relu = [&](const std::string& tap) {
    if (tap == "head.pooler.hidden") return a.pooler_activation == Activation::relu;
    const std::int64_t layer =
        std::max(layer_of(tap), std::int64_t{0});  // the head's is the first's
    const Activation kind = a.layer(layer).ffn.activation;
    return kind == Activation::relu || kind == Activation::relu_squared;
  };
  const Batch batch = random_inputs(a, seed);
  Tensors taps;
  Towers(a, batch, at::kDouble)(view(parameters), batch, &taps);
  std::int64_t stuck = 0;
  for (const auto& [name, value] : taps) {
    if (!name.ends_with(".hidden") || !is_relu(name)) continue;
    // Of the last layer, a class is read from one position only.
    const bool read_once =
        a.reads_one_position() && name == fmt::format("layers.{}.ffn.hidden", a.layers - 1);
    const at::Tensor seen =
        read_once ? value.narrow(1, a.reads_last_position() ? value.size(1) - 1 : 0, 1) : value;
    const at::Tensor on = (seen != 0).to(at::kDouble).flatten(0, -2).mean(0);
    stuck += ((on < kRare) | (on > 1 - kRare)).sum().item<std::int64_t>();
  }
  return stuck;
}

}  // namespace regauge::lab
