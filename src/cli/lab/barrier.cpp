#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "connect/chart.h"
#include "connect/measure.h"
#include "io/partial.h"
#include "lab_verb.h"
#include "print.h"
#include "regauge/arch/joint_architecture.h"
#include "regauge/base/error.h"
#include "regauge/equivalence/compare.h"
#include "regauge/lab/train.h"

namespace regauge::cli {
namespace {

void print(const lab::Line& line, const DataOptions& data, const std::string& method) {
  answer("    t      loss    excess  accuracy\n");
  for (std::size_t i = 0; i < line.points.size(); ++i) {
    const auto& [t, score] = line.points[i];
    answer("{:5.3f}  {:8.4f}  {:8.4f}  {:6.2f} %\n", t, score.loss, line.excess(i),
           100 * score.accuracy);
  }
  answer("barrier  {:.4f} ± {:.4f} nats at t = {:.3f}, on {} targets in {} examples{}{}\n",
         line.barrier, line.barrier_error, line.barrier_at, line.points.front().score.targets,
         line.points.front().score.examples,
         data.spec == "self" ? "" : fmt::format(" (--split {})", data.split),
         method.empty() ? "" : ", B aligned by " + method);
}

// The loss on the line above the straight one between the ends.
std::string picture(const lab::Line& line, const std::string& method) {
  connect::Series loss, straight;
  loss.name = method.empty() ? "as they are" : method;
  loss.look = 1;
  straight.name = "no barrier";
  for (std::size_t i = 0; i < line.points.size(); ++i) {
    const auto& [t, score] = line.points[i];
    loss.x.push_back(t);
    loss.y.push_back(score.loss);
    loss.low.push_back(score.loss - line.excess_error(i));
    loss.high.push_back(score.loss + line.excess_error(i));
    straight.x.push_back(t);
    straight.y.push_back(score.loss - line.excess(i));
  }
  return connect::line_chart({straight, loss},
                             {.title = fmt::format("Barrier {:.4f} nats", line.barrier),
                              .x = "from A (0) to B (1)",
                              .y = "loss in nats"});
}

struct BarrierOptions {
  std::string a, b, align, picture;
  std::vector<std::string> settings;
  DataOptions data;
  std::int64_t points = 25, examples = 0;
  int threads = 0;
  bool untie = false, in_double = false, json = false;

  void declare(CLI::App& verb) {
    verb.add_option("A", a, "folder or file")->required();
    verb.add_option("B", b, "folder or file of the same architecture")->required();
    data.split = "test";  // with or without --align, so that the two can be compared
    data.declare(verb)->required();
    verb.add_option("--points", points, "on the line, both ends included")
        ->capture_default_str()
        ->check(CLI::Range(2, 100000));
    verb.add_option("--examples", examples, "at most so many, spread evenly (default: all)")
        ->check(CLI::NonNegativeNumber);
    verb.add_option(
        "--align", align,
        "bring B into A's coordinates first: two_stage, weights, activations or learned; "
        "the last two on the training part of the data");
    verb.add_option("--set", settings,
                    "KEY=VALUE of --align: scope, iterations, steps, ...; docs/study.md has them");
    verb.add_flag("--untie", untie, "read tied models as untied, where their group is larger");
    verb.add_option("--picture", picture, "write the curve to this file, as SVG");
    verb.add_flag("--double", in_double, "in double precision");
    verb.add_flag("--json", json, "the result as JSON");
    declare_threads(verb, threads);
  }
};

// Both models as one architecture, B in A's coordinates if that is asked for.
class Pair {
 public:
  Pair(const BarrierOptions& options, Progress& progress)
      : options_(options),
        a_(Model::open(options.a)),
        b_(Model::open(options.b)),
        symmetry_(symmetry_of(shape())),
        from_a_(a_, symmetry_.architecture),
        from_b_(b_, symmetry_.architecture) {
    if (options.align.empty()) return;
    nlohmann::json json = {{"method", options.align}};
    apply_settings(options.settings, json);
    const connect::AlignSettings settings = connect::align_settings_from_json(json);
    align_ = to_json(settings);
    std::unique_ptr<lab::Data> data;
    if (runs_models(settings.method)) {
      DataOptions part = options.data;
      part.split = "train";
      data = open(part, progress);
    }
    // Learning that is cancelled is begun anew: nothing is written here.
    a_from_b_ = connect::align_models({symmetry_, from_a_, from_b_}, settings, std::move(data), {},
                                      progress)
                    .a_from_b;
  }

  // All settings of the alignment; null without one.
  const nlohmann::json& align() const { return align_; }

  template <class Scalar>
  lab::Line line(Progress& progress) const {
    return lab::measure_line(
        symmetry_.architecture, connect::moved_parameters<Scalar>(from_a_, symmetry_, {}),
        connect::moved_parameters<Scalar>(from_b_, symmetry_, a_from_b_),
        *open(options_.data, progress), options_.points, options_.examples, progress);
  }

 private:
  Architecture shape() const {
    const auto differences = architecture_differences(a_.architecture, b_.architecture);
    if (!differences.empty()) {
      throw UsageError(fmt::format("{} and {} are not of one architecture, there is no line:\n  {}",
                                   options_.a, options_.b, fmt::join(differences, "\n  ")));
    }
    Architecture joint = joint_architecture(a_.architecture, b_.architecture);
    if (options_.untie) joint.tied = false;
    return joint;
  }

  std::unique_ptr<lab::Data> open(const DataOptions& data, Progress& progress) const {
    return data.open(symmetry_.architecture, {&a_, &b_}, progress);
  }

  const BarrierOptions& options_;
  Model a_, b_;
  Symmetry symmetry_;
  ParameterSource from_a_, from_b_;
  nlohmann::json align_;
  Element a_from_b_;
};

}  // namespace

void add_barrier(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<BarrierOptions>();
  CLI::App* verb =
      app.add_subcommand("barrier", "Loss and accuracy on the straight line between two models");
  options->declare(*verb);
  verb->footer(
      "The barrier is the most by which the loss lies above the straight line between the ends' "
      "losses:\nmax over t of L(t) - (1-t) L(0) - t L(1), L(t) at (1-t) A + t B.\nIts error is "
      "from "
      "the spread over examples, each compared with itself at the ends.");
  verb->callback([options, &exit_code] {
    lab::set_threads(options->threads);
    if (options->align.empty() && !options->settings.empty()) {
      throw UsageError("barrier --set: settings are those of --align METHOD");
    }
    if (!options->picture.empty() && !options->picture.ends_with(".svg")) {
      throw UsageError(fmt::format("{}: a picture is an .svg", options->picture));
    }
    if (std::filesystem::exists(options->picture)) {  // said now, and not after the work
      throw UsageError(fmt::format("{} exists; choose another picture", options->picture));
    }
    const auto progress = make_progress();
    const Pair pair(*options, *progress);
    const lab::Line line =
        options->in_double ? pair.line<double>(*progress) : pair.line<float>(*progress);
    if (!options->picture.empty()) io::write_new(options->picture, picture(line, options->align));
    if (options->json) {
      nlohmann::json result = {{"a", options->a}, {"b", options->b}, {"data", options->data.spec}};
      if (options->data.spec != "self") result["split"] = options->data.split;
      if (!options->align.empty()) result["align"] = pair.align();
      result.update(connect::to_json(line));
      answer_json(result);
    } else {
      print(line, options->data, options->align);
    }
    exit_code = 0;
  });
}

}  // namespace regauge::cli
