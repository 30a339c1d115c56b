#include "recover.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <tuple>

#include "action/standard_form.h"
#include "arch/reading.h"
#include "base/jobs.h"
#include "channels.h"
#include "equivalence/read_part.h"
#include "equivalence/recover/tolerances.h"
#include "fit_constants.h"
#include "framed_model.h"
#include "gauge.h"
#include "io/parts.h"
#include "layer_tables.h"
#include "members.h"
#include "numerics/dense.h"
#include "numerics/polar.h"
#include "probe.h"
#include "regauge/equivalence/compare.h"
#include "rows.h"
#include "seen.h"
#include "signature.h"
#include "signs_apart.h"
#include "stream.h"
#include "symmetry/index.h"
#include "table_stream.h"

namespace regauge {
namespace {

constexpr std::int64_t kVectors = 2;  // of embedding and of head, for each coordinate of the stream
constexpr double kElsewhere = 0.1;  // of the distance in place: a row that belongs to another place
constexpr auto kAll = std::numeric_limits<std::int64_t>::max();

class Finder {
 public:
  Finder(const Symmetry& symmetry, const ParameterSource& a, const ParameterSource& b,
         double rounding, Progress& progress)
      : symmetry_(symmetry),
        a_(a),
        b_(b),
        rounding_(rounding),
        has_scales_(std::any_of(symmetry.spaces.begin(), symmetry.spaces.end(),
                                [](const Space& s) { return s.category == Category::scales; })),
        enlarged_(enlarged(symmetry, a, b)),
        known_(symmetry.architecture.width),
        everything_(symmetry, enlarged_),
        frame_(symmetry),
        a_form_(a, symmetry, standard_form(a, symmetry, 1, lost_, progress)),
        b_form_(standard_form(b, symmetry, b_sign_, lost_, progress)) {
    for (const auto& [tensor, factor] : enlarged_) {
      if (rounding_ * std::sqrt(factor) < kMostRounding) continue;
      limits_.push_back(
          fmt::format("{}: what is read of it is lost in the rounding of what is not", tensor));
    }
  }

  void embedding_and_head() {
    if (has_scales_) recover_scales(symmetry_, a_form_.layer(-1), b_moved(-1), found_);
    convolutions();
    if (symmetry_.architecture.maps_embedding()) {
      take(
          recover_table_stream(symmetry_, a_form_.layer(-1), b_moved(-1), rounding_, limits_).maps);
    }
    note_other_places();
    if (!symmetry_.architecture.convolutions.empty()) {
      const auto signs =
          signs_of_convolutions(symmetry_.architecture, a_form_.layer(-1), b_moved(-1));
      limits_.insert(limits_.end(), signs.begin(), signs.end());
    }
    if (symmetry_.find_space("residual") != nullptr) {
      // A sign of all the stream changes the form of B, and with it the anchors. A few vectors for
      // each coordinate do, unless they leave some direction to their last digits.
      const double sign_before = b_sign_;
      const Element before = found_;
      const std::int64_t enough = kVectors * symmetry_.architecture.width;
      const bool few = !frame_.is_whole() && rounding_ < kQuantised && has_more_than(enough);
      settle(anchors(few ? enough : kAll));
      if (b_sign_ != sign_before || (is_vague() && few)) {
        if (b_sign_ == sign_before) found_ = before;
        settle(anchors(kAll));
      }
      extend();
    }
    if (const Space* neurons = symmetry_.find_space("head.transform")) {
      const auto columns = [](const Parameters<double>& p) {
        return Matrix<double>(p.at("head.transform.weight").transpose());
      };
      take({{neurons->name,
             BlockMap<double>(
                 neurons->count, 1,
                 match_rows(columns(b_moved(-1)), columns(a_form_.layer(-1)), rounding_), {})}});
    }
    if (const Space* units = symmetry_.find_space("head.pooler")) pooler(*units);
    if (const Space* tables = symmetry_.find_space("embed.tables"))
      take(table_coordinates(*tables, a_form_, b_moved_on(-1), rounding_));
  }

