#include "regauge/equivalence/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "numerics/dense.h"

namespace regauge {
namespace {

constexpr std::string_view kTables = "embed.tables";  // the space of their coordinates

// How a block differs from the identity.
enum class Kind { still, signs, permuted, rotated, scaled, general };

// An element is as well known as the numbers that it was read from, give or take.
constexpr double kMargin = 50;

double tolerance_of(const std::vector<TensorResidual>& residuals) {
  double largest = 0;
  for (const auto& r : residuals) {
    if (!r.single_row && r.size > 0) largest = std::max(largest, r.rounding / r.size);
  }
  return std::clamp(kMargin * largest, 1e-6, 0.1);
}

bool near_identity(const Matrix<double>& m, double tolerance) {
  return (m - Matrix<double>::Identity(m.rows(), m.cols())).cwiseAbs().maxCoeff() < tolerance;
}

bool is_whole(const Matrix<double>& m, double tolerance) {
  return (m.cwiseAbs().array() * (1 - m.cwiseAbs().array())).abs().maxCoeff() < tolerance;
}

// Rows at right angles; by `turns` of length 1 as well.
bool has_orthogonal_rows(const Matrix<double>& m, double tolerance) {
  Matrix<double> gram = product(m, m.transpose());
  const Eigen::VectorXd sizes = gram.diagonal();
  gram.diagonal().setZero();
  return gram.cwiseAbs().maxCoeff() < tolerance * sizes.maxCoeff();
}

Kind kind_of(const Matrix<double>& block, double tolerance) {
  if (near_identity(block, tolerance)) return Kind::still;
  if (near_identity(block.cwiseAbs(), tolerance)) return Kind::signs;
  const bool unit = ((block.rowwise().squaredNorm().array() - 1).abs() < 2 * tolerance).all();
  if (has_orthogonal_rows(block, 2 * tolerance)) {
    if (unit) return is_whole(block, tolerance) ? Kind::permuted : Kind::rotated;
    const Matrix<double> sizes = block.rowwise().norm().asDiagonal();
    if ((block - sizes).cwiseAbs().maxCoeff() < tolerance) return Kind::scaled;
  }
  return Kind::general;
}

std::string count(std::size_t moved, std::int64_t all, const char* things) {
  return fmt::format("{} of {} {}", moved, all, things);
}

class Description {
 public:
  Description(const Symmetry& symmetry, const Element& element,
              const std::vector<TensorResidual>& residuals)
      : symmetry_(symmetry), element_(element), tolerance_(tolerance_of(residuals)) {
    for (const auto& r : residuals) rounding_[r.tensor] = r.rounding;
  }

  void stream() {
    for (const auto& space : symmetry_.spaces) {
      if (!element_.maps.contains(space.name)) continue;
      const BlockMap<double>& map = element_.maps.at(space.name);
      if (space.category == Category::scales && !is_one(map.blocks())) {
        add("lengths rescaled", space.name);
      }
      if (space.category != Category::residual) continue;
      const std::string_view where = space.name.starts_with("encoder.") ? " of the encoder" : "";
      const std::string size = fmt::format("{} coordinates{}", space.size(), where);
      if (space.is_orthogonal()) {
        const Kind kind = kind_of(map.dense(), tolerance_);
        if (kind == Kind::signs) add("residual signs", size);
        if (kind == Kind::permuted) add("residual permutation", size);
        if (kind == Kind::rotated || kind == Kind::general) add("residual rotation", size);
        continue;
      }
      if (map.permutes()) add("residual permutation", size);
      const bool signs = map.has_blocks() && map.blocks().minCoeff() < 0;
      if (signs) add("residual signs", space.size() == 1 ? "all coordinates" : size);
    }
  }

