#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"
#include "bindings.h"
#include "regauge/base/error.h"
#include "symmetry/factors.h"

namespace regauge::python {

Group group_of(const Architecture& architecture) {
  return std::make_shared<const Symmetry>(symmetry_of(architecture));
}

namespace {

void require_same_group(const Member& a, const Member& b) {
  if (a.group->architecture == b.group->architecture) return;
  throw UsageError("[element] the two elements belong to groups of different architectures");
}

std::set<Category> categories(const std::vector<std::string>& names) {
  std::set<Category> result;
  for (const auto& name : names) result.insert(category_from_name(name));
  return result;
}

// By space: the permutation (empty: none) and the blocks [count * width, width] (empty:
// identities).
auto maps_of(const Member& member) {
  std::map<std::string, std::pair<std::vector<std::int64_t>, Array<double>>> result;
  for (const auto& [name, map] : member.element.maps) {
    result.emplace(name, std::pair(map.permutation(), as_array(map.blocks())));
  }
  return result;
}

auto shifts_of(const Member& member) {
  std::map<std::string, Array<double>> result;
  for (const auto& [name, vector] : member.element.shifts) result.emplace(name, as_array(vector));
  return result;
}

using Blocks = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Places = std::vector<std::int64_t>;  // empty: all blocks stay
using Shifts = std::map<std::string, std::vector<double>>;

Matrix<double> matrix_of(const Blocks& blocks) {
  Matrix<double> result(static_cast<std::int64_t>(blocks.shape(0)),
                        static_cast<std::int64_t>(blocks.shape(1)));
  std::copy_n(blocks.data(), blocks.size(), result.data());
  return result;
}

Member member(const Group& group, const std::map<std::string, std::pair<Places, Blocks>>& maps,
              const Shifts& shifts) {
  Element element;
  for (const auto& [name, map] : maps) {
    const Space* space = group->find_space(name);
    if (space == nullptr) throw UsageError("[element] the group has no space " + name);
    element.maps.emplace(
        name, BlockMap<double>(space->count, space->width(), map.first, matrix_of(map.second)));
  }
  for (const auto& [name, numbers] : shifts) {
    Matrix<double> vector(1, static_cast<std::int64_t>(numbers.size()));
    std::copy(numbers.begin(), numbers.end(), vector.data());
    element.shifts.emplace(name, std::move(vector));
  }
  check_member(*group, element);
  return {group, std::move(element)};
}

}  // namespace

void add_groups(nb::module_& module) {
  nb::class_<Factor>(module, "Factor")
      .def_ro("name", &Factor::name)
      .def_ro("category", &Factor::category)
      .def_ro("group", &Factor::group)
      .def_ro("times", &Factor::times)
      .def_ro("dimension", &Factor::dimension)
      .def_ro("log2_components", &Factor::log2_components);

  nb::class_<Space>(module, "Space", "A coordinate system of the model, and what may act on it.")
      .def_ro("name", &Space::name)
      .def_ro("count", &Space::count)
      .def_prop_ro("width", &Space::width)
      .def_prop_ro("group", &Space::group_name);

  nb::class_<Symmetry>(module, "Symmetry")
      .def_ro("architecture", &Symmetry::architecture)
      .def_prop_ro("dimension", &Symmetry::dimension)
      .def_prop_ro("log2_components", &Symmetry::log2_components)
      .def_prop_ro("factors", factors_of)
      .def_ro("spaces", &Symmetry::spaces)
      .def("element", member, nb::arg("maps"), nb::arg("shifts"))
      .def("identity",
           [](const Group& self) {
             return Member{self, {}};
           })
      .def(
          "random_element",
          [](const Group& self, std::uint64_t seed,
             const std::optional<std::vector<std::string>>& only) {
            const nb::gil_scoped_release free;
            return Member{self,
                          random_element(*self, seed, only ? categories(*only) : all_categories())};
          },
          nb::arg("seed"), nb::arg("only") = nb::none())
      .def(
          "load_element",
          [](const Group& self, const std::filesystem::path& path) {
            return Member{self, load_element(*self, path)};
          },
          nb::arg("path"));
  module.def("symmetry_of", group_of, nb::arg("architecture"));

  nb::class_<Member>(module, "Element")
      .def_ro("symmetry", &Member::group)
      .def_prop_ro("is_identity", [](const Member& self) { return self.element.is_identity(); })
      .def_prop_ro("maps", maps_of, nb::rv_policy::automatic)
      .def_prop_ro("shifts", shifts_of, nb::rv_policy::automatic)
      .def("inverse",
           [](const Member& self) {
             return Member{self.group, inverse(*self.group, self.element)};
           })
      .def("__mul__",
           [](const Member& second, const Member& first) {
             require_same_group(second, first);
             return Member{second.group, compose(*second.group, second.element, first.element)};
           })
      .def("distance",
           [](const Member& self, const Member& other) {
             require_same_group(self, other);
             return distance(*self.group, self.element, other.element);
           })
      .def(
          "save",
          [](const Member& self, const std::filesystem::path& path) {
            save_element(*self.group, self.element, path);
          },
          nb::arg("path"));
}

}  // namespace regauge::python
