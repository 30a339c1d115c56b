// Mistakes made on purpose are seen, and called by their names.
//
// REGAUGE_DIAGNOSIS=all runs every combination and prints the tables of docs/diff.md; any other
// text runs those whose description contains it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "arch/fixture.h"
#include "arch/forward.h"
#include "mistakes.h"
#include "regauge/action/act.h"
#include "regauge/base/error.h"
#include "regauge/equivalence/diff.h"
#include "symmetry/architectures.h"
#include "temporary.h"

namespace regauge {
namespace {

using testing::Injection;
using testing::Temporary;
using testing::Victim;

// Where the mistake is made: in A's coordinates, and what happens to B besides.
enum class Moved { never, after, before };
const char* moved_name(Moved moved) {
  return moved == Moved::never ? "in place" : moved == Moved::after ? "then moved" : "moved first";
}

struct Subject {
  std::string name, family;
  Format format = Format::safetensors;
  Architecture architecture;
  Parameters<double> parameters;
  bool halves = false;
};

Subject of_architecture(const std::string& name, const Architecture& architecture) {
  return {name, "regauge", Format::safetensors, architecture, random_parameters(architecture, 7),
          false};
}

// A wide head, grouped queries: what the tables of theory.md are too small for.
Architecture wide() {
  Architecture a = known_architectures().front().architecture;
  a.width = 16;
  a.layers = 3;
  a.kinds[0].attention.heads = 4;
  a.kinds[0].attention.kv_heads = 2;
  a.kinds[0].attention.qk_width = a.kinds[0].attention.v_width = 8;
  a.kinds[0].attention.rotary_dims = 8;
  a.kinds[0].attention.rotary_frequencies = rotary_frequencies(8, 100);
  a.kinds[0].ffn.width = 24;
  a.vocabulary = 40;
  a.norm_eps = 1e-6;
  a.kinds[0].attention.scale = 0.35;
  return a;
}

bool has_delta_nets(const Architecture& a) {
  return std::ranges::any_of(a.kinds, [](const Layer& kind) { return kind.has_delta(); });
}

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const auto& name : testing::fixture_names()) {
    if (name == "llama-bf16" || name == "llama-sharded") continue;  // the numbers of others
    const Model model = Model::open(testing::fixture(name));
    // mistakes.cpp knows one stack of one model, and attention in every layer.
    if (model.architecture.encoder_layers > 0 || has_delta_nets(model.architecture)) continue;
    if (!model.architecture.beside.empty() || !model.architecture.convolutions.empty()) continue;
    // It takes the sizes of heads from the first kind of layer.
    const auto differs = [&](const Layer& kind) {
      return kind.attention.qk_width != model.architecture.kinds[0].attention.qk_width;
    };
    if (std::ranges::any_of(model.architecture.kinds, differs)) continue;
    Subject subject{name,
                    model.layout.family(),
                    model.layout.format(),
                    model.architecture,
                    read_parameters(model),
                    model.layout.has_halves("layers.0.attn.q.weight")};
    const auto able = families_for(subject.format, subject.architecture);
    if (std::find(able.begin(), able.end(), subject.family) == able.end()) {
      subject.family = "regauge";  // a rope scaling that is read, but not written anew
      subject.halves = false;
    }
    all.push_back(std::move(subject));
  }
  all.push_back(of_architecture("wide", wide()));
  for (const auto& known : known_architectures()) {
    all.push_back(of_architecture(known.name, known.architecture));
  }
  return all;
}

Matrix<double> function(const Architecture& a, const Parameters<double>& parameters) {
  Random random(5, "input");
  const Attention& first = a.kinds.front().attention;
  const std::int64_t table = a.has_position_table() || first.grid ? a.max_positions : 7;
  const bool square = first.grid && first.positions == Positions::rotary;
  Matrix<double> input(square ? 9 : table - a.placed_rows(),
                       a.input == Input::vectors ? a.input_width : 2);
  for (auto& entry : input.reshaped<Eigen::RowMajor>()) entry = random.normal();
  if (a.input == Input::tokens) {
    for (Eigen::Index t = 0; t < input.rows(); ++t) {
      input(t, 0) = static_cast<double>(random.below(a.vocabulary));
      input(t, 1) = a.token_types > 0 ? static_cast<double>(random.below(a.token_types)) : 0;
    }
  }
  return testing::forward(a, parameters, input);
}

std::string named(const Diagnosis& diagnosis) {
  if (diagnosis.causes.empty()) return "nothing";
  std::string name(mistake_name(diagnosis.causes.front().mistake));
  for (const auto& cause : diagnosis.causes) {
    if (cause.mistake != diagnosis.causes.front().mistake) return name + " and others";
  }
  return name;
}

class Bench {
 public:
  struct Outcome {
    bool changed = true;  // the mistake does change the function
    Diff diff = {};
    bool recognised = true;  // the move alone, without the mistake
  };

