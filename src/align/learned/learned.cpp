#include "learned.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <limits>
#include <numbers>

#include "action/pull_back.h"
#include "adam.h"
#include "latent_matching.h"
#include "matrix_file.h"
#include "path_sampler.h"
#include "regauge/action/act.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSaveEvery = 60;  // seconds

// The steps that see one batch: one anywhere on the line, one at its worst.
constexpr std::int64_t kStepsPerBatch = 2;

constexpr double kSameLoss = 1e-4;  // whatever the threads
constexpr int kJudged = 5;          // points of the line that tell a good element from a bad one

bool is_learned(const Space& space) {
  return space.dimension() > 0 && space.category != Category::scales;
}

bool is_matched(const Space& space) {
  return space.shuffle == Shuffle::symmetric && space.category == Category::ffn;
}

// The part of an algebra element that generates rotations.
Matrix<double> skew_part(const Matrix<double>& blocks) {
  const auto width = blocks.cols();
  Matrix<double> result(blocks.rows(), width);
  for (Eigen::Index start = 0; start < blocks.rows(); start += width) {
    const auto block = blocks.middleRows(start, width);
    result.middleRows(start, width) = (block - block.transpose()) / 2;
  }
  return result;
}

}  // namespace

struct Learner::State {
  State(const Symmetry& the_symmetry, const Parameters<double>& the_a,
        const Parameters<double>& the_b, Element the_start, const Learning& settings,
        const Scope& scope)
      : symmetry(the_symmetry),
        a(the_a),
        b(the_b),
        learning(settings),
        start(std::move(the_start)),
        element(start),
        path(settings.seed) {
    move();
    for (const auto& space : symmetry.spaces) {
      if (!scope.contains(space)) continue;
      if (is_learned(space)) adams.try_emplace(space.name, space.is_orthogonal());
      if (is_matched(space) && learning.rematch > 0) {
        matchings.try_emplace(space.name, symmetry, space, a, moved, element, learning.similarity,
                              learning.premium);
      }
    }
  }

  double rate(double full) const {
    const double done = static_cast<double>(steps) / static_cast<double>(learning.steps);
    return full * (1 + std::cos(std::numbers::pi * done)) / 2;
  }

  Parameters<double> b_moved_by(const Element& candidate) const {
    Parameters<double> end = b;
    act(symmetry, candidate, end);
    return end;
  }
  void move() { moved = b_moved_by(element); }

  // The loss on the line from A to `end`.
  double evaluate(Objective<float>& objective, const Parameters<double>& end, double t,
                  Parameters<float>* gradient) const {
    Parameters<float> point;
    for (const auto& [name, value] : a) {
      point[name] = ((1 - t) * value + t * end.at(name)).cast<float>();
    }
    objective.place(t);
    return objective.evaluate(point, gradient);
  }

  double worst(Objective<float>& objective, const Element& candidate) const {
    const Parameters<double> end = b_moved_by(candidate);
    double largest = -std::numeric_limits<double>::infinity();
    for (int i = 1; i <= kJudged; ++i) {
      const double t = static_cast<double>(i) / (kJudged + 1);
      largest = std::max(largest, evaluate(objective, end, t, nullptr));
    }
    return largest;
  }

  // In the middle of the line from the start, on the objective's first batch: what A, B, the start,
  // the data and the loss have in common.
  double loss_at_start(Objective<float>& objective) const {
    return evaluate(objective, b_moved_by(start), 0.5, nullptr);
  }

  double step(Objective<float>& objective) {
    if (steps == 0) first_loss = loss_at_start(objective);
    const double t = path.draw();
    Parameters<float> gradient;
    const double loss = evaluate(objective, moved, t, &gradient);
    if (!std::isfinite(loss)) {
      throw UsageError(
          fmt::format("[align] the loss is not finite at step {}; lower the rate", steps));
    }
    path.note(t, loss);
    Parameters<double> slopes;
    for (const auto& [name, value] : gradient) slopes[name] = t * value.cast<double>();
    descend(slopes);
    for (auto& [name, matching] : matchings) matching.add(slopes);
    ++steps;
    if (learning.rematch > 0 && steps % learning.rematch == 0) rematch();
    move();
    if (steps % kStepsPerBatch == 0) objective.advance();
    return loss;
  }

