#include "regauge/equivalence/recover.h"

#include <fmt/format.h>

#include "gauge.h"
#include "moved_model.h"
#include "signature.h"
#include "standard_form.h"
#include "stream.h"

namespace regauge {
namespace {

constexpr double kVague = 1e-3;

// Query heads to query heads: kv heads outside, by what their group computes together; the members
// of a group inside.
std::vector<std::int64_t> match_heads(const Space& heads, const Matrix<double>& b,
                                      const Matrix<double>& a) {
  if (heads.shuffle == Shuffle::none) return {};
  const auto size = heads.group_size;
  const auto groups = heads.count / size;
  const auto summed = [&](const Matrix<double>& rows) {
    Matrix<double> sums(groups, rows.cols());
    for (std::int64_t i = 0; i < groups; ++i) {
      sums.row(i) = rows.middleRows(i * size, size).colwise().sum();
    }
    return sums;
  };
  const auto outer = match_rows(summed(b), summed(a));
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < groups; ++i) {
    const std::int64_t to = outer[static_cast<std::size_t>(i)];
    for (const auto inner :
         match_rows(b.middleRows(i * size, size), a.middleRows(to * size, size))) {
      places.push_back(to * size + inner);
    }
  }
  return places;
}

class Finder {
 public:
  Finder(const Symmetry& symmetry, const ParameterSource& a, const ParameterSource& b,
         Progress& progress)
      : symmetry_(symmetry),
        a_(a),
        b_(b),
        everything_(symmetry),
        a_form_(a, symmetry, standard_form(a, symmetry, limits_, progress)),
        b_form_(standard_form(b, symmetry, limits_, progress)) {}

  void embedding_and_head() {
    const auto a = a_form_.layer(-1);
    const auto b = b_moved(-1);
    recover_scales(symmetry_, a, b, found_);
    StreamCorrelation anchors(symmetry_);
    anchors.add(symmetry_, a, b);
    determined_ = recover_stream(symmetry_, anchors, found_, limits_);
    if (const Space* neurons = symmetry_.find_space("head.transform")) {
      const auto columns = [](const Parameters<double>& p) {
        return Matrix<double>(p.at("head.transform.weight").transpose());
      };
      take({{neurons->name, BlockMap<double>(neurons->count, 1,
                                             match_rows(columns(b_moved(-1)), columns(a)), {})}});
    }
  }

  void layer(std::int64_t layer) {
    const Architecture& shape = symmetry_.architecture;
    const auto a = a_form_.layer(layer);
    auto b = b_moved(layer);
    if (recover_scales(symmetry_, a, b, found_)) b = b_moved(layer);

    const Space& heads = *symmetry_.find_space(fmt::format("layers.{}.attn.heads", layer));
    const Space& neurons = *symmetry_.find_space(fmt::format("layers.{}.ffn.neurons", layer));
    Element places;
    places.maps[heads.name] = BlockMap<double>(
        heads.count, 1,
        match_heads(heads, head_signatures(shape, layer, b), head_signatures(shape, layer, a)), {});
    places.maps[neurons.name] = BlockMap<double>(
        neurons.count, 1,
        match_rows(neuron_signatures(shape, layer, b), neuron_signatures(shape, layer, a)), {});
    act_on_layer(symmetry_, places, layer, b);
    take(places.maps);

    if (shape.qk_norm) {
      const Element qk = recover_qk_norm(symmetry_, layer, a, b);
      act_on_layer(symmetry_, qk, layer, b);
      take(qk.maps);
    }
    std::set<std::string> unknown;
    const std::string prefix = fmt::format("layers.{}.", layer);
    for (const auto& space : symmetry_.spaces) {
      const bool gauge = space.category == Category::qk || space.category == Category::vo ||
                         space.category == Category::ffn;
      const bool behind_norm = shape.qk_norm && space.category == Category::qk;
      if (gauge && !behind_norm && space.dimension() > 0 && space.name.starts_with(prefix)) {
        unknown.insert(space.name);
      }
    }
    for (const auto& space : symmetry_.spaces) {
      if (!unknown.contains(space.name)) continue;
      Element step;
      step.maps[space.name] = least_squares_blocks(symmetry_, space, unknown, a, b);
      unknown.erase(space.name);
      act_on_layer(symmetry_, step, layer, b);
      take(step.maps);
    }
    if (is_vague()) everything_.add(symmetry_, a, b);
  }

  // The stream's map once more, now from all tensors that live in it.
  void sharpen() {
    everything_.add(symmetry_, a_form_.layer(-1), b_moved(-1));
    recover_stream(symmetry_, everything_, found_, limits_);
    determined_ = 1;
  }

  // Embedding and head alone leave some direction of the stream to their last digits.
  bool is_vague() const { return determined_ > 0 && determined_ < kVague; }

  Recovery finish() const {
    const Element to_a = inverse(symmetry_, a_form_.element());
    Recovery result{compose(symmetry_, to_a, compose(symmetry_, found_, b_form_)), limits_};
    fit_unread(result.a_from_b);
    return result;
  }

 private:
  Parameters<double> b_moved(std::int64_t layer) const {
    return MovedModel(b_, symmetry_, compose(symmetry_, found_, b_form_)).layer(layer);
  }

  // The part of a reader along 1/gain was found where gains are 1; a small gain of A's enlarges its
  // error. It is fitted once more in A's own coordinates.
  void fit_unread(Element& a_from_b) const {
    if (symmetry_.architecture.norm != Norm::layer) return;
    const MovedModel moved(b_, symmetry_, a_from_b);
    for (std::int64_t layer = -1; layer < symmetry_.architecture.layers; ++layer) {
      const auto b = moved.layer(layer);
      for (const auto& shift : symmetry_.shifts) {
        if (shift.depends_on_values || shift.effects.front().kind != Effect::Kind::reader) continue;
        const Effect& effect = shift.effects.front();
        if (!b.contains(effect.tensor)) continue;
        const Matrix<double> unread =
            a_.read<double>(symmetry_.norms.at(effect.norm).gain()).cwiseInverse();
        a_from_b.shifts[shift.name] +=
            unread * (a_.read<double>(effect.tensor) - b.at(effect.tensor)) / unread.squaredNorm();
      }
    }
  }

  // Found so far, then these.
  void take(const std::map<std::string, BlockMap<double>>& maps) {
    for (const auto& [name, map] : maps) {
      found_.maps[name] = map * map_of(symmetry_, found_, *symmetry_.find_space(name));
    }
  }

  const Symmetry& symmetry_;
  const ParameterSource& a_;
  const ParameterSource& b_;
  std::vector<std::string> limits_;
  double determined_ = 1;  // the stream's map by embedding and head
  StreamCorrelation everything_;
  MovedModel a_form_;
  Element b_form_;
  Element found_;  // from b's standard form towards a's
};

}  // namespace

Recovery recover(const Symmetry& symmetry, const ParameterSource& a, const ParameterSource& b,
                 Progress& progress) {
  Finder finder(symmetry, a, b, progress);
  const std::int64_t layers = symmetry.architecture.layers;
  const auto all_layers = [&] {
    progress.start("finding the element", layers);
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      finder.layer(layer);
      progress.advance(1);
    }
    progress.finish();
  };
  finder.embedding_and_head();
  all_layers();
  if (finder.is_vague()) {
    finder.sharpen();
    all_layers();
  }
  return finder.finish();
}

}  // namespace regauge
