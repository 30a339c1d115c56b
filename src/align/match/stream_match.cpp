#include "stream_match.h"

#include <algorithm>

#include "symmetry/procrustes.h"

namespace regauge {
namespace {

constexpr double kMember = 1e-9;  // of a violation: closer is in the group

bool acts(const Axis& axis, std::string_view space) {
  return std::any_of(axis.begin(), axis.end(),
                     [&](const AxisPart& part) { return part.space == space; });
}

template <class Scalar>
Matrix<Scalar> from_origin(const Symmetry& symmetry, const std::string& name, Matrix<Scalar> rows) {
  for (Eigen::Index i = 0; i < rows.cols(); ++i) {
    rows.col(i).array() += static_cast<Scalar>(fixed_origin(symmetry.architecture, name, i));
  }
  return rows;
}

}  // namespace

template <class Scalar>
StreamMatch<Scalar>::StreamMatch(const Symmetry& symmetry, std::string stream)
    : symmetry_(symmetry),
      stream_(std::move(stream)),
      space_(symmetry.find_space(stream_)),
      common_sign_(symmetry.find_space(stream_ + ".sign") != nullptr) {
  const auto size = space_ == nullptr ? 0 : space_->size();
  cross_ = Matrix<Scalar>::Zero(size, size);
  if (exists() && !space_->is_orthogonal()) constant_ = cross_;
}

template <class Scalar>
void StreamMatch<Scalar>::add(const Parameters<Scalar>& a, const Parameters<Scalar>& b) {
  if (!exists()) return;
  for_axes(symmetry_, a, stream_, [&](const std::string& name, int axis, const AxisPart& part) {
    const TensorAxes& axes = symmetry_.tensors.at(name);
    if (acts(axes.rows, stream_) && acts(axes.cols, stream_)) return;  // quadratic in the map
    const bool still =
        constant_.size() != 0 &&
        (part.take != AxisPart::Take::whole ||
         (common_sign_ && !acts(axis == 0 ? axes.rows : axes.cols, stream_ + ".sign")));
    Matrix<Scalar>& sum = still ? constant_ : cross_;
    if (axes.pinned && axis == 1) {
      add_cross(from_origin(symmetry_, name, b.at(name)), from_origin(symmetry_, name, a.at(name)),
                axis, sum);
    } else {
      add_cross(b.at(name), a.at(name), axis, sum);
    }
  });
}

template <class Scalar>
void StreamMatch<Scalar>::add(const StreamMatch& other) {
  cross_ += other.cross_;
  constant_ += other.constant_;
}

template <class Scalar>
double StreamMatch<Scalar>::value() const {
  const double moved = static_cast<double>(cross_.trace());
  return constant_.size() == 0 ? moved : moved + static_cast<double>(constant_.trace());
}

template <class Scalar>
Element StreamMatch<Scalar>::solve(double& value) const {
  Element found;
  value = 0;
  if (!exists()) return found;
  if (const auto* group = std::get_if<Orthogonal>(&space_->group)) {
    const Matrix<double> cross = cross_.template cast<double>();
    Matrix<double> turn = orthogonal_procrustes(*group, cross);
    value = turn.cwiseProduct(cross).sum();
    found.maps[stream_] = BlockMap<double>(1, space_->size(), {}, std::move(turn));
    return found;
  }
  if (!common_sign_) {
    UnitSimilarity<Scalar> similarity(*space_);
    similarity.plain = constant_;
    (similarity.turned.size() != 0 ? similarity.turned : similarity.plain) += cross_;
    found.maps[stream_] = match_units(*space_, std::move(similarity), value);
    return found;
  }
  for (const double sign : {1.0, -1.0}) {
    UnitSimilarity<Scalar> similarity(*space_);
    similarity.plain = constant_ + static_cast<Scalar>(sign) * cross_;
    double worth = 0;
    BlockMap<double> map = match_units(*space_, std::move(similarity), worth);
    if (!found.maps.empty() && worth <= value) continue;
    value = worth;
    found.maps[stream_] = std::move(map);
    found.maps[stream_ + ".sign"] =
        BlockMap<double>(1, 1, {}, Matrix<double>::Constant(1, 1, sign));
  }
  return found;
}

template <class Scalar>
Element StreamMatch<Scalar>::solve_permutation() const {
  Element found;
  const auto* group = exists() ? std::get_if<Orthogonal>(&space_->group) : nullptr;
  if (group == nullptr) {
    double value = 0;
    return solve(value);
  }
  const BlockMap<double> places =
      signed_permutation_procrustes(cross_.template cast<double>(), false);
  Matrix<double> map = Matrix<double>::Zero(space_->size(), space_->size());
  for (Eigen::Index i = 0; i < map.rows(); ++i) map(i, places.target(i)) = 1;
  if (group->violation(map) > kMember) return found;
  found.maps[stream_] = BlockMap<double>(1, space_->size(), {}, std::move(map));
  return found;
}

template class StreamMatch<float>;
template class StreamMatch<double>;

template <class Scalar>
Element match_table_stream(const Symmetry& symmetry, const Scope& scope,
                           const Parameters<Scalar>& a, const Parameters<Scalar>& b) {
  StreamMatch<Scalar> match(symmetry, kTableStream);
  const Space* space = symmetry.find_space(kTableStream);
  if (space == nullptr || !scope.contains(*space)) return {};
  Parameters<Scalar> tables;
  for (const char* name : kStreamTables) {
    if (const auto found = a.find(name); found != a.end()) tables.emplace(name, found->second);
  }
  match.add(tables, b);
  double value = 0;
  return match.solve(value);
}

template Element match_table_stream(const Symmetry&, const Scope&, const Parameters<float>&,
                                    const Parameters<float>&);
template Element match_table_stream(const Symmetry&, const Scope&, const Parameters<double>&,
                                    const Parameters<double>&);

}  // namespace regauge