  void descend(const Parameters<double>& slopes) {
    const Tangent slope = pull_back(symmetry, moved, slopes);
    Tangent direction;
    for (auto& [name, adam] : adams) {
      const Matrix<double>& full = slope.maps.at(name);
      const Matrix<double> blocks = learning.compact ? skew_part(full) : full;
      if (blocks.isZero(0)) continue;
      // Adam's division by coordinate may lead out of the algebra.
      direction.maps[name] =
          rate(learning.rate) * symmetry.find_space(name)->project(adam.direction(blocks));
    }
    element = compose(symmetry, retract(symmetry, direction), element);
  }

  // `moved` is still B as it stood when the slopes were taken.
  void rematch() {
    for (auto& [name, matching] : matchings) {
      matching.rematch(moved, rate(learning.neuron_rate), element);
      for (const auto& space : symmetry.spaces) {
        const auto follower = element.maps.find(space.name);
        if (space.follows != name || follower == element.maps.end()) continue;
        follower->second = {space.count, space.width(),
                            space.following(element.maps.at(name)).permutation(),
                            follower->second.blocks()};
      }
    }
  }

  // Everything that changes, by name.
  template <class Visit>
  void each(const Visit& visit) {
    for (auto& [name, adam] : adams) {
      visit("adam/" + name + "/mean", adam.mean);
      visit("adam/" + name + "/square", adam.square);
    }
    for (auto& [name, matching] : matchings) {
      matching.each([&, &space = name](const std::string& part, Matrix<double>& value) {
        visit(fmt::format("matching/{}/{}", space, part), value);
      });
    }
  }

  const Symmetry& symmetry;
  const Parameters<double>& a;
  const Parameters<double>& b;
  Learning learning;
  Element start, element;
  Parameters<double> moved;  // B as the element moves it
  std::map<std::string, Adam> adams;
  std::map<std::string, LatentMatching> matchings;
  PathSampler path;
  std::int64_t steps = 0;
  double first_loss = 0;  // once a step was taken
};

Learner::Learner(const Symmetry& symmetry, const Parameters<double>& a, const Parameters<double>& b,
                 const Element& start, const Learning& learning, const Scope& scope)
    : state_(std::make_unique<State>(symmetry, a, b, start, learning, scope)) {}
Learner::~Learner() = default;
Learner::Learner(Learner&&) noexcept = default;

std::int64_t Learner::steps() const { return state_->steps; }
double Learner::step(Objective<float>& objective) { return state_->step(objective); }
const Element& Learner::a_from_b() const { return state_->element; }
Element Learner::better(Objective<float>& objective) const {
  const bool won =
      state_->worst(objective, state_->element) < state_->worst(objective, state_->start);
  return won ? state_->element : state_->start;
}
nlohmann::json Learner::report() const {
  return {{"learning", to_json(state_->learning)}, {"loss_by_tenth", state_->path.losses()}};
}

void Learner::save(const std::filesystem::path& path) const {
  MatrixFile file;
  file.notes = {{"steps", std::to_string(state_->steps)},
                {"learning", to_json(state_->learning).dump()}};
  state_->each([&](const std::string& name, const Matrix<double>& value) {
    if (value.size() > 0) file.matrices[name] = value;
  });
  for (const auto& [name, map] : state_->element.maps) {
    if (map.has_blocks()) file.matrices["element/" + name + "/blocks"] = map.blocks();
    Matrix<double>& places = file.matrices["element/" + name + "/places"];
    places.resize(1, map.count());
    for (std::int64_t i = 0; i < map.count(); ++i) {
      places(0, i) = static_cast<double>(map.target(i));
    }
  }
  const auto& losses = state_->path.losses();
  file.matrices["first_loss"] = Matrix<double>::Constant(1, 1, state_->first_loss);
  file.matrices["path"] =
      Eigen::Map<const Eigen::RowVectorXd>(losses.data(), static_cast<Eigen::Index>(losses.size()));
  file.save(path);
}