  // Gains and biases of norms, and layer scales, as the two models have them.
  void norms(const ParameterSource& a, const ParameterSource& b) {
    const auto of_experts = [](const NormSite& site) {
      return site.name.ends_with("experts.scale");
    };
    gains(
        a, b, [](const NormSite& site) { return !site.is_layer_scale(); }, "gains", "norms");
    signs_of_gains();
    const auto of_branch = [&](const NormSite& site) {
      return site.is_layer_scale() && !of_experts(site);
    };
    gains(a, b, of_branch, "layer scales", "branches");
    gains(a, b, of_experts, "factors of experts", "layers");
    std::int64_t all = 0;
    std::size_t biases_a = 0, biases_b = 0;
    for (const auto& [name, site] : symmetry_.norms) {
      if (site.is_layer_scale()) continue;
      ++all;
      if (site.bias.empty()) continue;
      const bool zero_a = is_zero(a, site.bias), zero_b = is_zero(b, site.bias);
      if (zero_b && !zero_a) ++biases_b;
      if (zero_a && !zero_b) ++biases_a;
    }
    if (biases_b > 0) add("norm biases folded", "in B, " + count(biases_b, all, "norms"));
    if (biases_a > 0) add("norm biases folded", "in A, " + count(biases_a, all, "norms"));
  }

  template <class Counts>
  void gains(const ParameterSource& a, const ParameterSource& b, const Counts& counts,
             const std::string& what, const char* sites) {
    std::int64_t all = 0;
    std::size_t in_a = 0, in_b = 0, otherwise = 0;
    for (const auto& [name, site] : symmetry_.norms) {
      if (!counts(site)) continue;
      ++all;
      const Matrix<double> gain_a = a.read<double>(site.gain()),
                           gain_b = b.read<double>(site.gain());
      const bool ones_a = is_one(gain_a), ones_b = is_one(gain_b);
      const bool moved =
          element_.maps.contains(name) && !is_one(element_.maps.at(name).diagonal_part().blocks());
      if (ones_b && !ones_a) ++in_b;
      if (ones_a && !ones_b) ++in_a;
      if (moved && ones_a == ones_b) ++otherwise;
    }
    if (in_b > 0) add(what + " folded", "in B, " + count(in_b, all, sites));
    if (in_a > 0) add(what + " folded", "in A, " + count(in_a, all, sites));
    if (otherwise > 0) add(what + " rescaled", count(otherwise, all, sites));
  }

  bool is_rotary() const {
    const auto& kinds = symmetry_.architecture.kinds;
    return std::ranges::any_of(
        kinds, [](const Layer& kind) { return kind.attention.positions == Positions::rotary; });
  }

  void layers() {
    gauges(Category::latents, "latent", false);
    permuted(Category::heads, "heads permuted");
    gauges(Category::qk, "query and key", is_rotary());
    gauges(Category::vo, "value", false);
    const auto& kinds = symmetry_.architecture.kinds;
    const bool experts =
        std::ranges::any_of(kinds, [](const Layer& kind) { return kind.ffn.experts.count > 0; });
    permuted(Category::ffn, experts ? "experts and neurons permuted" : "neurons permuted");
    gauges(Category::ffn, "neuron", false);
    tables();
    head();
  }

  void shifts() {
    std::map<std::string, std::set<std::string>> moved;  // what: tensors
    for (const auto& [name, vector] : element_.shifts) {
      const Shift& shift = *symmetry_.find_shift(name);
      const Effect& effect = shift.effects.front();
      const double size = vector.norm() / std::sqrt(static_cast<double>(vector.size()));
      if (size <= kMargin * rounding_[effect.tensor]) continue;
      const bool mean = effect.kind == Effect::Kind::add_columns;
      const bool unread = effect.kind == Effect::Kind::reader;
      moved[mean || unread ? "parts that norms do not see" : "constants moved"].insert(
          effect.tensor);
    }
    for (const auto& [what, tensors] : moved) {
      add(what, fmt::format("{} tensor{}", tensors.size(), tensors.size() == 1 ? "" : "s"));
    }
  }

  std::vector<Movement> list() && { return std::move(list_); }

 private:
  void add(std::string what, std::string where) {
    list_.push_back({std::move(what), std::move(where)});
  }

  bool is_one(const Matrix<double>& m) const {
    return m.size() == 0 || (m.array() - 1).abs().maxCoeff() < tolerance_;
  }
  bool is_zero(const ParameterSource& source, const std::string& bias) {
    return source.read<double>(bias).cwiseAbs().maxCoeff() <= kMargin * rounding_[bias] + 1e-7;
  }

  template <class Use>
  void for_maps(Category category, const Use& use) const {
    for (const auto& space : symmetry_.spaces) {
      const auto found = element_.maps.find(space.name);
      if (space.category == category && found != element_.maps.end()) use(space, found->second);
    }
  }

