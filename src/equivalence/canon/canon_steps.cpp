#include "canon_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "numerics/polar.h"
#include "sketch.h"
#include "symmetry/rotary_pairs.h"

namespace regauge {
namespace {

constexpr double kNudge = 1e-13;  // of a matrix, towards the identity
// What the maps on the other side of a space count: balanced, the two sides are of one size, and
// may cancel each other in some direction.
constexpr double kOtherSide = 0.5;

using Visit =
    std::function<void(const AxisPart&, const std::string& tensor, const Matrix<double>&)>;

// Every part of every axis of a layer's tensors, transposed so that the axis is in the columns.
void for_parts(const Symmetry& symmetry, std::int64_t layer, const Parameters<double>& tensors,
               const Visit& visit) {
  for (const auto& spec : symmetry.layer(layer).tensors) {
    const auto found = tensors.find(spec.name);
    if (found == tensors.end()) continue;
    const TensorAxes& axes = symmetry.tensors.at(spec.name);
    for (const auto& part : axes.rows) visit(part, spec.name, found->second.transpose());
    for (const auto& part : axes.cols) visit(part, spec.name, found->second);
  }
}

// Squared lengths of `count` equal runs of columns.
Eigen::VectorXd squares_of_runs(const Matrix<double>& rows, std::int64_t count) {
  const Eigen::VectorXd squares = rows.colwise().squaredNorm();
  const auto run = rows.cols() / count;
  return squares.reshaped(run, count).colwise().sum().transpose();
}

std::vector<std::int64_t> largest_first(const Eigen::VectorXd& sizes) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(sizes.size()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t i, std::int64_t j) { return sizes(i) > sizes(j); });
  return order;
}

// Neighbours in the order that rounding could exchange; equal ones (zero, or copies) may stand
// either way.
std::int64_t close_neighbours(const Eigen::VectorXd& sizes, const std::vector<std::int64_t>& order,
                              double rounding) {
  std::int64_t close = 0;
  for (std::size_t i = 1; i < order.size(); ++i) {
    const double before = sizes(order[i - 1]), after = sizes(order[i]);
    if (before > after && before - after < rounding * before) ++close;
  }
  return close;
}

// What each block of a shuffled space, each of its groups and each bundle of groups measures: all
// that moves with it.
struct Sizes {
  Eigen::VectorXd blocks, groups, bundles;
};

// The order of the runs of `size` numbers that `outer` gives, each run largest first.
std::vector<std::int64_t> ordered_within(const std::vector<std::int64_t>& outer, std::int64_t size,
                                         const Eigen::VectorXd& sizes, double rounding,
                                         std::int64_t& close) {
  std::vector<std::int64_t> result;
  for (const auto run : outer) {
    const Eigen::VectorXd members = sizes.segment(run * size, size);
    const auto order = largest_first(members);
    close += close_neighbours(members, order, rounding);
    for (const auto i : order) result.push_back(run * size + i);
  }
  return result;
}

// Coordinates that an output gate or a convolution sees, and no QK-norm.
bool is_seen_one_by_one(const Space& space) {
  return std::holds_alternative<GainExchange>(space.group) && !space.name.ends_with(".qk_gain");
}

Sizes sizes_of(const Symmetry& symmetry, std::int64_t layer, const Space& space,
               const Parameters<double>& tensors) {
  Sizes sizes{Eigen::VectorXd::Zero(space.count), Eigen::VectorXd::Zero(space.groups()),
              Eigen::VectorXd::Zero(space.bundles)};
  for_parts(symmetry, layer, tensors,
            [&](const AxisPart& part, const std::string& name, const auto& rows) {
              const Space& lives_in = *symmetry.find_space(part.space);
              const bool itself = part.space == space.name || part.lift == space.name;
              if (!itself && lives_in.follows != space.name) return;
              // Weights of their own, so that a large query and a small key are not a small query
              // and a large key.
              const double weight = 0.5 + Random(0, "canon/" + name).uniform();
              const bool by_block = itself || lives_in.count == space.count;
              Eigen::VectorXd& sum = by_block ? sizes.blocks : sizes.groups;
              sum += weight * squares_of_runs(rows, sum.size());
            });
  for (Eigen::Index i = 0; i < space.count; ++i)
    sizes.groups(i / space.group_size) += sizes.blocks(i);
  const std::int64_t bundled = space.groups() / space.bundles;
  for (Eigen::Index i = 0; i < space.groups(); ++i) sizes.bundles(i / bundled) += sizes.groups(i);
  return sizes;
}

}  // namespace