void Learner::load(const std::filesystem::path& path, Objective<float>& objective) {
  const MatrixFile file = MatrixFile::load(path);
  if (file.notes.at("steps") == "0") return;  // nothing was learned yet, of whatever it was
  if (file.notes.at("learning") != to_json(state_->learning).dump()) {
    throw UsageError(fmt::format(
        "{} is the beginning of a work with other settings ({}); remove it to begin anew",
        path.string(), file.notes.at("learning")));
  }
  const auto get = [&](const std::string& name) -> Matrix<double> {
    const auto found = file.matrices.find(name);
    return found == file.matrices.end() ? Matrix<double>() : found->second;
  };
  state_->each([&](const std::string& name, Matrix<double>& value) { value = get(name); });
  for (auto& [name, map] : state_->element.maps) map = BlockMap<double>(map.count(), map.width());
  for (const auto& space : state_->symmetry.spaces) {
    const Matrix<double> places = get("element/" + space.name + "/places");
    if (places.size() == 0) continue;
    std::vector<std::int64_t> permutation;
    for (const double place : places.row(0)) {
      permutation.push_back(static_cast<std::int64_t>(place));
    }
    state_->element.maps[space.name] = {space.count, space.width(), std::move(permutation),
                                        get("element/" + space.name + "/blocks")};
  }
  check_member(state_->symmetry, state_->element);
  state_->steps = std::stoll(file.notes.at("steps"));
  for (auto& [name, adam] : state_->adams) {
    adam.steps = adam.mean.size() > 0 ? state_->steps : 0;
  }
  for (auto& [name, matching] : state_->matchings) {
    matching.set_steps(state_->steps / state_->learning.rematch);
  }
  std::array<double, PathSampler::kParts> losses{};
  const Matrix<double> noted = get("path");
  for (std::size_t i = 0; i < losses.size(); ++i) {
    losses.at(i) = noted(0, static_cast<Eigen::Index>(i));
  }
  state_->path.restore(state_->steps, losses);
  state_->first_loss = get("first_loss")(0, 0);
  const double first = state_->loss_at_start(objective);
  if (!(std::abs(first - state_->first_loss) <= kSameLoss * std::abs(first))) {
    throw UsageError(fmt::format(
        "{} is the beginning of a work with other models, another start, other data or another "
        "loss: that began at {:.6g}, this does at {:.6g}; remove it to begin anew",
        path.string(), state_->first_loss, first));
  }
  for (std::int64_t i = 0; i < state_->steps / kStepsPerBatch; ++i) objective.advance();
  state_->move();
}

Element learn(Learner& learner, Objective<float>& objective, const Learning& learning,
              const std::filesystem::path& checkpoint, Progress& progress) {
  const bool keeps = !checkpoint.empty();
  if (keeps && std::filesystem::exists(checkpoint)) learner.load(checkpoint, objective);
  if (keeps) learner.save(checkpoint);  // what cannot be written is said now
  auto saved = Clock::now();
  progress.start("learning", learning.steps - learner.steps());
  while (learner.steps() < learning.steps) {
    learner.step(objective);
    bool cancelled = false;
    try {
      progress.advance(1);
    } catch (const Cancelled&) {
      cancelled = true;
    }
    const bool due = Clock::now() - saved > std::chrono::duration<double>(kSaveEvery);
    if (keeps && (cancelled || due || learner.steps() == learning.steps)) {
      learner.save(checkpoint);
      saved = Clock::now();
    }
    if (cancelled) throw Cancelled();
  }
  progress.finish();
  return learner.better(objective);
}

}  // namespace regauge
