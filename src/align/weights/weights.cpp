#include <fmt/format.h>

#include <limits>
#include <memory>

#include "align/match/act_with_norms.h"
#include "align/match/delta_match.h"
#include "align/match/head_match.h"
#include "align/match/latent_match.h"
#include "align/match/stream_match.h"
#include "align/match/unit_match.h"
#include "align/towers.h"
#include "arch/reading.h"
#include "base/jobs.h"
#include "metric.h"
#include "regauge/align/align.h"
#include "symmetry/procrustes.h"

namespace regauge {
namespace {

constexpr double kConverged = 1e-7;           // of the objective, from one pass to the next
constexpr std::int64_t kDoubleWidth = 256;    // narrower streams are worked on in double
constexpr std::int64_t kKeptBytes = 1 << 30;  // of both models' tensors, instead of reading again

// Coordinate ascent on <A, g B> over g, both models weighted by a Metric: every pass goes through
// the layers, solves heads and neurons exactly where the stream is, and then rotates the stream.
template <class Scalar>
class Search {
 public:
  Search(const Symmetry& symmetry, const ReadTensor& a, const ReadTensor& b,
         const AlignOptions& options, Progress& progress, double sign)
      : symmetry_(symmetry),
        options_(options),
        progress_(progress),
        a_(a, symmetry, comparable_form(symmetry, a, options.scope, progress)),
        b_(b, symmetry, comparable_form(symmetry, b, options.scope, progress, sign)),
        metric_(symmetry, a_, b_, progress),
        norms_(encoder_norm<Scalar>(symmetry.architecture, b_)) {
    const Space* stream = symmetry.find_space("residual");
    moves_stream_ = stream != nullptr && options.scope.contains(*stream);
    const auto bytes =
        2 * parameter_count(symmetry.architecture) * static_cast<std::int64_t>(sizeof(Scalar));
    keeps_ = bytes <= kKeptBytes;
    const std::int64_t layers = symmetry.architecture.layers;
    kept_a_.resize(static_cast<std::size_t>(layers + 1));
    kept_b_ = kept_a_;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      heads_are_shared_ = heads_are_shared_ || attention(layer).shares_table;
    }
  }

  Alignment run() {
    Alignment result;
    result.report = {{"method", "weights"}, {"starts", nlohmann::json::array()}};
    double best = -std::numeric_limits<double>::infinity();
    Element relative;
    const auto count = moves_stream_ ? options_.starts : 1;
    for (std::int64_t start = 0; start < count; ++start) {
      found_ = {};
      const std::string name = begin(metric_.streams().size() != 0 ? start : start + 1);
      const auto values = climb(name);
      result.report["starts"].push_back({{"start", name}, {"objective", values}});
      if (!values.empty() && values.back() > best) {
        best = values.back();
        relative = found_;
      }
    }
    result.report["objective"] = best;
    result.a_from_b = between_models(symmetry_, a_.element(), relative, b_.element());
    return result;
  }

 private:
  using Tensors = std::shared_ptr<const Parameters<Scalar>>;
  // Each layer has a place of its own, so that several may be asked for at a time.
  Tensors kept(std::vector<Tensors>& layers, std::int64_t layer, bool of_a) {
    Tensors& place = layers[static_cast<std::size_t>(layer + 1)];
    if (place != nullptr) return place;
    auto tensors = std::make_shared<const Parameters<Scalar>>(of_a ? metric_.of_a(layer)
                                                                   : metric_.of_b(layer));
    if (keeps_) place = tensors;
    return tensors;
  }
  Tensors a_layer(std::int64_t layer) { return kept(kept_a_, layer, true); }
  Parameters<Scalar> b_layer(std::int64_t layer) {
    Parameters<Scalar> tensors = *kept(kept_b_, layer, false);
    act_with_norms(symmetry_, found_, layer, norms_, tensors);
    return tensors;
  }

  // The coordinates of tables that a map brings into the stream come first.
  std::string begin(std::int64_t start) {
    found_ = match_table_stream(symmetry_, options_.scope, *a_layer(-1), b_layer(-1));
    Element tables = found_;
    std::string name = begin_stream(start);
    found_.maps.merge(tables.maps);
    return name;
  }

