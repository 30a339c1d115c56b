#include "activations.h"

#include <fmt/format.h>

#include <cmath>

#include "align/match/head_match.h"
#include "align/match/latent_match.h"
#include "align/match/stream_match.h"
#include "arch/transform_norm.h"
#include "covariance.h"
#include "numerics/dense.h"
#include "numerics/nested.h"
#include "regauge/action/act.h"
#include "regauge/base/error.h"
#include "symmetry/procrustes.h"

namespace regauge {
namespace {

// A hidden layer whose units change places.
struct Units {
  std::string space, tap;
};

class Aligner {
 public:
  Aligner(const Symmetry& symmetry, const Parameters<double>& a, const Parameters<double>& b,
          const Scope& scope)
      : symmetry_(symmetry), architecture_(symmetry.architecture), a_(a), b_(b), scope_(scope) {
    for (std::int64_t n = 0; n < architecture_.layers; ++n) {
      units_.push_back(
          {fmt::format("layers.{}.ffn.neurons", n), fmt::format("layers.{}.ffn.hidden", n)});
      units_.push_back({fmt::format("layers.{}.ffn.shared.neurons", n),
                        fmt::format("layers.{}.ffn.shared.hidden", n)});
    }
    units_.push_back({"head.transform", "head.hidden"});
    units_.push_back({"head.pooler", "head.pooler.hidden"});
    std::erase_if(units_, [&](const Units& u) { return movable(u.space) == nullptr; });
  }

  void add(const Taps<float>& a, const Taps<float>& b) {
    for (const auto& [name, in_a] : a) {
      if (name.ends_with("norm.input") && reads_the_stream(name)) add_stream(in_a, b.at(name));
    }
    for (std::int64_t n = 0; n < architecture_.layers; ++n) {
      const std::string at = fmt::format("layers.{}.attn.", n);
      mixtures_[n].add(a.at(at + "heads"), b.at(at + "heads"));
      mixtures_a_[n].add(a.at(at + "heads"), a.at(at + "heads"));
      mixtures_b_[n].add(b.at(at + "heads"), b.at(at + "heads"));
      add_patterns(n, a.at(at + "patterns"), b.at(at + "patterns"));
    }
    for (const auto& units : units_) hidden_[units.tap].add(a.at(units.tap), b.at(units.tap));
  }

  Element run() {
    align_stream();
    for (std::int64_t n = 0; n < architecture_.layers; ++n) place_heads(n);
    for (const auto& units : units_) place_units(units);
    fit_gauges();
    return std::move(found_);
  }

 private:
  // Null for a space that is not there, or not in the scope.
  const Space* movable(std::string_view name) const {
    const Space* space = symmetry_.find_space(name);
    return space != nullptr && scope_.contains(*space) ? space : nullptr;
  }

  // Behind a transform the norm reads another space.
  bool reads_the_stream(const std::string& norm_input) const {
    if (architecture_.maps_embedding() && norm_input == "embed.norm.input") return false;
    return !architecture_.head_transform ||
           norm_input != std::string(transform_norm(architecture_)) + ".input";
  }

  void add_stream(const Matrix<float>& a, const Matrix<float>& b) {
    const auto unit_rows = [&](Matrix<float> rows) {
      if (architecture_.norm == Norm::layer) rows.colwise() -= rows.rowwise().mean().eval();
      const Eigen::VectorXf lengths = rows.rowwise().norm().cwiseMax(1e-30F);
      rows.array().colwise() /= lengths.array();
      return rows;
    };
    const Matrix<double> cross = product_transposed(unit_rows(b), unit_rows(a)).cast<double>();
    if (stream_.size() == 0) {
      stream_ = cross;
    } else {
      stream_ += cross;
    }
  }

  void add_patterns(std::int64_t layer, const Matrix<float>& a, const Matrix<float>& b) {
    const std::int64_t heads = architecture_.layer(layer).attention.heads, keys = a.cols() / heads;
    Patterns& patterns = patterns_[layer];
    if (patterns.cross.size() == 0) {
      patterns.cross.setZero(heads, heads);
      patterns.squares_a.setZero(heads);
      patterns.squares_b.setZero(heads);
    }
    const auto head = [&](const Matrix<float>& all, std::int64_t i) {
      return all.middleCols(i * keys, keys);
    };
    for (std::int64_t i = 0; i < heads; ++i) {
      patterns.squares_a(i) += static_cast<double>(head(a, i).squaredNorm());
      patterns.squares_b(i) += static_cast<double>(head(b, i).squaredNorm());
      for (std::int64_t j = 0; j < heads; ++j) {
        patterns.cross(i, j) += static_cast<double>(head(b, i).cwiseProduct(head(a, j)).sum());
      }
    }
  }

  void align_stream() {
    found_ = match_table_stream(symmetry_, scope_, a_, b_);
    if (movable("residual") == nullptr) return;
    StreamMatch<double> match(symmetry_);
    match.add(stream_);
    double value = 0;
    found_.maps.merge(match.solve(value).maps);
    b_moved_ = moved();
  }

  static bool has_signs(const Space& space) {
    return std::get<Scaling>(space.group).log2_components() > 0;
  }