  Outcome run(const Subject& subject, const Injection& injection, Moved moved, DType dtype,
              std::uint64_t seed) {
    Random random(seed, injection.name);
    Victim victim{subject.architecture, subject.parameters, subject.halves};
    Parameters<double> still, and_moved;  // before and after the move
    const auto move = [&] {
      const Symmetry symmetry = symmetry_of(victim.architecture);
      still = victim.parameters;
      act(symmetry, random_element(symmetry, seed), victim.parameters);
      and_moved = victim.parameters;
    };
    if (moved == Moved::before) move();
    injection.make(victim, random);
    try {
      if (moved == Moved::after) move();
    } catch (const UsageError&) {
      return {.changed = false};  // a gain that is 0 now
    }
    if (injection.expected != Mistake::damaged) {
      const Matrix<double> a = function(subject.architecture, subject.parameters);
      const Matrix<double> b = function(victim.architecture, victim.parameters);
      if ((a - b).norm() < 1e-6 * a.norm()) return {.changed = false};
    }
    const Model model_a = write(subject, subject.architecture, subject.parameters, dtype);
    const Model model_b = write(subject, victim.architecture, victim.parameters, dtype);
    Diff result = diff(model_a, model_b, Progress::silent());
    result.diagnosis = diagnose(model_a, model_b, result, Progress::silent());
    if (result.diagnosis.repairable && result.diagnosis.certain) {
      const auto path = folder_ / std::to_string(written_++);
      try {
        repair(model_a, model_b, result.diagnosis, path, Progress::silent());
        ++repaired_;
      } catch (const UsageError& error) {  // what was written is not A
        EXPECT_FALSE(std::filesystem::exists(path));
        // Undoing a general map mixes rounded numbers, which need not come out as A's.
        const bool mixes = injection.expected == Mistake::not_rotary;
        if (moved == Moved::never && !mixes) {
          unrepaired_.push_back(fmt::format("{} {} {}: {}", subject.name, injection.name,
                                            moved_name(moved), error.what()));
        }
      }
      std::filesystem::remove_all(path);
    }
    std::filesystem::remove_all(model_a.checkpoint.path());
    std::filesystem::remove_all(model_b.checkpoint.path());
    Outcome outcome{.diff = result};
    if (moved != Moved::never && named(result.diagnosis) != mistake_name(injection.expected)) {
      const Architecture& shape =
          moved == Moved::before ? subject.architecture : victim.architecture;
      const Model before = write(subject, shape, still, dtype);
      const Model after = write(subject, shape, and_moved, dtype);
      outcome.recognised = diff(before, after, Progress::silent()).verdict == Verdict::same;
    }
    return outcome;
  }

  int repaired() const { return repaired_; }
  const std::vector<std::string>& unrepaired() const { return unrepaired_; }

 private:
  Model write(const Subject& subject, const Architecture& architecture,
              const Parameters<double>& parameters, DType dtype) {
    const auto path = folder_ / std::to_string(written_++);
    try {
      write_parameters<double>(path, subject.family, subject.format, architecture, parameters,
                               dtype);
    } catch (const UsageError&) {  // a constant that the family cannot say
      write_parameters<double>(path, "regauge", Format::safetensors, architecture, parameters,
                               dtype);
    }
    return Model::open(path);
  }

  Temporary folder_{"diagnosis"};
  int written_ = 0;
  int repaired_ = 0;
  std::vector<std::string> unrepaired_;
};

// Rows: what was made; columns: what it was called.
struct Table {
  std::map<std::string, std::map<std::string, int>> counts;
  int right = 0, all = 0;
  int unchanged = 0;     // the function did not change, or the model could not be moved
  int unrecognised = 0;  // nor is the move recognised without the mistake

  void add(const Injection& injection, const Diff& result, bool moved) {
    const std::string name = named(result.diagnosis);
    ++counts[injection.name][name];
    if (moved && !injection.survives_moves) return;
    ++all;
    right += name == mistake_name(injection.expected) ? 1 : 0;
  }
  std::string text() const {
    std::string lines = fmt::format("{} of {} right, {} unchanged, {} unrecognised\n", right, all,
                                    unchanged, unrecognised);
    for (const auto& [made, names] : counts) {
      lines += fmt::format("| {} |", made);
      for (const auto& [name, count] : names) lines += fmt::format(" {} {},", name, count);
      lines += "\n";
    }
    return lines;
  }
};

