#include "regauge/symmetry/space.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>

#include "numerics/decompositions.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

constexpr std::array<std::pair<Category, std::string_view>, 9> kCategories = {
    {{Category::residual, "residual"},
     {Category::scales, "scales"},
     {Category::norms, "norms"},
     {Category::heads, "heads"},
     {Category::latents, "latents"},
     {Category::qk, "qk"},
     {Category::vo, "vo"},
     {Category::ffn, "ffn"},
     {Category::shifts, "shifts"}}};

// The permutation that a follower of `count` blocks takes from its leader.
std::vector<std::int64_t> followed(const BlockMap<double>& leader, std::int64_t count) {
  if (!leader.permutes()) return {};
  const std::int64_t group = leader.count() / count;
  std::vector<std::int64_t> permutation(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    permutation[static_cast<std::size_t>(i)] = leader.target(i * group) / group;
  }
  return permutation;
}

}  // namespace

std::string_view category_name(Category category) {
  for (const auto& [known, name] : kCategories) {
    if (known == category) return name;
  }
  return "";
}

std::string category_names(std::string_view separator, bool with_shifts) {
  std::string names;
  for (const auto& [category, name] : kCategories) {
    if (category == Category::shifts && !with_shifts) continue;
    if (!names.empty()) names += separator;
    names += name;
  }
  return names;
}

Category category_from_name(std::string_view name) {
  for (const auto& [known, text] : kCategories) {
    if (text == name) return known;
  }
  throw UsageError(
      fmt::format("[symmetry] no factors called '{}'; choose from {}", name, category_names(", ")));
}

std::set<Category> all_categories() {
  std::set<Category> all;
  for (const auto& [category, name] : kCategories) all.insert(category);
  return all;
}

std::int64_t Space::width() const {
  return std::visit([](const auto& g) { return g.size(); }, group);
}

std::int64_t Space::dimension() const {
  return count * std::visit([](const auto& g) { return g.dimension(); }, group);
}

double Space::log2_components() const {
  double inside = static_cast<double>(count) *
                  std::visit([](const auto& g) { return g.log2_components(); }, group);
  if (shuffle == Shuffle::symmetric) return inside + log2_factorial(count);
  if (shuffle == Shuffle::grouped) {
    const double within = inside + static_cast<double>(groups()) * log2_factorial(group_size);
    if (!follows.empty()) return within;
    return within + static_cast<double>(bundles) * log2_factorial(groups() / bundles) +
           log2_factorial(bundles);
  }
  return inside;
}

std::string Space::group_name() const {
  const std::string inside = std::visit([](const auto& g) { return g.name(); }, group);
  const bool trivial = inside == "1";
  if (shuffle == Shuffle::symmetric && count > 1) {
    return trivial ? fmt::format("S({})", count) : fmt::format("{} wr S({})", inside, count);
  }
  if (shuffle == Shuffle::grouped && count > 1) {
    std::string permutations;  // S(neurons of an expert) wr S(experts of a group) wr S(groups)
    for (const std::int64_t moving : {group_size, groups() / bundles, bundles}) {
      if (moving == 1) continue;
      permutations += fmt::format("{}S({})", permutations.empty() ? "" : " wr ", moving);
    }
    return trivial ? permutations : fmt::format("{} wr ({})", inside, permutations);
  }
  if (count == 1) return inside;
  const bool simple = inside.find_first_of(" ^") == std::string::npos;
  return fmt::format(fmt::runtime(simple ? "{}^{}" : "({})^{}"), inside, count);
}

BlockMap<double> Space::following(const BlockMap<double>& leader) const {
  return {count, width(), followed(leader, count), {}};
}

BlockMap<double> Space::random(Random& random, const BlockMap<double>* leader,
                               Blocks choice) const {
  std::vector<std::int64_t> permutation;
  switch (shuffle) {
    case Shuffle::none:
      break;
    case Shuffle::symmetric:
      permutation = random.permutation(count);
      break;
    case Shuffle::grouped: {
      std::vector<std::int64_t> outer;
      if (follows.empty()) {
        const std::int64_t size = groups() / bundles;
        for (const auto bundle : random.permutation(bundles)) {
          for (const auto place : random.permutation(size)) outer.push_back(bundle * size + place);
        }
      } else {
        for (std::int64_t i = 0; i < groups(); ++i) {
          outer.push_back(leader->target(i * group_size) / group_size);
        }
      }
      for (const auto place : outer) {
        for (const auto inner : random.permutation(group_size)) {
          permutation.push_back(place * group_size + inner);
        }
      }
      break;
    }
    case Shuffle::follows:
      permutation = followed(*leader, count);
      break;
  }
  return std::visit(
      [&](const auto& g) -> BlockMap<double> {
        const auto w = g.size();
        if (w == 1 && g.dimension() == 0 && g.log2_components() == 0) {
          return {count, w, std::move(permutation), {}};
        }
        Matrix<double> blocks(count * w, w);
        for (std::int64_t i = 0; i < count; ++i) {
          auto block = blocks.middleRows(i * w, w);
          if (choice == Blocks::identity) {
            block.setIdentity();
          } else {
            block = g.random(random);
          }
        }
        return {count, w, std::move(permutation), std::move(blocks)};
      },
      group);
}

double Space::violation(const BlockMap<double>& map, const BlockMap<double>* leader) const {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  if (map.count() != count || map.width() != width()) return kNever;
  if (shuffle == Shuffle::none && map.permutes()) return kNever;
  if (shuffle == Shuffle::grouped) {
    for (std::int64_t i = 0; i < count; ++i) {
      for (const std::int64_t together : {group_size, count / bundles}) {
        const std::int64_t leading = i / together * together;
        if (map.target(i) / together != map.target(leading) / together) return kNever;
      }
      if (!follows.empty() && leader != nullptr &&
          map.target(i) / group_size != leader->target(i) / group_size) {
        return kNever;
      }
    }
  }
  if (shuffle == Shuffle::follows) {
    const auto expected =
        leader != nullptr ? followed(*leader, count) : std::vector<std::int64_t>{};
    const BlockMap<double> allowed(count, width(), expected, {});
    for (std::int64_t i = 0; i < count; ++i) {
      if (map.target(i) != allowed.target(i)) return kNever;
    }
  }
  if (!map.has_blocks()) return 0;
  double largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    largest = std::max(largest,
                       std::visit([&](const auto& g) { return g.violation(map.block(i)); }, group));
  }
  return largest;
}

Matrix<double> Space::project(const Matrix<double>& blocks) const {
  Matrix<double> result(blocks.rows(), blocks.cols());
  const auto w = width();
  for (std::int64_t i = 0; i < count; ++i) {
    result.middleRows(i * w, w) =
        std::visit([&](const auto& g) { return g.project(blocks.middleRows(i * w, w)); }, group);
  }
  return result;
}

BlockMap<double> Space::exponential(const Matrix<double>& algebra) const {
  const auto w = width();
  if (w == 1) return {count, w, {}, algebra.array().exp()};
  Matrix<double> blocks(algebra.rows(), algebra.cols());
  for (std::int64_t i = 0; i < count; ++i) {
    blocks.middleRows(i * w, w) = matrix_exponential(algebra.middleRows(i * w, w));
  }
  return {count, w, {}, std::move(blocks)};
}

}  // namespace regauge