  void place_heads(std::int64_t layer) {
    const Space* movable_space = movable(fmt::format("layers.{}.attn.heads", layer));
    if (movable_space == nullptr || movable_space->shuffle != Shuffle::grouped) return;
    const Space& space = *movable_space;
    const std::string o = fmt::format("layers.{}.attn.o.weight", layer);
    const Attention& shape = architecture_.layer(layer).attention;
    const std::int64_t heads = shape.heads, width = shape.v_width;
    // <y_B O_B, y_A O_A> = <y_B^T y_A, O_B O_A^T>: no row of the stream is needed.
    const auto contribution = [&](const Matrix<double>& covariance, const Matrix<double>& left,
                                  const Matrix<double>& right, std::int64_t i, std::int64_t j) {
      const Matrix<double> weights =
          left.middleRows(i * width, width) * right.middleRows(j * width, width).transpose();
      return covariance.block(i * width, j * width, width, width).cwiseProduct(weights).sum();
    };
    const Matrix<double>& o_a = a_.at(o);
    const Matrix<double>& o_b = b_moved_.at(o);
    const Matrix<double> cross = mixtures_[layer].centred();
    const Matrix<double> own_a = mixtures_a_[layer].centred();
    const Matrix<double> own_b = mixtures_b_[layer].centred();
    const Patterns& patterns = patterns_.at(layer);
    Matrix<double> similarity(heads, heads);
    for (std::int64_t i = 0; i < heads; ++i) {
      for (std::int64_t j = 0; j < heads; ++j) {
        const double size =
            std::sqrt(contribution(own_b, o_b, o_b, i, i) * contribution(own_a, o_a, o_a, j, j));
        const double written = contribution(cross, o_b, o_a, i, j);
        similarity(i, j) =
            (size > 0 ? written / size : 0) +
            patterns.cross(i, j) / std::sqrt(patterns.squares_b(i) * patterns.squares_a(j));
      }
    }
    const std::int64_t groups = heads / space.group_size;
    const auto best = assign_nested(similarity, Matrix<double>::Zero(groups, groups));
    found_.maps[space.name] = {heads, 1, best.target, {}};
  }

  void place_units(const Units& units) {
    const Space& space = *symmetry_.find_space(units.space);
    const Matrix<double> similarity = hidden_.at(units.tap).correlation();
    if (space.shuffle != Shuffle::grouped) {
      found_.maps[space.name] = signed_permutation_procrustes(similarity, has_signs(space));
      return;
    }
    const std::int64_t groups = space.groups();
    const Matrix<double> worth = has_signs(space) ? similarity.cwiseAbs() : similarity;
    auto places = assign_nested(worth, Matrix<double>::Zero(groups, groups), space.bundles).target;
    Matrix<double> signs(has_signs(space) ? space.count : 0, 1);
    for (Eigen::Index i = 0; i < signs.rows(); ++i) {
      signs(i, 0) = similarity(i, places[static_cast<std::size_t>(i)]) < 0 ? -1 : 1;
    }
    found_.maps[space.name] = {space.count, 1, std::move(places), signs};
  }

  void fit_gauges() {
    b_moved_ = moved();
    Element latents;
    for (std::int64_t n = 0; n < architecture_.layers; ++n) {
      latents.maps.merge(match_latents(symmetry_, n, scope_, a_, b_moved_, {}).maps);
    }
    if (!latents.maps.empty()) {
      compose_onto(symmetry_, latents, found_);
      b_moved_ = moved();
    }
    for (std::int64_t n = 0; n < architecture_.layers; ++n) {
      const Element gauges = match_heads(symmetry_, n, Scope("qk,vo"), a_, b_moved_);
      compose_onto(symmetry_, scope_.restrict(symmetry_, gauges), found_);
    }
  }

  Parameters<double> moved() const {
    Parameters<double> parameters = b_;
    act(symmetry_, found_, parameters);
    return parameters;
  }

  struct Patterns {
    Matrix<double> cross;  // heads of B by heads of A
    Eigen::VectorXd squares_a, squares_b;
  };

  const Symmetry& symmetry_;
  const Architecture& architecture_;
  const Parameters<double>& a_;
  const Parameters<double>& b_;
  const Scope& scope_;
  std::vector<Units> units_;
  Matrix<double> stream_;  // sum of B^T A
  std::map<std::int64_t, Covariance> mixtures_, mixtures_a_, mixtures_b_;
  std::map<std::int64_t, Patterns> patterns_;
  std::map<std::string, Covariance> hidden_;
  Element found_;
  Parameters<double> b_moved_ = b_;
};

}  // namespace

Element align_by_activations(const Symmetry& symmetry, const Parameters<double>& a,
                             const Parameters<double>& b, PairActivations& activations,
                             const Scope& scope, Progress& progress) {
  if (activations.batches() < 1) throw UsageError("[align] activations of no batch at all");
  for (const auto& kind : symmetry.architecture.kinds) {
    if (kind.has_delta()) {
      throw UsageError("[align] activations match the heads of attention, and no delta nets");
    }
  }
  Aligner aligner(symmetry, a, b, scope);
  progress.start("activations", activations.batches());
  while (activations.batches() > 0) {
    Taps<float> taps_a, taps_b;
    activations.next(taps_a, taps_b);
    aligner.add(taps_a, taps_b);
    progress.advance(1);
  }
  progress.finish();
  return aligner.run();
}

}  // namespace regauge
