#include "regauge/lab/train.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <torch/csrc/autograd/autograd.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <numbers>
#include <optional>
#include <thread>

#include "cross_entropy.h"
#include "io/file_lock.h"
#include "regauge/arch/layout.h"
#include "regauge/base/error.h"
#include "regauge/io/checkpoint_writer.h"
#include "regauge/symmetry/scope.h"
#include "sampler.h"
#include "transformer.h"

namespace regauge::lab {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr std::int64_t kLogEvery = 20;  // steps
constexpr double kSaveEvery = 60;       // seconds
constexpr double kEpsilon = 1e-8;       // of AdamW

double learning_rate(const Training& t, std::int64_t step) {
  if (step < t.warmup) {
    return t.learning_rate * static_cast<double>(step + 1) / static_cast<double>(t.warmup);
  }
  const double done = static_cast<double>(step - t.warmup) /
                      static_cast<double>(std::max<std::int64_t>(1, t.steps - t.warmup));
  const double cosine = (1 + std::cos(std::numbers::pi * done)) / 2;
  return t.learning_rate * (t.final_fraction + (1 - t.final_fraction) * cosine);
}

// How far a training is.
struct Reached {
  std::int64_t steps = 0;
  double loss_sum = 0;  // since the last note
};

// Parameters, and AdamW's two moments of those that are trained, those that decay apart from those
// that do not.
class Optimizer {
 public:
  Optimizer(const Training& training, const Parameters<float>& start) : training_(training) {
    const bool everything = training.reinit.empty() || training.freeze == "none";
    const Scope part(everything ? "all" : training.reinit);
    for (const auto& [name, value] : start) {
      const bool trained = part.contains_tensor(name);
      const at::Tensor tensor = view(value).clone().set_requires_grad(trained);
      tensors_.emplace(name, tensor);
      if (!trained) continue;
      Group& group = value.rows() > 1 ? decaying_ : plain_;
      group.names.push_back(name);
      group.values.push_back(tensor);
      group.means.push_back(at::zeros_like(tensor));
      group.squares.push_back(at::zeros_like(tensor));
      group.steps.push_back(at::zeros({}, at::kFloat));
    }
    leaves_ = decaying_.values;
    leaves_.insert(leaves_.end(), plain_.values.begin(), plain_.values.end());
  }

  const Tensors& tensors() const { return tensors_; }

  // One step down the loss's gradient.
  void step(const at::Tensor& loss, double rate) {
    std::vector<at::Tensor> slopes =
        torch::autograd::grad({loss}, leaves_, {}, std::nullopt, false, true);
    for (std::size_t i = 0; i < slopes.size(); ++i) {
      if (!slopes[i].defined()) slopes[i] = at::zeros_like(leaves_[i]);
    }
    const c10::NoGradGuard no_gradient;
    const at::Tensor length = at::stack(at::_foreach_norm(slopes)).norm();
    const at::Tensor divisor = (length / training_.clip).clamp_min(1);
    const auto middle = slopes.begin() + static_cast<std::ptrdiff_t>(decaying_.values.size());
    apply(decaying_, {slopes.begin(), middle}, divisor, rate, training_.weight_decay);
    apply(plain_, {middle, slopes.end()}, divisor, rate, 0);
  }

  Parameters<float> parameters() const {
    Parameters<float> values;
    for (const auto& [name, tensor] : tensors_) values[name] = matrix<float>(tensor.detach());
    return values;
  }

  void save(const fs::path& path, const Reached& reached) const {
    CheckpointWriter::Plan plan;
    plan.file_metadata = {{{"steps", std::to_string(reached.steps)},
                           {"loss_sum", fmt::format("{:.17g}", reached.loss_sum)}}};
    each([&](const std::string& name, const at::Tensor& tensor) {
      plan.tensors.push_back({.name = name, .dtype = DType::f32, .shape = tensor.sizes().vec()});
    });
    const fs::path fresh = path.parent_path() / "fresh.safetensors";
    fs::remove(fresh);
    {
      CheckpointWriter writer(fresh, std::move(plan));
      each([&](const std::string& name, const at::Tensor& tensor) {
        writer.write(name, {static_cast<const std::byte*>(tensor.const_data_ptr()),
                            static_cast<std::size_t>(tensor.nbytes())});
      });
      writer.finish();
    }
    fs::rename(fresh, path);
  }