  // All layers; several at a time, unless one needs what is found of another.
  void layers(Progress& outer) {
    Reading progress(outer, a_, b_);
    measure_anchors();
    const bool apart = !layers_share_spaces(symmetry_);
    const auto count = symmetry_.architecture.layers;
    std::vector<Element> found;
    progress.start("finding the element", count);
    const auto work = [&](std::int64_t i, Progress& own) {
      Seen seen = layer(i);
      own.advance(1);
      return seen;
    };
    const auto keep = [&](std::int64_t, Seen seen) {
      if (is_vague()) everything_.add(symmetry_, seen.a, seen.b);
      check_shapes(symmetry_, seen.found);
      if (apart) {
        found.push_back(std::move(seen.found));
      } else {
        take(seen.found.maps);
      }
    };
    if (apart && !is_vague()) {
      const std::vector<std::int64_t> alike(static_cast<std::size_t>(count), 1);
      for_each_unit("recognise layers", alike, progress, work, keep);
    } else if (apart) {
      for_each_job(count, progress, work, keep);
    } else {
      OneJob alone(progress);
      for_each_job(count, alone, work, keep);
    }
    for (const Element& step : found) take(step.maps);
    progress.finish();
  }

  // The stream's map once more, now from all tensors that live in it.
  void sharpen() {
    everything_.add(symmetry_, a_form_.layer(-1), b_moved(-1));
    settle(everything_);
    // That they agree in no direction at all is an answer, and no limit.
    if (!known_.is_all() && known_.dimension() > 0) {
      limits_.push_back(
          fmt::format("all tensors together determine {} of the stream's {} dimensions",
                      known_.dimension(), symmetry_.architecture.width));
    }
    determined_ = 1;
  }

  // Embedding and head alone leave some direction of the stream to their last digits.
  bool is_vague() const { return determined_ < kLeastDetermined; }

  Recovery finish() const {
    const Element to_a = inverse(symmetry_, a_form_.element());
    Recovery result{compose(symmetry_, to_a, compose(symmetry_, found_, b_form_)), limits_};
    fit_constants(symmetry_, a_, b_, enlarged_, result.a_from_b);
    return result;
  }

 private:
  Seen layer(std::int64_t layer) {
    const bool qk_norm = symmetry_.architecture.layer(layer).attention.has_qk_norm();
    Seen seen;
    Element& found = seen.found;
    Parameters<double>&a = seen.a, &b = seen.b;
    std::tie(a, b) = both(layer);
    const auto take_here = [&](const Element& step) {
      act_on_layer(symmetry_, step, layer, b);
      compose_onto(symmetry_, step, found);
    };
    take_here(turn_latents(layer, a, b));
    compose_onto(symmetry_, match(layer, a, b), found);
    if (qk_norm) take_here(recover_qk_norm(symmetry_, layer, a, b));
    std::set<std::string> unknown;
    const std::string prefix = fmt::format("layers.{}.", layer);
    const std::vector<std::size_t>& here = symmetry_.layer(layer).spaces;
    for (const std::size_t i : here) {
      const Space& space = symmetry_.spaces[i];
      const bool neurons = space.category == Category::ffn;
      const bool gauge =
          space.category == Category::qk || space.category == Category::vo || neurons;
      const bool behind_norm = qk_norm && space.category == Category::qk;
      const bool moves = space.dimension() > 0 || (neurons && space.is_signs());
      if (gauge && !behind_norm && moves && space.name.starts_with(prefix)) {
        unknown.insert(space.name);
      }
    }
    for (const std::size_t i : here) {
      const Space& space = symmetry_.spaces[i];
      if (!unknown.contains(space.name)) continue;
      Element step;
      step.maps[space.name] =
          least_squares_blocks(symmetry_, space, unknown, a, b, rounding_, enlarged_);
      unknown.erase(space.name);
      take_here(step);
    }
    if (is_vague() && looks()) {
      a = a_form_.layer(layer);
      b = b_moved(layer);
      act_on_layer(symmetry_, found, layer, b);
    }
    if (!is_vague()) a = b = {};
    return seen;
  }

