#include "unit_match.h"

#include "numerics/assignment.h"
#include "numerics/nested.h"

namespace regauge {
namespace {

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
  const auto add_axes = [&](const std::string& name) {
    const bool of_groups = symmetry.find_space(name)->count != space.count;
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
  add_axes(space.name);
  for (const auto& follower : symmetry.spaces) {
    if (follower.follows == space.name) add_axes(follower.name);
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

template struct UnitSimilarity<float>;
template struct UnitSimilarity<double>;
template BlockMap<double> match_units(const Space&, UnitSimilarity<float>, double&);
template BlockMap<double> match_units(const Space&, UnitSimilarity<double>, double&);

}  // namespace regauge