  Reached load(const fs::path& path) {
    const c10::NoGradGuard no_gradient;
    const Checkpoint file = Checkpoint::open(path);
    each([&](const std::string& name, const at::Tensor& tensor) {
      const auto bytes = file.bytes(file.at(name));
      if (bytes.size() != static_cast<std::size_t>(tensor.nbytes())) {
        throw UsageError(
            fmt::format("{}: '{}' has another size than the model's", path.string(), name));
      }
      std::copy(bytes.begin(), bytes.end(), static_cast<std::byte*>(tensor.mutable_data_ptr()));
    });
    const Json& notes = file.file_metadata().at(0);
    const Reached reached{std::stoll(notes.at("steps").get<std::string>()),
                          std::stod(notes.at("loss_sum").get<std::string>())};
    for (Group* group : {&decaying_, &plain_}) {
      for (auto& count : group->steps) count.fill_(static_cast<double>(reached.steps));
    }
    return reached;
  }

 private:
  struct Group {
    std::vector<std::string> names;
    std::vector<at::Tensor> values, means, squares, steps;
  };

  void apply(Group& group, const std::vector<at::Tensor>& slopes, const at::Tensor& divisor,
             double rate, double decay) {
    if (group.values.empty()) return;
    at::_foreach_add_(group.steps, 1);
    at::_fused_adamw_(group.values, slopes, group.means, group.squares, {}, group.steps, rate,
                      training_.beta1, training_.beta2, decay, kEpsilon, false, false, divisor);
  }

  template <class Visit>
  void each(const Visit& visit) const {
    for (const Group* group : {&decaying_, &plain_}) {
      for (std::size_t i = 0; i < group->names.size(); ++i) {
        visit(group->names[i], group->values[i]);
        visit(group->names[i] + "/mean", group->means[i]);
        visit(group->names[i] + "/square", group->squares[i]);
      }
    }
  }

  const Training& training_;
  Tensors tensors_;
  std::vector<at::Tensor> leaves_;
  Group decaying_, plain_;
};

// The folder of a training that has not ended.
class Workplace {
 public:
  Workplace(const fs::path& output, const Architecture& architecture, const Training& training)
      : output_(output), folder_(output.string() + ".partial") {
    if (fs::exists(output_)) {
      throw UsageError(fmt::format("{} exists; choose another output", output_.string()));
    }
    fs::create_directories(folder_);
    lock_.emplace(folder_ / "lock");
    if (!lock_->held()) {
      throw UsageError(fmt::format("{}: another training is at work there", folder_.string()));
    }
    const Json settings = {{"architecture", to_json(architecture)},
                           {"training", to_json(training)}};
    const Json begun = Json::parse(std::ifstream(folder_ / "training.json"), nullptr, false);
    if (fs::exists(state()) && begun != settings) {
      throw UsageError(fmt::format(
          "{} is the beginning of a training with other settings ({}); remove it, or choose "
          "another output",
          folder_.string(), Json::diff(begun, settings).dump()));
    }
    std::ofstream(folder_ / "training.json") << settings.dump(2) << '\n';
  }

  fs::path state() const { return folder_ / "state.safetensors"; }

  // Forgets what was noted after `step`, which will be noted again.
  void forget_after(std::int64_t step) {
    const fs::path path = folder_ / "metrics.jsonl";
    std::string kept;
    std::ifstream old(path);
    for (std::string line; std::getline(old, line);) {
      const Json record = Json::parse(line, nullptr, false);
      if (!record.is_discarded() && record.at("step") <= step) kept += line + '\n';
    }
    std::ofstream(path, std::ios::trunc) << kept;
  }

