#include "regauge/symmetry/element.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <set>

#include "regauge/base/error.h"

namespace regauge {
namespace {

// v -> S v, for the vector of a shift.
void carry(const Symmetry& symmetry, const Element& element, const Axis& axis,
           Matrix<double>& vector) {
  for (const auto& part : axis) axis_map(symmetry, element, part).apply(vector, 1);
}

bool names_space(const Symmetry& symmetry, const Element& element, const Space& space) {
  if (element.maps.contains(space.name)) return true;
  if (space.follows.empty()) return false;
  return names_space(symmetry, element, *symmetry.find_space(space.follows)) ||
         (!space.lift.empty() && names_space(symmetry, element, *symmetry.find_space(space.lift)));
}

// What the map of a space becomes when the element that goes before it exchanges coordinates:
// T with x G T = x T' G.
BlockMap<double> in_front_of(const Symmetry& symmetry, const Element& first, const Space& space,
                             BlockMap<double> map) {
  if (space.exchanged_by.empty() || !map.has_blocks()) return map;
  const Space& exchange = *symmetry.find_space(space.exchanged_by);
  const Matrix<double> pattern = map_of(symmetry, first, exchange).sign_part().dense();
  Matrix<double> blocks = map.blocks();
  for (std::int64_t i = 0; i < map.count(); ++i) {
    blocks.middleRows(i * map.width(), map.width()) = pattern * map.block(i) * pattern.transpose();
  }
  return {map.count(), map.width(), map.permutation(), std::move(blocks)};
}

void compose_map(const Symmetry& symmetry, const Element& second, const Element& first,
                 const Space& space, Element& result) {
  if (!names_space(symmetry, second, space) && !names_space(symmetry, first, space)) return;
  result.maps[space.name] = in_front_of(symmetry, first, space, map_of(symmetry, second, space)) *
                            map_of(symmetry, first, space);
}

void add_to(std::map<std::string, Matrix<double>>& shifts, const std::string& name,
            const Matrix<double>& vector) {
  const auto [place, inserted] = shifts.emplace(name, vector);
  if (!inserted) place->second += vector;
}

Matrix<double> random_shift(const Shift& shift, std::int64_t width, Random& random) {
  Matrix<double> vector(1, shift.length);
  const double spread = 0.3 / std::sqrt(static_cast<double>(width));
  for (std::int64_t i = 0; i < shift.length; ++i) {
    vector(0, i) = shift.is_free(i) ? spread * random.normal() : 0;
  }
  if (shift.sums_to_zero) vector.array() -= vector.mean();
  return vector;
}

}  // namespace

BlockMap<double> map_of(const Symmetry& symmetry, const Element& element, const Space& space) {
  const auto found = element.maps.find(space.name);
  if (found != element.maps.end()) return found->second;
  if (space.follows.empty()) return space.identity();
  return space.following(leader_of(symmetry, element, space));
}

BlockMap<double> leader_of(const Symmetry& symmetry, const Element& element,
                           const Space& follower) {
  if (follower.follows.empty()) return {};
  BlockMap<double> leader = map_of(symmetry, element, *symmetry.find_space(follower.follows));
  if (!follower.lift.empty()) {
    leader = leader.lifted(map_of(symmetry, element, *symmetry.find_space(follower.lift)));
  }
  return leader.width() == 1 ? leader : leader.coordinates();
}

BlockMap<double> axis_map(const Symmetry& symmetry, const Element& element, const AxisPart& part) {
  const Space& space = *symmetry.find_space(part.space);
  BlockMap<double> map = map_of(symmetry, element, space);
  if (part.dual && !space.is_orthogonal()) map = map.dual();
  switch (part.take) {
    case AxisPart::Take::whole:
      break;
    case AxisPart::Take::permutation:
      map = map.permutation_part();
      break;
    case AxisPart::Take::diagonal:
      map = map.diagonal_part();
      break;
    case AxisPart::Take::signs:
      map = map.sign_part().diagonal_part();
      break;
    case AxisPart::Take::pattern:
      map = map.sign_part();
      break;
    case AxisPart::Take::absolute:
      map = map.absolute_part();
      break;
  }
  if (!part.lift.empty()) {
    BlockMap<double> heads = map_of(symmetry, element, *symmetry.find_space(part.lift));
    // Signs and diagonals stay in place; the rest moves with the query heads.
    const bool in_place =
        part.take == AxisPart::Take::signs || part.take == AxisPart::Take::diagonal;
    if (in_place) heads = BlockMap<double>(heads.count(), 1);
    map = map.lifted(heads);
  }
  return map.repeated(part.repeat).tiled(part.tile);
}

void check_shapes(const Symmetry& symmetry, const Element& element) {
  for (const auto& [name, map] : element.maps) {
    const Space* space = symmetry.find_space(name);
    if (space == nullptr || map.count() != space->count || map.width() != space->width()) {
      throw UsageError(
          fmt::format("[element] '{}' is no space of this architecture, or of another size", name));
    }
  }
  for (const auto& [name, vector] : element.shifts) {
    const Shift* shift = symmetry.find_shift(name);
    if (shift == nullptr || shift->depends_on_values || vector.rows() != 1 ||
        vector.cols() != shift->length) {
      throw UsageError(fmt::format(
          "[element] '{}' is no shift of this architecture, or of another length", name));
    }
  }
}

Element compose(const Symmetry& symmetry, const Element& second, const Element& first) {
  check_shapes(symmetry, second);
  check_shapes(symmetry, first);
  Element result;
  for (const auto& space : symmetry.spaces) compose_map(symmetry, second, first, space, result);
  result.shifts = second.shifts;
  for (const auto& [name, vector] : first.shifts) {
    Matrix<double> carried = vector;
    carry(symmetry, second, symmetry.find_shift(name)->axis, carried);
    add_to(result.shifts, name, carried);
  }
  return result;
}

Element compose_on_layer(const Symmetry& symmetry, const Element& second, const Element& first,
                         std::int64_t layer) {
  const SymmetryIndex::Layer& here = symmetry.layer(layer);
  Element result;
  for (const std::size_t i : here.spaces) {
    compose_map(symmetry, second, first, symmetry.spaces[i], result);
  }
  for (const std::size_t i : here.shifts) {
    const Shift& shift = symmetry.shifts[i];
    if (const auto found = second.shifts.find(shift.name); found != second.shifts.end()) {
      result.shifts[shift.name] = found->second;
    }
    if (const auto found = first.shifts.find(shift.name); found != first.shifts.end()) {
      Matrix<double> carried = found->second;
      carry(symmetry, second, shift.axis, carried);
      add_to(result.shifts, shift.name, carried);
    }
  }
  return result;
}

void compose_onto(const Symmetry& symmetry, const Element& step, Element& element) {
  const SymmetryIndex& index = *symmetry.index;
  // Spaces that the step names, and all that move with them.
  std::set<std::size_t> spaces, shifts;
  std::vector<std::size_t> further;
  for (const auto& [name, map] : step.maps) further.push_back(index.spaces.at(name));
  while (!further.empty()) {
    const std::size_t place = further.back();
    further.pop_back();
    if (!spaces.insert(place).second) continue;
    const std::string& name = symmetry.spaces[place].name;
    for (const auto* moved : {&index.followers, &index.lifted}) {
      if (const auto found = moved->find(name); found != moved->end()) {
        further.insert(further.end(), found->second.begin(), found->second.end());
      }
    }
    if (const auto found = index.carried.find(name); found != index.carried.end()) {
      shifts.insert(found->second.begin(), found->second.end());
    }
  }
  Element moved;
  for (const std::size_t place : spaces) {
    compose_map(symmetry, step, element, symmetry.spaces[place], moved);
  }
  for (auto& [name, map] : moved.maps) element.maps[name] = std::move(map);
  for (const std::size_t place : shifts) {
    const Shift& shift = symmetry.shifts[place];
    const auto found = element.shifts.find(shift.name);
    if (found != element.shifts.end()) carry(symmetry, step, shift.axis, found->second);
  }
  for (const auto& [name, vector] : step.shifts) add_to(element.shifts, name, vector);
}

Element inverse(const Symmetry& symmetry, const Element& element) {
  check_shapes(symmetry, element);
  Element result;
  for (const auto& space : symmetry.spaces) {
    if (names_space(symmetry, element, space)) {
      const BlockMap<double> map = map_of(symmetry, element, space);
      result.maps[space.name] = in_front_of(
          symmetry, result, space, space.is_orthogonal() ? map.transpose() : map.inverse());
    }
  }
  for (const auto& [name, vector] : element.shifts) {
    Matrix<double> carried = -vector;
    carry(symmetry, result, symmetry.find_shift(name)->axis, carried);
    result.shifts[name] = carried;
  }
  return result;
}

Element random_element(const Symmetry& symmetry, std::uint64_t seed) {
  return random_element(symmetry, seed, all_categories());
}

Element random_element(const Symmetry& symmetry, std::uint64_t seed, const std::set<Category>& only,
                       Blocks blocks) {
  Element element;
  for (const auto& space : symmetry.spaces) {
    if (!only.contains(space.category)) continue;
    Random random(seed, "element/" + space.name);
    const BlockMap<double> leader = leader_of(symmetry, element, space);
    element.maps[space.name] = space.random(random, &leader, blocks);
  }
  for (const auto& shift : symmetry.shifts) {
    if (shift.depends_on_values || !only.contains(Category::shifts)) continue;
    Random random(seed, "element/" + shift.name);
    element.shifts[shift.name] = random_shift(shift, symmetry.architecture.width, random);
  }
  return element;
}

double distance(const Symmetry& symmetry, const Element& a, const Element& b) {
  double largest = 0;
  for (const auto& space : symmetry.spaces) {
    largest = std::max(largest, distance(map_of(symmetry, a, space), map_of(symmetry, b, space)));
  }
  for (const auto& shift : symmetry.shifts) {
    const auto left = a.shifts.find(shift.name);
    const auto right = b.shifts.find(shift.name);
    Matrix<double> difference = Matrix<double>::Zero(1, std::max<std::int64_t>(1, shift.length));
    if (left != a.shifts.end()) difference += left->second;
    if (right != b.shifts.end()) difference -= right->second;
    largest = std::max(largest, difference.cwiseAbs().maxCoeff());
  }
  return largest;
}

void check_member(const Symmetry& symmetry, const Element& element, double tolerance) {
  std::vector<std::string> problems;
  for (const auto& [name, map] : element.maps) {
    const Space* space = symmetry.find_space(name);
    if (space == nullptr) {
      problems.push_back(fmt::format("there is no space '{}' in this architecture", name));
      continue;
    }
    const BlockMap<double> leader = leader_of(symmetry, element, *space);
    const double violation = space->violation(map, &leader);
    if (!(violation <= tolerance)) {
      problems.push_back(fmt::format("the map of '{}' is not in {} (off by {:.2g})", name,
                                     space->group_name(), violation));
    }
  }
  for (const auto& [name, vector] : element.shifts) {
    const Shift* shift = symmetry.find_shift(name);
    if (shift == nullptr || shift->depends_on_values) {
      problems.push_back(fmt::format("there is no shift '{}' in this architecture", name));
    } else if (vector.rows() != 1 || vector.cols() != shift->length || !vector.allFinite()) {
      problems.push_back(
          fmt::format("the shift '{}' is not {} finite numbers", name, shift->length));
    } else {
      for (std::int64_t i = 0; i < shift->length; ++i) {
        if (!shift->is_free(i) && std::abs(vector(0, i)) > tolerance) {
          problems.push_back(
              fmt::format("the shift '{}' moves coordinate {}, which rotates", name, i));
          break;
        }
      }
      if (shift->sums_to_zero && std::abs(vector.sum()) > tolerance) {
        problems.push_back(fmt::format("the shift '{}' does not sum to zero", name));
      }
    }
  }
  if (!problems.empty()) {
    throw UsageError(fmt::format("[element] {}", fmt::join(problems, "\n[element] ")));
  }
}

}  // namespace regauge
