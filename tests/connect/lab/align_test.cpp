// Alignment by what models compute: planted elements come back, and no method changes a function.
#include "regauge/align/align.h"

#include <gtest/gtest.h>

#include <optional>

#include "align/activations/activations.h"
#include "align/learned/learned.h"
#include "lab/inputs.h"
#include "regauge/action/act.h"
#include "regauge/base/error.h"
#include "regauge/lab/activations.h"
#include "regauge/lab/forward.h"
#include "regauge/lab/objective.h"
#include "symmetry/architectures.h"

namespace regauge {
namespace {

class RandomInputs : public lab::Data {
 public:
  explicit RandomInputs(Architecture architecture) : architecture_(std::move(architecture)) {}
  std::int64_t size() const override { return 1000; }
  lab::Batch batch(std::span<const std::int64_t> examples) const override {
    return testing::random_batch(architecture_, static_cast<std::int64_t>(examples.size()),
                                 static_cast<std::uint64_t>(examples.front()));
  }

 private:
  Architecture architecture_;
};

struct Models {
  Models(const Architecture& of, Parameters<double> model_a, Parameters<double> model_b,
         double sign_of_b = 1)
      : architecture(of), symmetry(symmetry_of(of)), a(std::move(model_a)), b(std::move(model_b)) {
    form_a = form(a, 1);
    form_b = form(b, sign_of_b);
    a_in_form = moved(form_a, a);
    b_in_form = moved(form_b, b);
  }
  Parameters<double> moved(const Element& element, Parameters<double> parameters) const {
    act(symmetry, element, parameters);
    return parameters;
  }
  Element form(const Parameters<double>& model, double sign) const {
    return comparable_form(symmetry, reader_of(model), {}, Progress::silent(), sign);
  }
  Element by_activations(const Scope& scope = {}) const {
    const auto activations = lab::make_activations(architecture, cast<float>(a_in_form),
                                                   cast<float>(b_in_form), data, 2, 40, 1);
    return align_by_activations(symmetry, a_in_form, b_in_form, *activations, scope,
                                Progress::silent());
  }
  // Where the steps end, better than the start or not.
  Element learned(const Element& start, const Learning& learning) const {
    Learner learner(symmetry, a_in_form, b_in_form, start, learning);
    const auto objective = lab::make_distillation<float>(architecture, cast<float>(a_in_form),
                                                         cast<float>(b_in_form), data, 10, 1);
    learn(learner, *objective, learning, {}, Progress::silent());
    return learner.a_from_b();
  }
  // |A - g B| as a share of |A|, matrices only, in comparable form.
  double left(const Element& relative) const {
    const auto moved_b = moved(relative, b_in_form);
    double sum = 0, all = 0;
    for (const auto& [name, value] : a_in_form) {
      if (value.rows() == 1) continue;
      sum += (value - moved_b.at(name)).squaredNorm();
      all += value.squaredNorm();
    }
    return std::sqrt(sum / all);
  }
  // How far the outputs of B, moved into A's coordinates, are from B's own.
  double change(const Element& relative) const {
    const auto aligned = moved(between_models(symmetry, form_a, relative, form_b), b);
    const lab::Batch batch = testing::random_batch(architecture, 3, 7);
    const Matrix<double> before = outputs(b, batch);
    return (outputs(aligned, batch) - before).norm() / before.norm();
  }
  // What counts as the function: logits, or their differences.
  Matrix<double> outputs(const Parameters<double>& parameters, const lab::Batch& batch) const {
    Matrix<double> logits = lab::forward(architecture, parameters, batch);
    if (architecture.log_probabilities) logits.colwise() -= logits.rowwise().mean().eval();
    return logits;
  }