Element in_order(const Symmetry& symmetry, std::int64_t layer, const Parameters<double>& tensors,
                 const Element& found, double rounding, std::vector<std::string>& limits) {
  Element step;
  for (const std::size_t place : symmetry.layer(layer).spaces) {
    const Space& space = symmetry.spaces[place];
    const bool shuffled = space.shuffle == Shuffle::symmetric || space.shuffle == Shuffle::grouped;
    // Streams are put in order by embedding and head.
    if (!shuffled || space.name == "residual" || space.name == kTableStream) continue;
    if (found.maps.contains(space.name)) continue;
    const Sizes sizes = sizes_of(symmetry, layer, space, tensors);
    if (sizes.groups.isZero(0)) continue;  // of another layer
    const auto bundles = largest_first(sizes.bundles);
    std::int64_t close = close_neighbours(sizes.bundles, bundles, rounding);
    auto groups =
        ordered_within(bundles, space.groups() / space.bundles, sizes.groups, rounding, close);
    if (space.shuffle == Shuffle::grouped && !space.follows.empty()) {  // in order by their leader
      close = 0;
      std::iota(groups.begin(), groups.end(), 0);
    }
    const auto order = ordered_within(groups, space.group_size, sizes.blocks, rounding, close);
    std::vector<std::int64_t> places(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      places[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
    }
    step.maps[space.name] = BlockMap<double>(space.count, 1, std::move(places), {});
    if (close > 0) {
      limits.push_back(fmt::format(
          "{}: {} of {} neighbours in the order are as large as one another but for rounding",
          space.name, close, space.count - 1));
    }
  }
  return step;
}

Element tables_in_order(const Symmetry& symmetry, const Matrix<double>& gates,
                        const Matrix<double>& gain, double rounding,
                        std::vector<std::string>& limits) {
  const Space& space = *symmetry.find_space("embed.tables");
  const Eigen::VectorXd sizes = gates.colwise().squaredNorm();
  const auto order = largest_first(sizes);
  if (const std::int64_t close = close_neighbours(sizes, order, rounding); close > 0) {
    limits.push_back(fmt::format(
        "{}: {} of {} neighbours in the order are as large as one another but for rounding",
        space.name, close, space.count - 1));
  }
  std::vector<std::int64_t> places(order.size());
  Matrix<double> factors(space.count, 1);
  for (std::size_t i = 0; i < order.size(); ++i) {
    places[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  for (Eigen::Index i = 0; i < factors.rows(); ++i) {
    factors(i, 0) = gain(0, i) == 0 ? 1 : 1 / gain(0, i);
  }
  Element step;
  step.maps[space.name] = BlockMap<double>(space.count, 1, std::move(places), std::move(factors));
  return step;
}

Element turned_latents(const Symmetry& symmetry, std::int64_t layer,
                       const Parameters<double>& tensors) {
  Element step;
  for (const char* latent : {"q_latent", "kv_latent"}) {
    const std::string name = fmt::format("layers.{}.attn.{}", layer, latent);
    const Space* space = symmetry.find_space(name);
    if (space == nullptr) continue;
    Matrix<double> known = sketch(tensors.at(name + ".weight"), space->size());
    known.diagonal().array() += kNudge * known.norm() + 1e-300;
    step.maps[name] = BlockMap<double>(1, space->size(), {}, polar_factor(known));
  }
  return step;
}

Element ordered_channels(const Symmetry& symmetry, std::int64_t layer,
                         const Parameters<double>& tensors, double rounding,
                         std::vector<std::string>& limits) {
  struct Channels {
    Eigen::VectorXd sizes, parts;  // what all their vectors measure, and have of a fixed column
  };
  std::map<std::string, Channels> all;
  for_parts(symmetry, layer, tensors,
            [&](const AxisPart& part, const std::string& name, const auto& rows) {
              const Space& lives_in = *symmetry.find_space(part.space);
              const Space* space = symmetry.find_space(lives_in.follows);
              const bool itself = space == nullptr || !is_seen_one_by_one(*space);
              if (itself) space = &lives_in;
              if (!is_seen_one_by_one(*space)) return;
              const Eigen::VectorXd zero = Eigen::VectorXd::Zero(space->size());
              Channels& channels = all.try_emplace(space->name, Channels{zero, zero}).first->second;
              const double weight = 0.5 + Random(0, "canon/" + name).uniform();
              const Matrix<double> of_column = sketch(rows, 1);
              const auto width = space->width(), share = rows.cols() / space->size();
              for (Eigen::Index i = 0; i < rows.cols(); ++i) {
                const Eigen::Index at = i / width / share * width + i % width;
                channels.sizes(at) += weight * rows.col(i).squaredNorm();
                if (itself) channels.parts(at) += (part.dual ? kOtherSide : 1) * of_column(i, 0);
              }
            });
  Element step;
  for (const auto& [name, channels] : all) {
    const Space& space = *symmetry.find_space(name);
    Matrix<double> blocks = Matrix<double>::Zero(space.size(), space.width());
    std::int64_t close = 0;
    for (Eigen::Index at = 0; at < space.size(); at += space.width()) {
      const Eigen::VectorXd sizes = channels.sizes.segment(at, space.width());
      const auto order = largest_first(sizes);
      close += close_neighbours(sizes, order, rounding);
      for (std::size_t place = 0; place < order.size(); ++place) {
        const Eigen::Index from = at + order[place];
        blocks(from, static_cast<Eigen::Index>(place)) = channels.parts(from) < 0 ? -1 : 1;
      }
    }
    step.maps[name] = BlockMap<double>(space.count, space.width(), {}, std::move(blocks));
    if (close > 0) {
      limits.push_back(fmt::format(
          "{}: {} of {} neighbours in the order are as large as one another but for rounding", name,
          close, space.size() - space.count));
    }
  }
  return step;
}

Element turned(const Symmetry& symmetry, std::int64_t layer, const Parameters<double>& tensors) {
  std::map<std::string, Matrix<double>> sums;
  for_parts(symmetry, layer, tensors,
            [&](const AxisPart& part, const std::string&, const auto& rows) {
              const Space& space = *symmetry.find_space(part.space);
              const bool neurons = space.category == Category::ffn;
              const bool gauge =
                  (space.category == Category::qk || space.category == Category::vo || neurons) &&
                  (space.dimension() > 0 || (neurons && space.is_signs())) &&
                  !std::holds_alternative<GainExchange>(space.group);
              // Single rows are, in standard form, perhaps zero but for rounding. A QK-norm has its
              // own step.
              if (!gauge || rows.rows() == 1) return;
              if (part.take == AxisPart::Take::permutation || part.repeat > 1) return;
              const auto width = space.width();
              const auto [sum, is_new] =
                  sums.try_emplace(space.name, Matrix<double>::Zero(space.size(), width));
              const Matrix<double> all = sketch(rows, width);  // [blocks * width, width]
              const auto share = all.rows() / space.size();
              for (Eigen::Index at = 0; at < all.rows(); at += width) {
                sum->second.middleRows(at / width / share * width, width) +=
                    (part.dual ? kOtherSide : 1) * all.middleRows(at, width);
              }
            });
  Element step;
  for (auto& [name, sum] : sums) {
    const Space& space = *symmetry.find_space(name);
    const auto width = space.width();
    for (Eigen::Index at = 0; at < sum.rows(); at += width) {
      auto block = sum.middleRows(at, width);
      if (const auto* scaling = std::get_if<Scaling>(&space.group)) {
        const bool negative = scaling->kind() != Scaling::Kind::positive && block(0, 0) < 0;
        block(0, 0) = negative ? -1 : 1;
        continue;
      }
      const auto project = [&](const Matrix<double>& m) {
        return std::visit([&](const auto& group) { return group.project(m); }, space.group);
      };
      const bool turns = space.is_orthogonal();
      const Matrix<double> known = turns ? Matrix<double>(block) : project(block);
      // Directions that are not known stay where they are.
      const double nudge = kNudge * known.norm() + 1e-300;
      const Matrix<double> nearest =
          polar_factor(known + nudge * Matrix<double>::Identity(known.rows(), known.cols()));
      block = turns ? nearest : project(nearest);
    }
    step.maps[name] = BlockMap<double>(space.count, width, {}, sum);
  }
  return step;
}

namespace {

// What heads behind a QK-norm do: an exchange of coordinates for all of them, in the order of the
// gains' sizes, that brings most of each pair to the real axis, and half turns of each head, which
// bring its pairs to the right and its coordinates at rest to the positive side.
class QkTurn {
 public:
  // `parts`: [heads, d_k], what each coordinate has of a fixed column.
  QkTurn(const GainExchange& group, Matrix<double> parts, Eigen::VectorXd sizes)
      : parts_(std::move(parts)), sizes_(std::move(sizes)) {
    exchange_ = Matrix<double>::Zero(group.size(), group.size());
    turns_ = Matrix<double>::Ones(parts_.rows(), parts_.cols());
    for (const auto& pairs : group.turning()) add_pairs(pairs);
    for (const auto& coordinates : group.plain()) add_coordinates(coordinates);
  }
  const Matrix<double>& exchange() const { return exchange_; }
  // The diagonal of the half turns of a head.
  Eigen::VectorXd turns(Eigen::Index head) const { return turns_.row(head); }

 private:
  using Complex = std::complex<double>;

  void add_pairs(const std::vector<RotaryClasses::Pair>& pairs) {
    Eigen::VectorXd sizes(static_cast<Eigen::Index>(pairs.size()));
    for (Eigen::Index i = 0; i < sizes.size(); ++i) {
      sizes(i) = sizes_.segment(pairs[static_cast<std::size_t>(i)].first, 2).sum();
    }
    const auto order = largest_first(sizes);
    for (std::size_t place = 0; place < order.size(); ++place) {
      const auto& from = pairs[static_cast<std::size_t>(order[place])];
      Eigen::VectorXcd values(parts_.rows());
      for (Eigen::Index j = 0; j < values.size(); ++j) {
        values(j) = {parts_(j, from.first), from.sign * parts_(j, from.first + 1)};
      }
      // A half turn changes the sign of a value, and not its square.
      const Complex quarter =
          values.array().square().sum().real() >= 0 ? Complex(1, 0) : Complex(0, 1);
      put_complex(exchange_, from, pairs[place], quarter);
      for (Eigen::Index j = 0; j < values.size(); ++j) {
        if ((values(j) * quarter).real() < 0) turns_.block(j, from.first, 1, 2) *= -1;
      }
    }
  }

  void add_coordinates(const std::vector<std::int64_t>& coordinates) {
    Eigen::VectorXd sizes(static_cast<Eigen::Index>(coordinates.size()));
    for (Eigen::Index i = 0; i < sizes.size(); ++i) {
      sizes(i) = sizes_(coordinates[static_cast<std::size_t>(i)]);
    }
    const auto order = largest_first(sizes);
    for (std::size_t place = 0; place < order.size(); ++place) {
      const auto from = coordinates[static_cast<std::size_t>(order[place])];
      exchange_(from, coordinates[place]) = 1;
      for (Eigen::Index j = 0; j < parts_.rows(); ++j) {
        if (parts_(j, from) < 0) turns_(j, from) = -1;
      }
    }
  }

  Matrix<double> parts_;
  Eigen::VectorXd sizes_;
  Matrix<double> exchange_, turns_;
};

}  // namespace

Element turned_qk_norm(const Symmetry& symmetry, std::int64_t layer,
                       const Parameters<double>& tensors) {
  const Attention& shape = symmetry.architecture.layer(layer).attention;
  if (shape.shares_keys) return {};  // it turns with the layer that has the keys
  const std::string at = fmt::format("layers.{}.attn", layer);
  const auto width = shape.qk_width, share = shape.group();
  const Matrix<double>& q = tensors.at(at + ".q.weight");
  const Matrix<double>& k = tensors.at(at + ".k.weight");
  // [kv heads, d_k]: what each coordinate of a kv head's keys and queries has of a fixed column.
  Matrix<double> parts = Matrix<double>::Zero(shape.kv_heads, width);
  const Matrix<double> of_q = sketch(q, 1), of_k = sketch(k, 1);
  for (Eigen::Index i = 0; i < k.cols(); ++i) parts(i / width, i % width) += of_k(i, 0);
  for (Eigen::Index i = 0; i < q.cols(); ++i) parts(i / width / share, i % width) += of_q(i, 0);
  // [exchanges, d_k]: the size of the gains that an exchange moves.
  const Space& space = *symmetry.find_space(at + ".qk_gain");
  const auto& group = std::get<GainExchange>(space.group);
  const std::int64_t exchanges = space.count;
  Matrix<double> sizes = Matrix<double>::Zero(exchanges, width);
  for (const char* name : {".q_norm.gain", ".k_norm.gain"}) {
    const Matrix<double>& gain = tensors.at(at + name);
    const auto run = gain.cols() / exchanges;
    for (Eigen::Index i = 0; i < gain.cols(); ++i) {
      sizes(i / run, i % width) += gain(0, i) * gain(0, i);
    }
  }
  Element step;
  Matrix<double> blocks(shape.kv_heads * width, width);
  if (shape.qk_norm == QkNorm::heads) {
    const QkTurn turn(group, parts, sizes.row(0));
    for (std::int64_t kv = 0; kv < shape.kv_heads; ++kv) {
      blocks.middleRows(kv * width, width) = turn.turns(kv).asDiagonal();
    }
    step.maps[at + ".turns"] = BlockMap<double>(shape.kv_heads, width, {}, blocks);
    step.maps[at + ".qk_gain"] = BlockMap<double>(1, width, {}, turn.exchange());
    return step;
  }
  for (std::int64_t kv = 0; kv < shape.kv_heads; ++kv) {
    const QkTurn turn(group, parts.row(kv), sizes.row(kv));
    blocks.middleRows(kv * width, width) = turn.turns(0).asDiagonal() * turn.exchange();
  }
  step.maps[at + ".qk_gain"] = BlockMap<double>(shape.kv_heads, width, {}, blocks);
  return step;
}

}  // namespace regauge
