#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lab_verb.h"
#include "regauge/base/error.h"
#include "regauge/equivalence/compare.h"
#include "regauge/lab/line.h"
#include "regauge/lab/train.h"

namespace regauge::cli {
namespace {

nlohmann::json as_json(const lab::Line& line) {
  nlohmann::json points = nlohmann::json::array();
  for (std::size_t i = 0; i < line.points.size(); ++i) {
    const auto& [t, score] = line.points[i];
    points.push_back({{"t", t},
                      {"loss", score.loss},
                      {"loss_error", score.loss_error},
                      {"accuracy", score.accuracy},
                      {"excess", line.excess(i)},
                      {"excess_error", line.excess_error(i)}});
  }
  return {{"barrier", line.barrier},
          {"barrier_error", line.barrier_error},
          {"barrier_at", line.barrier_at},
          {"examples", line.points.front().score.examples},
          {"targets", line.points.front().score.targets},
          {"points", points}};
}

void print(const lab::Line& line) {
  fmt::print("    t      loss    excess  accuracy\n");
  for (std::size_t i = 0; i < line.points.size(); ++i) {
    const auto& [t, score] = line.points[i];
    fmt::print("{:5.3f}  {:8.4f}  {:8.4f}  {:6.2f} %\n", t, score.loss, line.excess(i),
               100 * score.accuracy);
  }
  fmt::print("barrier  {:.4f} ± {:.4f} nats at t = {:.3f}, on {} targets in {} examples\n",
             line.barrier, line.barrier_error, line.barrier_at, line.points.front().score.targets,
             line.points.front().score.examples);
}

}  // namespace

void add_barrier(CLI::App& app, int& exit_code) {
  struct Options {
    std::string a, b;
    DataOptions data;
    std::int64_t points = 25, examples = 0;
    int threads = 0;
    bool in_double = false, json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb =
      app.add_subcommand("barrier", "Loss and accuracy on the straight line between two models");
  verb->add_option("A", options->a, "folder or file")->required();
  verb->add_option("B", options->b, "folder or file of the same architecture")->required();
  options->data.declare(*verb)->required();
  verb->add_option("--points", options->points, "on the line, both ends included")
      ->capture_default_str()
      ->check(CLI::Range(2, 100000));
  verb->add_option("--examples", options->examples, "at most so many, spread evenly (default: all)")
      ->check(CLI::NonNegativeNumber);
  verb->add_flag("--double", options->in_double, "in double precision");
  verb->add_flag("--json", options->json, "the result as JSON");
  declare_threads(*verb, options->threads);
  verb->footer(
      "The barrier is the most by which the loss lies above the straight line between the ends' "
      "losses:\nmax over t of L(t) - (1-t) L(0) - t L(1), L(t) at (1-t) A + t B.\nIts error is "
      "from "
      "the spread over examples, each compared with itself at the ends.\nThe models are taken as "
      "they are; `regauge align` brings B into A's coordinates first.");
  verb->callback([options, &exit_code] {
    lab::set_threads(options->threads);
    const Model a = Model::open(options->a);
    const Model b = Model::open(options->b);
    const auto differences = architecture_differences(a.architecture, b.architecture);
    if (!differences.empty()) {
      throw UsageError(fmt::format("{} and {} are not of one architecture, there is no line:\n  {}",
                                   options->a, options->b, fmt::join(differences, "\n  ")));
    }
    const Architecture joint = joint_architecture(a.architecture, b.architecture);
    const auto progress = make_progress();
    const auto data = options->data.open(joint, {&a, &b}, *progress);
    const auto run = [&]<class Scalar>(Scalar) {
      return lab::measure_line(joint, read_as<Scalar>(a, joint), read_as<Scalar>(b, joint), *data,
                               options->points, options->examples, *progress);
    };
    const lab::Line line = options->in_double ? run(double{}) : run(float{});
    if (options->json) {
      nlohmann::json result = {{"a", options->a}, {"b", options->b}, {"data", options->data.spec}};
      result.update(as_json(line));
      fmt::print("{}\n", result.dump(2));
    } else {
      print(line);
    }
    exit_code = 0;
  });
}

}  // namespace regauge::cli