  // Where a climb begins: the stream by single tokens, by embedding and head, as it is, at random.
  std::string begin_stream(std::int64_t start) {
    if (!moves_stream_ || start == 2) return "as it is";
    const Space& stream = *symmetry_.find_space("residual");
    if (start < 2) {
      StreamMatch<Scalar> match(symmetry_);
      if (start == 0) {
        match.add(metric_.streams());
      } else {
        match.add(*a_layer(-1), b_layer(-1));
      }
      double value = 0;
      found_ = match.solve(value);
      return start == 0 ? "single tokens" : "embedding and head";
    }
    Random random(options_.seed, fmt::format("align/start/{}", start));
    found_.maps[stream.name] = stream.random(random, nullptr);
    return fmt::format("random {}", start - 2);
  }

  std::vector<double> climb(const std::string& name) {
    std::vector<double> values;
    progress_.start("aligning from " + name, options_.iterations);
    for (std::int64_t i = 0; i < options_.iterations; ++i) {
      values.push_back(pass());
      progress_.advance(1);
      if (i > 0 && values[values.size() - 1] - values[values.size() - 2] <=
                       kConverged * std::abs(values.back())) {
        break;
      }
    }
    progress_.finish();
    return values;
  }

  // What one layer finds where the stream is, and what it then says of the stream.
  struct Turn {
    Element found;
    StreamMatch<Scalar> stream;
    double elsewhere;
  };
  Turn turn(std::int64_t layer) {
    const Tensors a = a_layer(layer);
    Parameters<Scalar> b = b_layer(layer);
    Turn result{{}, StreamMatch<Scalar>(symmetry_), 0};
    const auto take_here = [&](const Element& step) {
      if (step.maps.empty()) return;
      act_with_norms(symmetry_, step, layer, norms_, b);
      compose_onto(symmetry_, step, result.found);
    };
    take_here(match_latents(symmetry_, layer, options_.scope, *a, b, found_));
    Element step = layer_step(layer, *a, b);
    if (const auto sharing = layers_sharing(layer); !sharing.empty()) {
      step.maps.merge(match_together(sharing).maps);
    }
    take_here(step);
    result.stream.add(*a, b);
    result.elsewhere = outside_stream(*a, b);
    return result;
  }

  double pass() {
    StreamMatch<Scalar> stream(symmetry_);
    double elsewhere = 0;
    std::vector<Element> found;
    const std::int64_t layers = symmetry_.architecture.layers;
    const auto keep = [&](std::int64_t, const Turn& turn) {
      stream.add(turn.stream);
      elsewhere += turn.elsewhere;
      found.push_back(turn.found);
      if (heads_are_shared_) take_all(found);
    };
    const auto work = [&](std::int64_t i, Progress& own) {
      own.advance(0);
      return turn(i - 1);
    };
    OneJob alone(progress_);
    for_each_job(layers + 1, heads_are_shared_ ? alone : progress_, work, keep);
    take_all(found);
    double value = stream.value();
    if (moves_stream_) take(stream.solve(value));
    return value + elsewhere;
  }

  Element layer_step(std::int64_t layer, const Parameters<Scalar>& a,
                     const Parameters<Scalar>& b) const {
    Element step;
    const std::string ffn = fmt::format("layers.{}.ffn", layer);
    std::vector<std::string> all = {"head.transform", "head.pooler", ffn + ".neurons",
                                    ffn + ".shared.neurons", "encoder.residual"};
    for (std::size_t i = 0; i < symmetry_.architecture.convolutions.size(); ++i) {
      all.push_back(symmetry_.architecture.convolution(i));
    }
    for (const auto& units : all) {
      const Space* neurons = symmetry_.find_space(units);
      if (neurons == nullptr || layer_of(units) != layer) continue;
      if (!options_.scope.contains(*neurons)) continue;
      step.maps[neurons->name] = match_units(symmetry_, *neurons, a, b);
    }
    if (layer >= 0 && symmetry_.architecture.layer(layer).has_delta()) {
      step.maps.merge(match_delta_net(symmetry_, layer, options_.scope, a, b).maps);
    } else if (layer >= 0 && layers_sharing(layer).empty() && !attention(layer).shares_table) {
      step.maps.merge(match_heads(symmetry_, layer, options_.scope, a, b).maps);
    }
    return step;
  }