  // Between a map and the gain of the norm behind it.
  void signs_of_gains() {
    std::set<std::int64_t> moved;
    for_maps(Category::norms, [&](const Space& space, const BlockMap<double>& map) {
      if (space.is_signs() && map.has_blocks() && map.blocks().minCoeff() < 0) {
        moved.insert(layer_of(space.name));
      }
    });
    if (!moved.empty()) add("signs of gains", in_layers(moved));
  }

  std::string in_layers(const std::set<std::int64_t>& moved) const {
    return count(moved.size(), symmetry_.architecture.layers, "layers");
  }

  void permuted(Category category, const char* what) {
    std::set<std::int64_t> moved;
    for_maps(category, [&](const Space& space, const BlockMap<double>& map) {
      const bool leads = space.shuffle != Shuffle::follows;
      if (map.permutes() && leads && layer_of(space.name) >= 0) moved.insert(layer_of(space.name));
    });
    if (!moved.empty()) add(what, in_layers(moved));
  }

  // The coordinates of the tables of all layers, and their signs in each.
  void tables() {
    for_maps(Category::latents, [&](const Space& space, const BlockMap<double>& map) {
      if (space.name != kTables) return;
      if (map.permutes()) add("coordinates of tables permuted", "all layers");
      if (map.has_blocks() && !is_one(map.blocks())) {
        add("coordinates of tables rescaled", "all layers");
      }
    });
    std::set<std::int64_t> moved;
    for_maps(Category::ffn, [&](const Space& space, const BlockMap<double>& map) {
      const bool signs = space.follows == kTables && map.has_blocks();
      if (signs && map.blocks().minCoeff() < 0) moved.insert(layer_of(space.name));
    });
    if (!moved.empty()) add("signs of tables", in_layers(moved));
  }

  // The units of a pooler or of a transform in front of the head.
  void head() {
    for_maps(Category::ffn, [&](const Space& space, const BlockMap<double>& map) {
      if (layer_of(space.name) >= 0) return;
      if (map.permutes()) add("units permuted", space.name);
      if (!map.has_blocks()) return;
      if (map.blocks().minCoeff() < 0) add("unit signs", space.name);
      if (!is_one(map.blocks().cwiseAbs())) add("unit rescalings", space.name);
    });
  }

  // The coordinates of heads, or the numbers of neurons.
  void gauges(Category category, const std::string& of, bool rotary) {
    std::map<Kind, std::set<std::int64_t>> moved;
    for_maps(category, [&](const Space& space, const BlockMap<double>& map) {
      const std::int64_t layer = layer_of(space.name);
      if (layer < 0 || space.follows == kTables) return;
      if (space.width() == 1) {
        if (!map.has_blocks()) return;
        if (!is_one(map.blocks().cwiseAbs())) moved[Kind::scaled].insert(layer);
        if (map.blocks().minCoeff() < 0) moved[Kind::signs].insert(layer);
        return;
      }
      for (std::int64_t i = 0; i < space.count; ++i) {
        const Kind kind = kind_of(map.block(i), tolerance_);
        if (kind != Kind::still) moved[kind].insert(layer);
      }
    });
    if (moved.contains(Kind::general)) {
      // One word for all: a general change may hold any of the others.
      for (const auto& [kind, layers] : moved)
        moved[Kind::general].insert(layers.begin(), layers.end());
      add(of + (rotary ? " pairs rotated and rescaled" : " basis changes"),
          in_layers(moved[Kind::general]));
      return;
    }
    for (const auto& [kind, layers] : moved) {
      const char* what = kind == Kind::signs      ? " signs"
                         : kind == Kind::permuted ? " permutations"
                         : kind == Kind::scaled   ? " rescalings"
                                                  : " rotations";
      add(of + what, in_layers(layers));
    }
  }

  const Symmetry& symmetry_;
  const Element& element_;
  double tolerance_;
  std::map<std::string, double> rounding_;
  std::vector<Movement> list_;
};

}  // namespace

std::vector<Movement> describe(const Symmetry& symmetry, const Element& a_from_b,
                               const std::vector<TensorResidual>& residuals,
                               const ParameterSource& a, const ParameterSource& b) {
  Description description(symmetry, a_from_b, residuals);
  description.stream();
  description.norms(a, b);
  description.layers();
  description.shifts();
  return std::move(description).list();
}

}  // namespace regauge