  // Where the channels of each convolution belong, by what it reads of those before it, and their
  // signs, which a norm behind it passes on to its gain.
  void convolutions() {
    const Architecture& shape = symmetry_.architecture;
    for (std::size_t i = 0; i < shape.convolutions.size(); ++i) {
      const std::string name = shape.convolution(i);
      const Space& channels =
          *symmetry_.find_space(symmetry_.tensors.at(name + ".weight").cols.front().space);
      const auto signs = [&](const Parameters<double>& p) -> Matrix<double> {
        if (!channels.is_signs()) return Matrix<double>::Ones(channels.count, 1);
        return p.at(name + ".norm.gain").transpose().unaryExpr([](double gain) {
          return gain < 0 ? -1.0 : 1.0;
        });
      };
      const auto columns = [&](const Parameters<double>& p) -> Matrix<double> {
        return signs(p).col(0).asDiagonal() * p.at(name + ".weight").transpose();
      };
      const Parameters<double> a = a_form_.layer(-1), b = b_moved(-1);
      const auto places = match_rows(columns(b), columns(a), rounding_);
      Matrix<double> turned = signs(b);
      for (Eigen::Index of = 0; of < turned.rows(); ++of) {
        turned(of, 0) *= signs(a)(places[static_cast<std::size_t>(of)], 0);
      }
      take({{channels.name, BlockMap<double>(channels.count, 1, places,
                                             channels.is_signs() ? turned : Matrix<double>())}});
    }
  }

  // Behind a positional convolution coordinates of the stream that it reads alike could change
  // places; the group leaves that out, and a model of which it is true is not judged.
  void note_other_places() {
    const Architecture& shape = symmetry_.architecture;
    if (!shape.has_positional() || shape.output.has(Output::hidden)) return;
    const Matrix<double> a = a_form_.layer(-1).at("embed.input.weight").transpose();
    const Matrix<double> b = b_moved(-1).at("embed.input.weight").transpose();
    const auto places = match_rows(b, a, rounding_);
    std::int64_t elsewhere = 0;
    for (Eigen::Index i = 0; i < b.rows(); ++i) {
      const double there = (b.row(i) - a.row(places[static_cast<std::size_t>(i)])).norm();
      if (there < kElsewhere * (b.row(i) - a.row(i)).norm()) ++elsewhere;
    }
    if (elsewhere < 2) return;
    limits_.push_back(fmt::format(
        "{} of {} coordinates of the stream seem to have changed places, which is not looked for "
        "where a positional convolution reads them",
        elsewhere, b.rows()));
  }

  // Where the units of a pooler belong, by what they read up to their factors; then these.
  void pooler(const Space& units) {
    const Parameters<double> a = a_form_.layer(-1), b = b_moved(-1);
    const auto signatures = [&](const Parameters<double>& p) {
      return unit_signatures(units, p.at("head.pooler.weight"), known_);
    };
    const auto places = match_rows(signatures(b), signatures(a), rounding_);
    Matrix<double> factors;
    const auto kind = std::get<Scaling>(units.group).kind();
    if (kind != Scaling::Kind::trivial) {
      factors.resize(units.count, 1);
      const Matrix<double>&in_a = a.at("head.pooler.weight"), &in_b = b.at("head.pooler.weight");
      for (Eigen::Index i = 0; i < units.count; ++i) {
        const auto to = in_a.col(places[static_cast<std::size_t>(i)]);
        const double product = to.dot(in_b.col(i)), size = in_b.col(i).squaredNorm();
        factors(i, 0) = kind == Scaling::Kind::signs ? (product < 0 ? -1 : 1)
                        : product > 0 && size > 0    ? product / size
                                                     : 1;
      }
    }
    take({{units.name, BlockMap<double>(units.count, 1, places, factors)}});
  }

  // The stream's map by these vectors, which are as found_ moves them.
  StreamFit settle(const StreamCorrelation& vectors) {
    const StreamFit fit = fit_stream(symmetry_, vectors, rounding_);
    take({{"residual", fit.map}});
    if (fit.reversed) {
      take({{"residual.sign", BlockMap<double>(1, 1, {}, Matrix<double>::Constant(1, 1, -1))}});
      b_sign_ = -b_sign_;
      b_form_ = standard_form(b_, symmetry_, b_sign_, lost_, Progress::silent());
    }
    known_ = fit.known;
    determined_ = fit.determined;
    return fit;
  }

