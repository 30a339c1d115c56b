#include "experiment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "regauge/arch/architecture.h"
#include "regauge/base/error.h"
#include "symmetry/require_layers.h"

namespace regauge::connect {
namespace {

using nlohmann::json;

// Of names that become parts of paths.
void require_plain(const std::string& name) {
  const auto plain = [](char c) {
    return (std::isalnum(static_cast<unsigned char>(c)) != 0) || c == '-' || c == '_' || c == ':' ||
           c == ' ';
  };
  if (name.empty() || !std::all_of(name.begin(), name.end(), plain)) {
    throw UsageError(fmt::format("'{}' is no name: letters, digits, - and _ are", name));
  }
}

std::string in_path(std::string name) {
  require_plain(name);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ':' || c == ' '; }, '-');
  return name;
}

void require_keys(const json& object, const std::string& what,
                  const std::vector<std::string>& keys) {
  if (!object.is_object()) throw UsageError(fmt::format("{} must be an object", what));
  for (const auto& [key, value] : object.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      throw UsageError(
          fmt::format("{} has no '{}'; there are {}", what, key, fmt::join(keys, ", ")));
    }
  }
}

std::int64_t whole_number(const json& object, const char* key, std::int64_t otherwise,
                          std::int64_t least) {
  const json value = object.value(key, json(otherwise));
  if (!value.is_number_integer() || value < least || value > 100000) {
    throw UsageError(fmt::format("'{}' must be a whole number from {} on", key, least));
  }
  return value.get<std::int64_t>();
}

// The two halves of what is trained; a change of some keys of it is laid over.
struct Config {
  json architecture = json::object(), training = json::object();

  Config with(const json& change, const std::string& what) const {
    require_keys(change, what, {"architecture", "training"});
    Config result = *this;
    for (const auto& [half, keys] : change.items()) {
      if (!keys.is_object()) throw UsageError(fmt::format("{}: {} must be an object", what, half));
      (half == "training" ? result.training : result.architecture).update(keys);
    }
    return result;
  }
};

struct PlannedCell {
  std::string path;
  json values = json::object();  // axis -> choice
  Config config;
};

// All choices along all axes.
std::vector<PlannedCell> planned_cells(const json& axes, const Config& common) {
  std::vector<PlannedCell> cells = {{"", json::object(), common}};
  for (const auto& [axis, choices] : axes.items()) {
    if (!choices.is_object() || choices.empty()) {
      throw UsageError(fmt::format("'vary': '{}' must be an object of choices", axis));
    }
    std::vector<PlannedCell> finer;
    for (const PlannedCell& cell : cells) {
      for (const auto& [choice, change] : choices.items()) {
        PlannedCell next = cell;
        next.path += fmt::format("{}{}", cell.path.empty() ? "" : ".", in_path(choice));
        next.values[axis] = choice;
        next.config = cell.config.with(change, fmt::format("'{}'", choice));
        finer.push_back(std::move(next));
      }
    }
    cells = std::move(finer);
  }
  if (cells.size() == 1 && cells.front().path.empty()) cells.front().path = "model";
  return cells;
}

class Planner {
 public:
  explicit Planner(json content) : file_(std::move(content)) {
    const json& file = file_;
    require_keys(file, "an experiment",
                 {"name", "architecture", "training", "vary", "models", "scopes", "methods", "line",
                  "plane", "heads"});
    for (const char* key : {"name", "training", "scopes", "methods"}) {
      if (!file.contains(key)) throw UsageError(fmt::format("'{}' is missing", key));
    }
    for (const char* key : {"architecture", "training", "vary", "scopes", "methods"}) {
      if (file.contains(key) && !file[key].is_object()) {
        throw UsageError(fmt::format("'{}' must be an object", key));
      }
    }
    for (const char* key : {"scopes", "methods"}) {
      if (file[key].empty()) throw UsageError(fmt::format("'{}' is empty", key));
    }
    for (const char* key : {"seed", "from", "reinit"}) {
      if (file["training"].contains(key)) {
        throw UsageError(
            fmt::format("'training' has no '{}' here: models, their seeds and where "
                        "they start follow from 'models' and 'scopes'",
                        key));
      }
    }
    if (!file["name"].is_string()) throw UsageError("'name' must be text");
    plan_.name = file["name"];
    require_plain(plan_.name);
    models_ = whole_number(file, "models", 3, 2);
    const json line = file.value("line", json::object());
    require_keys(line, "'line'", {"points", "examples"});
    line_ = {whole_number(line, "points", 25, 2), whole_number(line, "examples", 0, 0)};
    const json plane = file.value("plane", json::object());
    require_keys(plane, "'plane'", {"points", "examples", "methods"});
    plane_ = {whole_number(plane, "points", 11, 2),
              whole_number(plane, "examples", line_.examples, 0)};
    with_plane_ = methods_of("plane", plane);
    const json heads = file.value("heads", json::object());
    require_keys(heads, "'heads'", {"examples", "methods"});
    rank_examples_ = whole_number(heads, "examples", line_.examples, 0);
    with_ranks_ = methods_of("heads", heads);
  }

  Experiment plan() {
    const Config common{file_.value("architecture", json::object()), file_["training"]};
    for (const PlannedCell& cell : planned_cells(file_.value("vary", json::object()), common)) {
      for (const auto& [scope, change] : file_["scopes"].items()) add(cell, scope, change);
    }
    // A base model has one path however many scopes start from it.
    std::stable_sort(plan_.models.begin(), plan_.models.end(),
                     [](const auto& x, const auto& y) { return x.from.empty() > y.from.empty(); });
    return std::move(plan_);
  }

