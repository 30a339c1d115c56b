#include "unit_match.h"

#include "expert_match.h"
#include "numerics/assignment.h"
#include "numerics/nested.h"

namespace regauge {
namespace {

// Neurons of all experts of which every pair is compared. Above, experts are matched first.
constexpr std::int64_t kMostTogether = 2048;

bool has_signs(const Space& space) {
  const auto* scaling = std::get_if<Scaling>(&space.group);
  return scaling != nullptr && scaling->log2_components() > 0;
}

}  // namespace

template <class Scalar>
UnitSimilarity<Scalar>::UnitSimilarity(const Space& space) {
  plain = Matrix<Scalar>::Zero(space.count, space.count);
  if (has_signs(space)) turned = plain;
  if (space.shuffle == Shuffle::grouped) {
    groups.setZero(space.count / space.group_size, space.count / space.group_size);
  }
}

template <class Scalar>
void UnitSimilarity<Scalar>::add(const Symmetry& symmetry, const Space& space,
                                 const Parameters<Scalar>& a, const Parameters<Scalar>& b) {
  const auto add_axes = [&](const std::string& name, bool of_groups) {
    for_axes(symmetry, a, name, [&](const std::string& tensor, int axis, const AxisPart& part) {
      if (part.take == AxisPart::Take::diagonal) return;  // the permutation came before
      const bool signed_part =
          turned.size() != 0 && part.space == space.name && part.take == AxisPart::Take::whole;
      add_cross(b.at(tensor), a.at(tensor), axis,
                signed_part ? turned
                : of_groups ? groups
                            : plain);
    });
  };
  add_axes(space.name, false);
  const std::int64_t count = symmetry.find_space(space.name)->count;
  const auto followers = symmetry.index->followers.find(space.name);
  if (followers == symmetry.index->followers.end()) return;
  for (const std::size_t place : followers->second) {
    const Space& follower = symmetry.spaces[place];
    add_axes(follower.name, follower.count != count);
  }
}

template <class Scalar>
BlockMap<double> match_units(const Space& space, UnitSimilarity<Scalar> similarity, double& value) {
  Matrix<Scalar>& sum = similarity.plain;
  const Matrix<Scalar>& turned = similarity.turned;
  if (turned.size() != 0) sum += turned.cwiseAbs();
  std::vector<std::int64_t> places;
  if (similarity.groups.size() != 0) {
    places = assign_nested(sum.template cast<double>(), similarity.groups.template cast<double>(),
                           space.bundles)
                 .target;
  } else if constexpr (std::is_same_v<Scalar, float>) {
    places = assign({space.count, sum.data()}).column_of_row;
  } else {
    const Matrix<float> rounded = sum.template cast<float>();
    places = assign({space.count, rounded.data()}).column_of_row;
  }
  value = 0;
  Matrix<double> signs(turned.size() != 0 ? space.count : 0, 1);
  for (Eigen::Index i = 0; i < space.count; ++i) {
    const auto to = places[static_cast<std::size_t>(i)];
    value += static_cast<double>(sum(i, to));
    if (turned.size() != 0) signs(i, 0) = turned(i, to) < 0 ? -1 : 1;
  }
  return {space.count, 1, std::move(places), signs.size() != 0 ? signs : Matrix<double>()};
}

template <class Scalar>
BlockMap<double> match_units(const Symmetry& symmetry, const Space& space,
                             const Parameters<Scalar>& a, const Parameters<Scalar>& b) {
  double value = 0;
  if (space.shuffle != Shuffle::grouped || space.count <= kMostTogether) {
    UnitSimilarity<Scalar> similarity(space);
    similarity.add(symmetry, space, a, b);
    return match_units(space, std::move(similarity), value);
  }
  Space of_expert = space;
  of_expert.count = space.group_size;
  of_expert.shuffle = Shuffle::symmetric;
  of_expert.group_size = of_expert.bundles = 1;
  const auto experts = match_experts(symmetry, space, a, b);
  std::vector<std::int64_t> places;
  Matrix<double> signs(has_signs(space) ? space.count : 0, 1);
  for (std::size_t e = 0; e < experts.size(); ++e) {
    const auto from = static_cast<std::int64_t>(e), to = experts[e];
    UnitSimilarity<Scalar> similarity(of_expert);
    similarity.add(symmetry, of_expert, maps_of_expert(symmetry, space, to, a),
                   maps_of_expert(symmetry, space, from, b));
    const BlockMap<double> map = match_units(of_expert, std::move(similarity), value);
    for (std::int64_t i = 0; i < of_expert.count; ++i) {
      places.push_back(to * of_expert.count + map.target(i));
    }
    if (signs.size() != 0) {
      signs.middleRows(from * of_expert.count, of_expert.count) = map.blocks();
    }
  }
  return {space.count, 1, std::move(places), signs.size() != 0 ? signs : Matrix<double>()};
}

template struct UnitSimilarity<float>;
template struct UnitSimilarity<double>;
template BlockMap<double> match_units(const Space&, UnitSimilarity<float>, double&);
template BlockMap<double> match_units(const Space&, UnitSimilarity<double>, double&);
template BlockMap<double> match_units(const Symmetry&, const Space&, const Parameters<float>&,
                                      const Parameters<float>&);
template BlockMap<double> match_units(const Symmetry&, const Space&, const Parameters<double>&,
                                      const Parameters<double>&);

}  // namespace regauge