  // Where embedding and head do not span the stream: what the layers, recognised on the known part,
  // make of it, until nothing is added.
  void extend() {
    std::int64_t before = 0;
    measure_anchors();
    while (!known_.is_all() && known_.dimension() > before) {
      before = known_.dimension();
      StreamCorrelation vectors(symmetry_, enlarged_);
      vectors.add(symmetry_, in_order(a_form_.layer(-1)), b_moved(-1));
      for (std::int64_t layer = 0; layer < symmetry_.architecture.layers; ++layer) {
        auto [a, b] = both(layer);
        act_on_layer(symmetry_, turn_latents(layer, a, b), layer, b);
        match(layer, a, b);
        const auto in_a = layer_vectors(symmetry_.architecture, layer, a, known_);
        const auto in_b = layer_vectors(symmetry_.architecture, layer, b, known_);
        for (std::size_t i = 0; i < in_a.size(); ++i) vectors.add(in_a[i], in_b[i]);
        vectors.move(settle(vectors));
        if (known_.is_all()) break;
      }
    }
  }

  // The rotations of the layer's latents, by the maps that write them, as far as the stream that
  // these read is known.
  Element turn_latents(std::int64_t layer, const Parameters<double>& a,
                       const Parameters<double>& b) const {
    Element turns;
    for (const char* latent : {"q_latent", "kv_latent"}) {
      const std::string name = fmt::format("layers.{}.attn.{}", layer, latent);
      const Space* space = symmetry_.find_space(name);
      if (space == nullptr) continue;
      const auto seen = [&](const Parameters<double>& model) -> Matrix<double> {
        const Matrix<double>& weight = model.at(name + ".weight");
        if (known_.is_all()) return weight;
        const auto size = known_.dimension();
        return product(known_.embed(Matrix<double>::Identity(size, size)), weight);
      };
      turns.maps[name] = BlockMap<double>(1, space->size(), {},
                                          polar_factor(product_transposed(seen(b), seen(a))));
    }
    return turns;
  }

  // With the keys and values that the layer takes from another one, under its own names.
  Parameters<double> with_keys(std::int64_t layer, std::int64_t owner,
                               const Parameters<double>& own, const FramedModel& model) const {
    Parameters<double> all = own;
    for (const auto& [name, value] : looks() ? model.layer(owner, frame_) : model.layer(owner)) {
      for (const char* part : {"attn.k.weight", "attn.v.weight", "attn.k_norm.gain"}) {
        if (name.ends_with(part)) all[fmt::format("layers.{}.{}", layer, part)] = value;
      }
    }
    return all;
  }

  // Brings b's heads, their channels and neurons to where they belong, and says so.
  Element match(std::int64_t layer, const Parameters<double>& a, Parameters<double>& b) const {
    const Architecture& shape = symmetry_.architecture;
    const bool delta = shape.layer(layer).has_delta();
    const Space* heads =
        symmetry_.find_space(fmt::format("layers.{}.{}.heads", layer, delta ? "delta" : "attn"));
    const auto signatures = delta ? delta_signatures : head_signatures;
    const Known in_heads = looks() ? Known(frame_.attention_width()) : known_;
    const Known in_neurons = looks() ? Known(frame_.ffn_width()) : known_;
    Element places;
    if (heads != nullptr) {  // else they follow those of the layer whose table they share
      const std::int64_t owner = shape.keys_of(layer);
      const bool takes = owner != layer;
      const auto signed_by = [&](const Parameters<double>& tensors) {
        return signatures(shape, layer, tensors, in_heads);
      };
      const auto of_b =
          takes ? signed_by(with_keys(layer, owner, b, b_moved_on(owner))) : signed_by(b);
      const auto of_a = takes ? signed_by(with_keys(layer, owner, a, a_form_)) : signed_by(a);
      places.maps[heads->name] =
          BlockMap<double>(heads->count, 1, match_members(*heads, of_b, of_a, rounding_), {});
    }
    for (const char* maps : {"ffn", "ffn.shared"}) {
      const std::string at = fmt::format("layers.{}.{}", layer, maps);
      const Space* neurons = symmetry_.find_space(at + ".neurons");
      if (neurons == nullptr) continue;
      places.maps[neurons->name] =
          BlockMap<double>(neurons->count, 1,
                           match_members(*neurons, neuron_signatures(shape, at, b, in_neurons),
                                         neuron_signatures(shape, at, a, in_neurons), rounding_),
                           {});
    }
    act_on_layer(symmetry_, places, layer, b);
    const Element channels = match_channels(symmetry_, layer, a, b, in_heads, rounding_);
    if (channels.is_identity()) return places;
    act_on_layer(symmetry_, channels, layer, b);
    compose_onto(symmetry_, channels, places);
    return places;
  }

  // The stream's map is known, so that a layer may be looked at through the frame.
  bool looks() const { return known_.is_all() && !frame_.is_whole(); }

