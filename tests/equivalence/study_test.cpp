// How often a rewritten model is recognised, and how small a change is told apart. Small here; with
// REGAUGE_STUDY=N every cell has N random elements or pairs, and the tables of docs/diff.md are
// printed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>

#include "arch/fixture.h"
#include "regauge/action/rewrite.h"
#include "regauge/equivalence/certificate.h"
#include "symmetry/architectures.h"
#include "written.h"

namespace regauge {
namespace {

using testing::moved;

// 0 where nothing is asked for.
std::uint64_t study_size() {
  const char* size = std::getenv("REGAUGE_STUDY");
  return size == nullptr ? 0 : std::strtoull(size, nullptr, 10);
}

void print(const std::string& line) {
  if (study_size() > 0) std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

constexpr DType kDtypes[] = {DType::f32, DType::f16, DType::bf16};

struct Tally {
  int elements = 0, same = 0, verified = 0, undecided = 0;
  double largest = 0, largest_row = 0;  // excess of a matrix, of a single row; 1 is the limit

  std::string cell() const {
    return fmt::format("{}/{}{}, {:.2f} {:.2f}", same, elements,
                       undecided > 0 ? fmt::format(" ({} undecided)", undecided) : "", largest,
                       largest_row);
  }
};

class Study : public ::testing::Test {
 protected:
  Model write(const Architecture& shape, const Parameters<double>& parameters, DType dtype) {
    return files_.write(shape, parameters, dtype);
  }

  // A model against itself moved by random elements, stored in `dtype`.
  Tally recognised(const std::string& name, const Model& a, DType dtype, std::uint64_t elements) {
    Tally tally;
    const ParameterSource source(a, a.architecture);
    const Symmetry symmetry = symmetry_of(a.architecture);
    for (std::uint64_t seed = 100; seed < 100 + elements; ++seed) {
      const Element element = random_element(symmetry, seed);
      Rewrite::Target target = Rewrite::same_as(a);
      target.dtype = dtype;
      const auto path = files_.fresh();
      Rewrite(source, symmetry, element, target).run(path, Progress::silent());
      {
        const Model b = Model::open(path);
        const Diff result = diff(a, b, Progress::silent());
        ++tally.elements;
        if (result.verdict == Verdict::same) {
          ++tally.same;
          tally.verified += is_certified(a, b, result) ? 1 : 0;
        }
        if (result.verdict == Verdict::undecided) ++tally.undecided;
        for (const auto& r : result.residuals) {
          double& largest = r.single_row ? tally.largest_row : tally.largest;
          largest = std::max(largest, r.excess);
        }
        if (result.verdict != Verdict::same) report(name, dtype, seed, result);
      }
      std::filesystem::remove_all(path);
    }
    return tally;
  }

  bool is_certified(const Model& a, const Model& b, const Diff& result) {
    const auto path = files_ / "proof.safetensors";
    std::filesystem::remove(path);
    save_certificate(symmetry_of(result.architecture),
                     {result.a_from_b, fingerprint(a, Progress::silent()),
                      fingerprint(b, Progress::silent()), result.residuals},
                     path);
    return verify(a, b, path, Progress::silent()).holds();
  }

  static void report(const std::string& name, DType dtype, std::uint64_t seed, const Diff& result) {
    std::string text = fmt::format("missed: {} {} seed {}: {}", name, dtype_name(dtype), seed,
                                   verdict_name(result.verdict));
    for (const auto& reason : result.reasons) text += "; " + reason;
    for (const auto& r : result.residuals) {
      if (!r.agrees()) text += fmt::format("; {} {:.3g}", r.tensor, r.excess);
    }
    print(text);
  }

  testing::Written files_{"study"};
};

TEST_F(Study, FixturesMovedByRandomElements) {
  const std::uint64_t elements = study_size();
  if (elements == 0) GTEST_SKIP() << "recovery_test has the small version";
  print("| model | f32 | f16 | bf16 | verified |\n|---|---|---|---|---|");
  for (const auto& name : testing::fixture_names()) {
    const Model a = Model::open(testing::fixture(name));
    std::string row = "| " + name;
    int verified = 0, same = 0;
    for (const DType dtype : kDtypes) {
      const Tally tally = recognised(name, a, dtype, elements);
      row += " | " + tally.cell();
      verified += tally.verified;
      same += tally.same;
    }
    print(row + fmt::format(" | {} |", verified));
    EXPECT_EQ(verified, same) << name;
  }
}

class Variants : public Study, public ::testing::WithParamInterface<KnownArchitecture> {};

TEST_P(Variants, MovedByRandomElements) {
  const std::uint64_t elements = std::max<std::uint64_t>(1, study_size());
  const KnownArchitecture& known = GetParam();
  const Architecture shape = widened(known.architecture);
  std::string row = "| " + known.name;
  int verified = 0;
  for (const DType dtype : kDtypes) {
    if (study_size() == 0 && dtype != DType::bf16) continue;
    const Tally tally =
        recognised(known.name, write(shape, random_parameters(shape, 11), dtype), dtype, elements);
    row += " | " + tally.cell();
    verified += tally.verified;
    EXPECT_EQ(tally.same, tally.elements) << dtype_name(dtype);
    EXPECT_EQ(tally.verified, tally.same) << dtype_name(dtype);
  }
  print(row + fmt::format(" | {} |", verified));
}

INSTANTIATE_TEST_SUITE_P(Known, Variants, ::testing::ValuesIn(known_architectures()),
                         [](const ::testing::TestParamInfo<KnownArchitecture>& known) {
                           std::string name;
                           for (const char letter : known.param.name) {
                             name += std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter
                                                                                           : '_';
                           }
                           return name;
                         });

// Four kinds of architecture: rotary with groups of heads, layer norms with biases, QK-norm,
// post-norm.
std::vector<Architecture> some_shapes() {
  std::vector<Architecture> shapes;
  for (const char* name : {"llama", "gpt2, untied", "llama, qk norm", "bert"}) {
    shapes.push_back(widened(known_architecture(name)));
  }
  return shapes;
}

enum class Perturbed { matrix, entry, row };

// One matrix, or one row that stands alone, by chance. A key's bias is left out: it may be any.
Matrix<double>& some_tensor(const Architecture& shape, Perturbed change, Random& random,
                            Parameters<double>& parameters) {
  std::vector<std::string> names;
  for (const auto& spec : parameter_specs(shape)) {
    const bool free = spec.name.ends_with("attn.k.bias") || parameters.at(spec.name).isZero(0);
    if ((spec.rows == 1) == (change == Perturbed::row) && !free) names.push_back(spec.name);
  }
  const auto chosen = random.below(static_cast<std::int64_t>(names.size()));
  return parameters.at(names[static_cast<std::size_t>(chosen)]);
}

void perturb(Perturbed change, double size, Random& random, Matrix<double>& tensor) {
  const double rms = tensor.norm() / std::sqrt(static_cast<double>(tensor.size()));
  if (change == Perturbed::entry) {
    tensor(random.below(tensor.rows()), random.below(tensor.cols())) += size * rms;
  } else {
    for (auto& entry : tensor.reshaped()) entry += size * rms * random.normal();
  }
}

TEST_F(Study, UnrelatedModels) {
  const std::uint64_t pairs = std::max<std::uint64_t>(4, 10 * study_size());
  int same = 0, perturbed = 0, different = 0, undecided = 0;
  const auto shapes = some_shapes();
  for (std::uint64_t seed = 0; seed < pairs; ++seed) {
    const Architecture& shape = shapes[seed % shapes.size()];
    const DType dtype = kDtypes[seed / shapes.size() % 3];
    const auto one = random_parameters(shape, 2 * seed),
               two = random_parameters(shape, 2 * seed + 1);
    // Wholly another model, or all but embedding and head.
    auto other = two;
    if (seed % 2 == 1) {
      for (auto& [name, tensor] : other) {
        if (!name.starts_with("layers.")) tensor = one.at(name);
      }
    }
    const Verdict verdict = diff(write(shape, one, dtype),
                                 write(shape, moved(shape, other, seed), dtype), Progress::silent())
                                .verdict;
    same += verdict == Verdict::same ? 1 : 0;
    perturbed += verdict == Verdict::perturbed ? 1 : 0;
    different += verdict == Verdict::different ? 1 : 0;
    undecided += verdict == Verdict::undecided ? 1 : 0;
  }
  print(fmt::format("unrelated: {} pairs: same {}, perturbed {}, different {}, undecided {}", pairs,
                    same, perturbed, different, undecided));
  EXPECT_EQ(same, 0);
}

TEST_F(Study, SmallestChange) {
  const std::uint64_t pairs = std::max<std::uint64_t>(1, study_size());
  const auto shapes = some_shapes();
  print(
      "| change, of the tensor's rms | f32 | f16 | bf16 | one entry: f32 | f16 | bf16 "
      "| a single row: f32 | f16 | bf16 |\n"
      "|---|---|---|---|---|---|---|---|---|---|");
  const int first = study_size() > 0 ? 16 : 2;
  for (int step = first; step >= 1; --step) {
    const double size = std::pow(10.0, -step / 2.0);
    std::string row = fmt::format("| {:.1e}", size);
    for (const Perturbed change : {Perturbed::matrix, Perturbed::entry, Perturbed::row}) {
      for (const DType dtype : kDtypes) {
        std::uint64_t told = 0;
        for (std::uint64_t seed = 0; seed < pairs; ++seed) {
          const Architecture& shape = shapes[seed % shapes.size()];
          const Model a = write(shape, random_parameters(shape, seed), dtype);
          auto changed = read_parameters(a);
          Random random(seed, "study");
          perturb(change, size, random, some_tensor(shape, change, random, changed));
          const Model b = write(shape, moved(shape, changed, seed), dtype);
          const Diff result = diff(a, b, Progress::silent());
          told += result.verdict != Verdict::same ? 1 : 0;
          const bool too_small = size < rounding_of(dtype) / 100;
          if (too_small && result.verdict != Verdict::same) report("", dtype, seed, result);
        }
        row += fmt::format(" | {}/{}", told, pairs);
        // Ten times what is accepted of rounding, spread over some tensor: never the same.
        const double least = 60 * rounding_of(dtype) * (change == Perturbed::matrix ? 1 : 32);
        if (size > least) {
          EXPECT_EQ(told, pairs) << size;
        }
      }
    }
    print(row + " |");
  }
}

}  // namespace
}  // namespace regauge