  void note(const Json& record) {
    std::ofstream(folder_ / "metrics.jsonl", std::ios::app) << record.dump() << '\n';
  }

  void finish(const Architecture& architecture, const Parameters<float>& parameters) {
    const fs::path model = folder_ / "model";
    fs::remove_all(model);
    write_parameters(model, "regauge", Format::safetensors, architecture, parameters, DType::f32);
    for (const char* name : {"training.json", "metrics.jsonl"}) {
      fs::copy_file(folder_ / name, model / name);
    }
    fs::rename(model, output_);
    fs::remove_all(folder_);
  }

 private:
  fs::path output_, folder_;
  std::optional<FileLock> lock_;
};

Json as_json(const Score& score, std::int64_t step) {
  return {{"step", step},
          {"test_loss", score.loss},
          {"test_loss_error", score.loss_error},
          {"test_accuracy", score.accuracy}};
}

}  // namespace

Score train(const Architecture& architecture, const Training& training,
            const Parameters<float>& start, const std::filesystem::path& output,
            Progress& progress) {
  const auto open = [&](const std::string& spec, Split split) {
    return open_data(spec, architecture, split, training.length, training.tokenizer);
  };
  // A labelled data set has parts of its own; two texts are taken whole.
  const bool parts = training.test_data.empty() || architecture.output == Output::classes;
  const std::shared_ptr<const Data> data = open(training.data, parts ? Split::train : Split::all);
  const std::unique_ptr<Data> test =
      open(training.test_data.empty() ? training.data : training.test_data,
           parts ? Split::test : Split::all);
  Workplace workplace(output, architecture, training);
  Optimizer optimizer(training, start);
  Reached at;
  if (fs::exists(workplace.state())) at = optimizer.load(workplace.state());
  workplace.forget_after(at.steps);
  Sampler sampler(data, training.batch, training.seed);
  for (std::int64_t i = 0; i < at.steps; ++i) sampler.skip();

  const auto score = [&](std::int64_t examples, Progress& shown) {
    return evaluate(architecture, optimizer.parameters(), *test, examples, shown);
  };
  std::optional<Transformer> transformer;
  auto saved = Clock::now();
  progress.start("training", training.steps - at.steps);
  while (at.steps < training.steps) {
    const Batch batch = sampler.next();
    if (!transformer) transformer.emplace(architecture, batch.length, at::kFloat);
    const double rate = learning_rate(training, at.steps);
    const at::Tensor loss = cross_entropy((*transformer)(optimizer.tensors(), batch), batch);
    optimizer.step(loss, rate);
    at.loss_sum += loss.item<double>();
    ++at.steps;
    if (!std::isfinite(at.loss_sum)) {
      throw UsageError(
          fmt::format("the loss is not finite at step {}; lower the learning rate", at.steps));
    }
    if (at.steps % kLogEvery == 0) {
      workplace.note(
          {{"step", at.steps}, {"loss", at.loss_sum / kLogEvery}, {"learning_rate", rate}});
      at.loss_sum = 0;
    }
    if (training.test_every > 0 && at.steps % training.test_every == 0 &&
        at.steps < training.steps) {
      workplace.note(as_json(score(training.test_examples, Progress::silent()), at.steps));
    }
    bool cancelled = false;
    try {
      progress.advance(1);
    } catch (const Cancelled&) {
      cancelled = true;
    }
    if (cancelled || Clock::now() - saved > std::chrono::duration<double>(kSaveEvery)) {
      optimizer.save(workplace.state(), at);
      saved = Clock::now();
    }
    if (cancelled) throw Cancelled();
  }
  progress.finish();
  optimizer.save(workplace.state(), at);
  const Score final_score = score(0, progress);
  workplace.note(as_json(final_score, at.steps));
  workplace.finish(architecture, optimizer.parameters());
  return final_score;
}

void set_threads(int count) {
  at::set_num_threads(count > 0 ? count : static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace regauge::lab