TEST(Diagnosis, NamesWhatWasDone) {
  const char* size = std::getenv("REGAUGE_DIAGNOSIS");
  const std::string only = size == nullptr ? "" : size;
  const auto models = subjects();
  Bench bench;
  std::uint64_t seed = 0;
  for (const Moved moved : {Moved::never, Moved::after, Moved::before}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      Table table;
      for (const auto& subject : models) {
        for (const auto& injection : testing::injections()) {
          ++seed;
          if (!injection.concerns(subject.architecture)) continue;
          const bool tiny = injection.expected == Mistake::damaged;
          if (tiny && (dtype != DType::f32 || moved != Moved::never)) continue;
          Random pick(seed, "pick");
          const std::string text = fmt::format("{}, {} {}: {}", subject.name, moved_name(moved),
                                               dtype_name(dtype), injection.name);
          if (only.empty() && pick.uniform() > (moved == Moved::never ? 0.1 : 0.02)) continue;
          if (!only.empty() && only != "all" && text.find(only) == std::string::npos) continue;
          const auto outcome = bench.run(subject, injection, moved, dtype, seed);
          if (!outcome.changed || !outcome.recognised) {
            ++(outcome.changed ? table.unrecognised : table.unchanged);
            EXPECT_NE(outcome.diff.verdict, Verdict::same) << text;
            continue;
          }
          table.add(injection, outcome.diff, moved != Moved::never);
          EXPECT_NE(outcome.diff.verdict, Verdict::same) << subject.name << ": " << injection.name;
          if (named(outcome.diff.diagnosis) != mistake_name(injection.expected)) {
            fmt::print("{} is called {}\n", text, named(outcome.diff.diagnosis));
            if (only != "all") {
              for (const auto& cause : outcome.diff.diagnosis.causes) {
                fmt::print("  {}\n", cause.sentence);
              }
            }
          }
        }
      }
      fmt::print("{}, {}: {}\n", moved_name(moved), dtype_name(dtype), table.text());
      if (moved != Moved::never) continue;
      EXPECT_GE(table.right, 0.95 * table.all) << table.text();
    }
  }
  fmt::print("repaired {}, not {}\n", bench.repaired(), bench.unrepaired().size());
  for (const auto& name : bench.unrepaired()) ADD_FAILURE() << "not repaired: " << name;
}

// Diagnosed on a model of one architecture, changed by `change`.
Diff diagnosed(const Architecture& shape, const std::function<void(Parameters<double>&)>& change) {
  const Temporary folder("diagnosed");
  const auto original = random_parameters(shape, 1);
  auto changed = original;
  change(changed);
  for (const auto& [name, parameters] : {std::pair{"a", &original}, {"b", &changed}}) {
    write_parameters<double>(folder / name, "regauge", Format::safetensors, shape, *parameters,
                             DType::f32);
  }
  const Model a = Model::open(folder / "a"), b = Model::open(folder / "b");
  Diff result = diff(a, b, Progress::silent());
  result.diagnosis = diagnose(a, b, result, Progress::silent());
  return result;
}

TEST(Diagnosis, OneWeightIsFoundAndItsPlaceNamed) {
  for (const auto& spec : parameter_specs(wide())) {
    if (spec.rows == 1) continue;
    const Diff result = diagnosed(wide(), [&](Parameters<double>& parameters) {
      Matrix<double>& tensor = parameters.at(spec.name);
      tensor(2, 3) += 0.01 * tensor.norm() / std::sqrt(static_cast<double>(tensor.size()));
    });
    EXPECT_EQ(result.verdict, Verdict::perturbed);
    ASSERT_EQ(result.diagnosis.causes.size(), 1U) << spec.name;
    const Cause& cause = result.diagnosis.causes.front();
    EXPECT_EQ(cause.mistake, Mistake::damaged);
    EXPECT_EQ(cause.tensors, std::vector{spec.name});
    EXPECT_NE(cause.sentence.find("input 2, output 3 by"), std::string::npos) << cause.sentence;
    EXPECT_FALSE(result.diagnosis.repairable);
  }
}

TEST(Diagnosis, AMistakeInATrainedCopyIsProbable) {
  const Diff result = diagnosed(wide(), [](Parameters<double>& parameters) {
    Random random(2, "training");
    for (auto& [name, value] : parameters) {
      for (auto& entry : value.reshaped()) entry *= 1 + 0.02 * random.normal();
    }
    for (const char* layer : {"layers.0.", "layers.1.", "layers.2."}) {
      parameters.at(std::string(layer) + "ffn.gate.weight")
          .swap(parameters.at(std::string(layer) + "ffn.up.weight"));
    }
  });
  EXPECT_EQ(named(result.diagnosis), "gate-up-swapped");
  EXPECT_FALSE(result.diagnosis.certain);
}

TEST(Diagnosis, NobodyIsBlamedForTrainingOrForAnotherModel) {
  const Diff trained = diagnosed(wide(), [](Parameters<double>& parameters) {
    Random random(3, "training");
    for (auto& [name, value] : parameters) {
      for (auto& entry : value.reshaped()) entry *= 1 + 0.05 * random.normal();
    }
  });
  EXPECT_EQ(named(trained.diagnosis), "nothing");
  const Diff other = diagnosed(
      wide(), [](Parameters<double>& parameters) { parameters = random_parameters(wide(), 99); });
  EXPECT_EQ(named(other.diagnosis), "nothing");
}

}  // namespace
}  // namespace regauge