 private:
  void add(const PlannedCell& cell, const std::string& scope, const json& change) {
    const Scope part(scope);
    const bool shared = !part.is_all();
    const std::string folder = fmt::format("models/{}", cell.path);
    const std::string base = shared ? fmt::format("{}/base", folder) : "";
    const auto has = [&](const auto& model) { return model.path == base; };
    if (shared && std::none_of(plan_.models.begin(), plan_.models.end(), has)) {
      add_model(base, "", cell.config, 0);
    }
    Config config = cell.config.with(change, fmt::format("scope '{}'", scope));
    if (shared && config.architecture != cell.config.architecture) {
      throw UsageError(fmt::format(
          "scope '{}' may not change the architecture: its models start from one base", scope));
    }
    static_cast<void>(part.contains_tensor(""));  // it must be one of tensors
    const Architecture architecture = architecture_from_json(config.architecture);
    require_layers(part, architecture.layers);
    config.architecture = to_json(architecture);  // with its defaults
    if (shared) config.training["reinit"] = scope;
    const auto path = [&](std::int64_t seed) {
      return fmt::format("{}/{}-{}", folder, in_path(scope), seed);
    };
    for (std::int64_t i = 1; i <= models_; ++i) add_model(path(i), base, config, i);
    for (std::int64_t i = 1; i <= models_; ++i) {
      for (std::int64_t j = i + 1; j <= models_; ++j) {
        for (const auto& [method, settings] : file_["methods"].items()) {
          measure(cell, scope, config, {i, j}, path(i), path(j), method, settings);
        }
      }
    }
  }

  void add_model(const std::string& path, const std::string& from, Config config,
                 std::int64_t seed) {
    config.training["seed"] = seed;
    plan_.models.push_back({path, from, config.architecture, config.training});
  }

  void measure(const PlannedCell& cell, const std::string& scope, const Config& config,
               const std::vector<std::int64_t>& seeds, const std::string& a, const std::string& b,
               const std::string& method, const json& settings) {
    Experiment::Measurement result;
    result.record = fmt::format("records/{}.{}.{}-{}.{}.jsonl", cell.path, in_path(scope), seeds[0],
                                seeds[1], in_path(method));
    if (!records_.insert(result.record).second) {
      throw UsageError(fmt::format("'{}' and another name make one file, {}; rename one of them",
                                   method, result.record));
    }
    result.a = a;
    result.b = b;
    result.line = line_;
    json align = json::object();
    if (!settings.is_null()) {
      if (!settings.is_object()) {
        throw UsageError(fmt::format("method '{}' must be null or an object", method));
      }
      if (!settings.contains("method")) {
        throw UsageError(fmt::format(
            "'{}' lacks its \"method\": two_stage, weights, activations or learned", method));
      }
      align = settings;
      // A method may be asked for less than what the models differ in, in the same layers.
      const json own = settings.value("scope", json(""));
      if (!own.is_string()) throw UsageError(fmt::format("'{}': 'scope' must be text", method));
      const std::string what = own;
      align["scope"] = what.empty() ? scope : what + std::string(Scope(scope).layers());
      result.align = align_settings_from_json(align);
      align = to_json(*result.align);
      if (seeds[0] == 1 && seeds[1] == 2 && with_plane_.contains(method)) result.plane = plane_;
    }
    if (with_ranks_.contains(method)) {
      const auto most = AlignSettings::kMostRankedHeads;
      if (result.align->method != AlignMethod::two_stage ||
          config.architecture.at("heads") > most) {
        throw UsageError(fmt::format(
            "'heads': '{}' must be two_stage, and a model have at most {} heads", method, most));
      }
      result.rank_examples = rank_examples_;
    }
    result.about = {{"experiment", plan_.name},
                    {"cell", cell.values},
                    {"scope", scope},
                    {"seeds", seeds},
                    {"method", method},
                    {"architecture", config.architecture},
                    {"training", config.training},
                    {"align", align},
                    {"line", {{"points", line_.points}, {"examples", line_.examples}}}};
    plan_.measurements.push_back(std::move(result));
  }

  // The methods that a key asks for.
  std::set<std::string> methods_of(const char* key, const json& object) const {
    const json names = object.value("methods", json::array());
    if (!names.is_array()) {
      throw UsageError(fmt::format("'{}': 'methods' must be a list of names", key));
    }
    std::set<std::string> result;
    for (const auto& name : names) {
      if (!name.is_string() || file_["methods"].value(name, json()).is_null()) {
        throw UsageError(fmt::format("'{}': {} is no method that aligns", key, name.dump()));
      }
      result.insert(name.get<std::string>());
    }
    return result;
  }

  const json file_;
  std::int64_t models_ = 0;
  std::int64_t rank_examples_ = 0;
  Experiment::Grid line_, plane_;
  std::set<std::string> with_plane_, with_ranks_, records_;
  Experiment plan_;
};

}  // namespace

Experiment read_experiment(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path)) {
    throw FileError(fmt::format("{}: there is no such file", path.string()));
  }
  try {
    return Planner(json::parse(file, nullptr, true, true)).plan();
  } catch (const json::parse_error& error) {
    const std::string_view what = error.what();  // "[...] parse error at line 3, column 5: ..."
    throw UsageError(
        fmt::format("{}: this is not JSON: {}", path.string(), what.substr(what.find("] ") + 2)));
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

}  // namespace regauge::connect
