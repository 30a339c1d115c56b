#include "connect/sweep.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include "connect/measure.h"
#include "connect/record.h"
#include "io/file_lock.h"
#include "regauge/base/error.h"
#include "regauge/base/version.h"
#include "regauge/lab/plane.h"
#include "regauge/lab/train.h"
#include "study_commit.h"

namespace regauge::connect {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr std::chrono::milliseconds kLook{500};  // between two looks at what others have done

fs::path lock_of(const fs::path& folder, std::string piece) {
  std::replace(piece.begin(), piece.end(), '/', '.');
  return folder / "locks" / piece;
}

// The right to do one piece of work, for as long as this lives.
FileLock claim(const fs::path& folder, const std::string& piece) {
  fs::create_directories(folder / "locks");
  return FileLock(lock_of(folder, piece));
}

lab::Training training_of(const Experiment::Model& model, const fs::path& folder) {
  json settings = model.training;
  if (!model.from.empty()) settings["from"] = (folder / model.from).string();
  return lab::training_from_json(settings);
}

// With their defaults, but for what tells the models of a pair apart and where the folder lies.
json common_settings(const json& training) {
  json settings = lab::to_json(lab::Training{});
  settings.update(training);
  settings.erase("seed");
  settings.erase("from");
  return settings;
}

void train(const Experiment::Model& model, const fs::path& folder, Progress& progress) {
  const Architecture architecture = architecture_from_json(model.architecture);
  const lab::Training training = training_of(model, folder);
  fs::create_directories((folder / model.path).parent_path());
  lab::train(architecture, training, lab::initial_parameters(architecture, training),
             folder / model.path, progress);
}

json to_json(const lab::Plane& plane) {
  json rows = json::array();
  for (Eigen::Index row = 0; row < plane.loss.rows(); ++row) {
    const Eigen::VectorXd losses = plane.loss.row(row);
    rows.push_back(std::vector<double>(losses.begin(), losses.end()));
  }
  return {{"x", plane.x}, {"y", plane.y}, {"loss", rows},
          {"a", plane.a}, {"b", plane.b}, {"aligned", plane.c}};
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void measure(const Experiment::Measurement& job, const fs::path& folder, int threads,
             Progress& progress) {
  const Model a = Model::open(folder / job.a), b = Model::open(folder / job.b);
  Architecture shape = a.architecture;
  shape.tied = false;  // where the group is largest; the line is the same
  const Symmetry symmetry = symmetry_of(shape);
  const ParameterSource from_a(a, shape), from_b(b, shape);
  json settings = job.about.at("training");
  settings.erase("reinit");
  const auto training = lab::training_from_json(settings);
  const auto open = [&](lab::Split split) {
    return lab::open_data(training.data, shape, split, training.length, training.tokenizer);
  };
  const fs::path record = folder / job.record, state = record.string() + ".learning.safetensors";
  fs::create_directories(record.parent_path());
  json result = job.about;
  const auto began = Clock::now();
  Alignment found;
  if (job.align) {
    auto data = runs_models(job.align->method) ? open(lab::Split::train) : nullptr;
    found = align_models({symmetry, from_a, from_b}, *job.align, std::move(data), state, progress);
  }
  result["seconds"]["align"] = seconds_since(began);

  const auto measured = Clock::now();
  const auto in_a = moved_parameters<float>(from_a, symmetry, {});
  const auto aligned = moved_parameters<float>(from_b, symmetry, found.a_from_b);
  const auto test = open(lab::Split::test);
  result.update(connect::to_json(lab::measure_line(shape, in_a, aligned, *test, job.line.points,
                                                   job.line.examples, progress)));
  result["residuals"] = residuals(in_a, aligned);
  const auto in_b = moved_parameters<float>(from_b, symmetry, {});
  result["imbalance"] = imbalance(shape, in_a);
  for (const auto& [name, value] : imbalance(shape, in_b)) {
    result["imbalance"][name] = (result["imbalance"][name].get<double>() + value) / 2;
  }
  if (job.about.at("scope") == "all") {
    const lab::Score both =
        lab::evaluate_ensemble(shape, in_a, in_b, *test, job.line.examples, progress);
    result["ensemble"] = {{"loss", both.loss}, {"accuracy", both.accuracy}};
  }
  if (job.rank_examples) {
    result["heads"] = head_ranks({symmetry, from_a, from_b}, *job.align, found, *test,
                                 *job.rank_examples, progress);
  }
  if (job.plane) {
    result["plane"] = to_json(lab::measure_plane(shape, in_a, in_b, aligned, *test,
                                                 job.plane->points, job.plane->examples, progress));
  }
  result["seconds"]["line"] = seconds_since(measured);
  result["made_by"] = {
      {"regauge", version()}, {"commit", kCommit}, {"threads", threads}, {"dtype", "f32"}};
  const fs::path fresh = record.string() + ".fresh";
  std::ofstream out(fresh);
  out << connect::to_json(record_from_json(result, job.record)).dump() << '\n';
  if (!out.flush()) throw FileError(fmt::format("{}: cannot be written", fresh.string()));
  fs::rename(fresh, record);
  fs::remove(state);
}

// A model of the folder must be the one that the experiment means.
void check_models(const Experiment& experiment, const fs::path& folder) {
  for (const auto& model : experiment.models) {
    json wanted = {{"architecture", to_json(architecture_from_json(model.architecture))}};
    try {
      wanted["training"] = lab::to_json(training_of(model, folder));
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{}: {}", model.path, error.what()));
    }
    std::ifstream file(folder / model.path / "training.json");
    if (!file) continue;
    json made = json::parse(file, nullptr, false);
    for (json* settings : {&made, &wanted}) {  // the folder may have moved
      if (settings->contains("training")) (*settings)["training"].erase("from");
    }
    if (made != wanted) {
      throw UsageError(fmt::format(
          "{} holds a model of other settings ({}); remove it, or choose another folder",
          (folder / model.path).string(), json::diff(made, wanted).dump()));
    }
  }
}

// Nor may a record be another measurement's.
void check_records(const Experiment& experiment, const fs::path& folder) {
  for (const auto& job : experiment.measurements) {
    std::ifstream file(folder / job.record);
    if (!file) continue;
    const json made = json::parse(file, nullptr, false);
    json wanted = job.about, found = json::object();
    wanted["plane"] = job.plane.has_value();
    wanted["heads"] = job.rank_examples.has_value();
    for (const auto& [key, value] : wanted.items()) {
      if (made.is_object() && made.contains(key)) found[key] = made[key];
    }
    for (const char* key : {"plane", "heads"}) found[key] = found.contains(key);
    if (found != wanted) {
      throw UsageError(fmt::format(
          "{} holds a record of other settings, or of a version that wrote fewer of them ({}); "
          "remove it, or choose another folder",
          (folder / job.record).string(), json::diff(found, wanted).dump()));
    }
  }
}

}  // namespace

Sweep::Sweep(Experiment experiment, fs::path folder)
    : experiment_(std::move(experiment)), folder_(std::move(folder)) {
  check_models(experiment_, folder_);
  for (auto& job : experiment_.measurements) {
    job.about["training"] = common_settings(job.about["training"]);
  }
  check_records(experiment_, folder_);
}

bool Sweep::has(const std::string& path) const {
  return path.empty() || fs::exists(folder_ / path);
}

std::int64_t Sweep::done() const {
  std::int64_t count = 0;
  for (const auto& model : experiment_.models) count += has(model.path) ? 1 : 0;
  for (const auto& job : experiment_.measurements) count += has(job.record) ? 1 : 0;
  return count;
}

std::int64_t Sweep::total() const {
  return static_cast<std::int64_t>(experiment_.models.size() + experiment_.measurements.size());
}

fs::path Sweep::failure(const std::string& piece) const {
  return lock_of(folder_, piece).string() + ".failed";
}

void Sweep::forget_failures() const {
  for (const auto& model : experiment_.models) fs::remove(failure(model.path));
  for (const auto& job : experiment_.measurements) fs::remove(failure(job.record));
}

void Sweep::run(int threads, Progress& progress, const OnFailure& on_failure) const {
  lab::set_threads(threads);
  std::set<std::string> lost;  // in this round: what failed, and what needs it
  bool open = false, idle = false;
  const auto attempt = [&](const std::string& result, const std::vector<std::string>& needs,
                           const auto& run) {
    if (has(result)) return;
    const auto is_lost = [&](const std::string& need) { return lost.contains(need); };
    if (std::any_of(needs.begin(), needs.end(), is_lost) || fs::exists(failure(result))) {
      lost.insert(result);
      return;
    }
    open = true;
    if (!std::all_of(needs.begin(), needs.end(), [&](const auto& need) { return has(need); })) {
      return;
    }
    const FileLock mine = claim(folder_, result);
    if (!mine.held() || has(result)) return;
    idle = false;
    try {
      run();
    } catch (const Cancelled&) {
      throw;
    } catch (const std::exception& error) {
      std::ofstream(failure(result)) << error.what() << '\n';
      on_failure(result, error.what());
    }
  };
  do {
    open = false;
    idle = true;
    lost.clear();
    for (const auto& model : experiment_.models) {
      attempt(model.path, {model.from}, [&] { train(model, folder_, progress); });
    }
    for (const auto& job : experiment_.measurements) {
      attempt(job.record, {job.a, job.b}, [&] { measure(job, folder_, threads, progress); });
    }
    if (open && idle) std::this_thread::sleep_for(kLook);
    progress.advance(0);
  } while (open);
}

}  // namespace regauge::connect