  Architecture architecture;
  Symmetry symmetry;
  Parameters<double> a, b;
  Element form_a, form_b;
  Parameters<double> a_in_form, b_in_form;
  std::shared_ptr<lab::Data> data = std::make_shared<RandomInputs>(architecture);
};

// A random model and a copy in other coordinates; the stream's length, which an eps = 0 leaves
// free, stays.
struct Planted {
  Planted(const Architecture& architecture, std::uint64_t seed) {
    const auto a = random_parameters(architecture, 1);
    auto b = a;
    const Symmetry symmetry = symmetry_of(architecture);
    auto moving = all_categories();
    moving.erase(Category::scales);
    act(symmetry, random_element(symmetry, seed, moving), b);
    models.emplace(architecture, a, b);
    found = models->by_activations();
    reversed = reverses_stream(found);
    if (!reversed) return;
    models.emplace(architecture, a, b, -1);
    found = models->by_activations();
  }
  std::optional<Models> models;
  Element found;
  bool reversed = false;
};

TEST(AlignByActivations, PlantedElementsComeBack) {
  int planted = 0, reversed = 0;
  for (const auto& known : known_architectures()) {
    for (const std::uint64_t seed : {1U, 2U}) {
      const Planted pair(known.architecture, seed);
      EXPECT_GT(pair.models->left({}), 0.5) << known.name << ", element " << seed;
      EXPECT_LT(pair.models->left(pair.found), 1e-3) << known.name << ", element " << seed;
      EXPECT_LT(pair.models->change(pair.found), 1e-7) << known.name << ", element " << seed;
      reversed += pair.reversed ? 1 : 0;
    }
    ++planted;
  }
  EXPECT_GE(planted, 30);
  EXPECT_GE(reversed, 2);
}

// What is out of scope stays, and what is in it is fitted to that: heads do not turn to where the
// stream would have gone.
TEST(AlignByActivations, FitsWhatIsInScopeAlone) {
  const Architecture architecture = known_architectures().front().architecture;
  const Models models(architecture, random_parameters(architecture, 1),
                      random_parameters(architecture, 2));
  const Scope scope("heads,qk,vo");
  const Element found = models.by_activations(scope);
  EXPECT_FALSE(found.maps.empty());
  for (const auto& [name, map] : found.maps) {
    EXPECT_TRUE(scope.contains(*models.symmetry.find_space(name))) << name;
  }
  const auto moved_b = models.moved(found, models.b_in_form);
  for (const char* name : {"layers.0.attn.v.weight", "layers.0.attn.o.weight"}) {
    const double before = (models.a_in_form.at(name) - models.b_in_form.at(name)).norm();
    EXPECT_LT((models.a_in_form.at(name) - moved_b.at(name)).norm(), 0.95 * before) << name;
  }
}

TEST(Align, UnrelatedModelsKeepTheirFunction) {
  int aligned = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Architecture architecture = random_architecture(seed);
    if (architecture.output == Output::hidden) continue;
    std::optional<Models> models;
    try {
      models.emplace(architecture, random_parameters(architecture, 1),
                     random_parameters(architecture, 2));
    } catch (const UsageError&) {
      continue;  // some shifts have no standard form yet
    }
    const Element start = models->by_activations();
    EXPECT_LT(models->change(start), 1e-7) << to_json(architecture).dump();
    const Element found = models->learned(start, Learning{.steps = 6});
    check_member(models->symmetry, found, 1e-7);
    EXPECT_LT(models->change(found), 1e-7) << to_json(architecture).dump();
    ++aligned;
  }
  EXPECT_GE(aligned, 20);
}

// Steps at a planted element, where there is nothing to be won, do not lead far from it.
TEST(AlignLearned, StaysNearAPlantedElementAndKeepsTheFunction) {
  for (const auto& known : known_architectures()) {
    const Planted pair(known.architecture, 2);
    const Element found = pair.models->learned(pair.found, Learning{.steps = 10});
    EXPECT_LT(pair.models->left(found), 0.1) << known.name;
    EXPECT_LT(pair.models->change(found), 1e-7) << known.name;
  }
}

// Between models that are not the same, the loss on the line falls and neither end changes.
TEST(AlignLearned, LowersTheLineOfUnrelatedModels) {
  const Architecture architecture = known_architectures().front().architecture;
  const Models models(architecture, random_parameters(architecture, 1),
                      random_parameters(architecture, 2));
  const auto middle = [&](const Element& relative) {
    const auto moved_b = models.moved(relative, models.b_in_form);
    Parameters<float> point;
    for (const auto& [name, value] : models.a_in_form) {
      point[name] = ((value + moved_b.at(name)) / 2).cast<float>();
    }
    const auto objective =
        lab::make_distillation<float>(architecture, cast<float>(models.a_in_form),
                                      cast<float>(models.b_in_form), models.data, 100, 5);
    objective->place(0.5);
    return objective->evaluate(point, nullptr);
  };
  const Element start = models.by_activations();
  const Element found = models.learned(start, Learning{.steps = 200});
  EXPECT_LT(middle(found), 0.8 * middle(start));
  EXPECT_LT(models.change(found), 1e-7);
}

}  // namespace
}  // namespace regauge