  // Whether anchors(most) leaves any vector out.
  bool has_more_than(std::int64_t most) const {
    const auto& tensors = symmetry_.layer(-1).tensors;
    return std::any_of(tensors.begin(), tensors.end(), [&](const ParameterSpec& spec) {
      return std::max(spec.rows, spec.cols) / most > 1;
    });
  }

  // Embedding and head, of each at most so many vectors.
  StreamCorrelation anchors(std::int64_t most) const {
    StreamCorrelation sum(symmetry_, enlarged_);
    const auto add = [&](const auto& a, const auto& b) {
      sum.add(symmetry_, in_order(a), b, most);
    };
    if (rounding_ > kCoarse) {
      add(a_form_.ends<float>(most), b_moved_on(-1).ends<float>(most));
    } else {
      add(a_form_.ends<double>(most), b_moved_on(-1).ends<double>(most));
    }
    return sum;
  }

  // Without the maps whose columns are put in order by way of the stream, and not of narrow tables.
  template <class Scalar>
  Parameters<Scalar> in_order(Parameters<Scalar> ends) const {
    ends.erase("head.pooler.weight");
    const bool apart = symmetry_.find_space("head.transform") != nullptr;
    if (apart || !symmetry_.architecture.maps_embedding()) ends.erase("head.transform.weight");
    return ends;
  }

  void measure_anchors() {
    if (symmetry_.architecture.norm != Norm::layer || anchor_size_) return;
    anchor_size_ = 0;
    for (const auto& [name, tensor] : a_form_.layer(-1)) {
      const double mean = tensor.squaredNorm() / static_cast<double>(tensor.size());
      if (tensor.rows() > 1) anchor_size_ = std::max(*anchor_size_, std::sqrt(mean));
    }
  }

  // A layer of A and of B as far as it is found, with nothing where there is only rounding. Their
  // size must have been measured.
  std::pair<Parameters<double>, Parameters<double>> both(std::int64_t layer) {
    const auto seen = [&](const FramedModel& model) {
      return looks() ? model.layer(layer, frame_) : model.layer(layer);
    };
    auto a = seen(a_form_);
    auto b = seen(b_moved_on(layer));
    if (recover_scales(symmetry_, a, b, found_)) b = seen(b_moved_on(layer));
    if (symmetry_.architecture.norm != Norm::layer) return {std::move(a), std::move(b)};
    clear_rounding(symmetry_, kClearedRounding * rounding_ * *anchor_size_, a);
    clear_rounding(symmetry_, kClearedRounding * rounding_ * *anchor_size_, b);
    return {std::move(a), std::move(b)};
  }

  // B as far as it is found, to be looked at in this layer alone.
  FramedModel b_moved_on(std::int64_t layer) const {
    return {b_, symmetry_, compose_on_layer(symmetry_, found_, b_form_, layer)};
  }
  Parameters<double> b_moved(std::int64_t layer) const { return b_moved_on(layer).layer(layer); }

  // Found so far, then these.
  void take(const std::map<std::string, BlockMap<double>>& maps) {
    compose_onto(symmetry_, {maps, {}}, found_);
  }

  const Symmetry& symmetry_;
  const ParameterSource& a_;
  const ParameterSource& b_;
  std::vector<std::string> limits_;
  std::vector<std::string> lost_;  // digits of constants: a matter of rounding, and no limit
  double rounding_;                // relative, of the coarser model's matrices
  bool has_scales_;
  std::optional<double> anchor_size_;  // the largest root mean square of A's embedding and head
  Enlarged enlarged_;
  double determined_ = 1;  // the stream's map
  Known known_;            // what of A's stream it is known for
  StreamCorrelation everything_;
  Frame frame_;
  FramedModel a_form_;
  double b_sign_ = 1;  // of the stream, before found_
  Element b_form_;
  Element found_;  // from b's standard form towards a's
};

}  // namespace

Recovery recover(const Symmetry& symmetry, const ParameterSource& a, const ParameterSource& b,
                 double rounding, Progress& progress) {
  Finder finder(symmetry, a, b, rounding, progress);
  progress.advance(0);
  finder.embedding_and_head();
  finder.layers(progress);
  if (finder.is_vague()) {
    finder.sharpen();
    finder.layers(progress);
  }
  return finder.finish();
}

}  // namespace regauge