  const Attention& attention(std::int64_t layer) const {
    return symmetry_.architecture.layer(layer).attention;
  }

  // The layers whose heads are those of this one, which has the table that they share; itself
  // first. Empty if there are none.
  std::vector<std::int64_t> layers_sharing(std::int64_t layer) const {
    const Architecture& shape = symmetry_.architecture;
    if (layer < 0 || layer != shape.stack_of(layer)) return {};
    std::vector<std::int64_t> sharing = {layer};
    for (std::int64_t other = layer + 1; other < shape.layers; ++other) {
      if (attention(other).shares_table && shape.stack_of(other) == layer) sharing.push_back(other);
    }
    return sharing.size() > 1 ? sharing : std::vector<std::int64_t>();
  }

  Element match_together(const std::vector<std::int64_t>& layers) {
    const std::string heads = fmt::format("layers.{}.attn.heads", layers.front());
    HeadMatch match(symmetry_, options_.scope, *symmetry_.find_space(heads));
    for (const auto layer : layers) {
      const Parameters<Scalar> b = b_layer(layer);
      match.add(layer, *a_layer(layer), b);
    }
    return std::move(match).solve();
  }

  double outside_stream(const Parameters<Scalar>& a, const Parameters<Scalar>& b) const {
    double sum = 0;
    for (const auto& [name, tensor] : a) {
      const TensorAxes& axes = symmetry_.tensors.at(name);
      bool in_stream = false;
      for (const auto* axis : {&axes.rows, &axes.cols}) {
        for (const auto& part : *axis) in_stream = in_stream || part.space == "residual";
      }
      if (!in_stream) {
        sum += static_cast<double>(tensor.cwiseProduct(b.at(name)).sum());
      }
    }
    return sum;
  }

  // Found so far, then this.
  void take(const Element& step) { compose_onto(symmetry_, step, found_); }

  void take_all(std::vector<Element>& steps) {
    for (const Element& step : steps) take(step);
    steps.clear();
  }

  const Symmetry& symmetry_;
  const AlignOptions& options_;
  Progress& progress_;
  MovedModel a_, b_;
  Metric<Scalar> metric_;
  Parameters<Scalar> norms_;  // of B's form, for layers that do not hold them
  bool moves_stream_ = false;
  bool keeps_ = false;
  bool heads_are_shared_ = false;         // by several layers, of which one finds them
  std::vector<Tensors> kept_a_, kept_b_;  // weighted, by layer, embedding and head first
  Element found_;                         // from b's form towards a's
};

// B's form is another one where the stream is reversed, so that both are tried.
template <class Scalar>
Alignment search(const Symmetry& symmetry, const ReadTensor& a, const ReadTensor& b,
                 const AlignOptions& options, Progress& progress) {
  const auto with_sign = [&](double sign) {
    return Search<Scalar>(symmetry, a, b, options, progress, sign).run();
  };
  Alignment straight = with_sign(1);
  const Space* reversal = symmetry.find_space("residual.sign");
  if (reversal == nullptr || !options.scope.contains(*reversal)) return straight;
  Alignment reversed = with_sign(-1);
  const bool better = reversed.report.at("objective") > straight.report.at("objective");
  return better ? reversed : straight;
}

}  // namespace

Alignment align_weights(const Symmetry& symmetry, const ReadTensor& a, const ReadTensor& b,
                        const AlignOptions& options, Progress& progress) {
  if (!symmetry.architecture.beside.empty()) {
    return align_towers(align_weights, symmetry, a, b, options, progress);
  }
  const bool narrow = symmetry.architecture.width <= kDoubleWidth;
  return narrow ? search<double>(symmetry, a, b, options, progress)
                : search<float>(symmetry, a, b, options, progress);
}

}  // namespace regauge
