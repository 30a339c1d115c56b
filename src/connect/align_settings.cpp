#include "align_settings.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "regauge/base/error.h"

namespace regauge::connect {
namespace {

using nlohmann::json;

// Takes settings out of an object one by one; what is left over is refused.
class Reader {
 public:
  explicit Reader(json settings) : left_(std::move(settings)) {
    if (!left_.is_object()) throw UsageError("[align] settings are an object of KEY: VALUE");
  }

  template <class T>
  void take(const char* key, T& value) {
    const auto found = left_.find(key);
    if (found == left_.end()) return;
    try {
      value = found->get<T>();
    } catch (const json::exception&) {
      throw UsageError(fmt::format("[align] '{}' cannot be {}", key, found->dump()));
    }
    left_.erase(found);
  }

  const json& left() const { return left_; }

 private:
  json left_;
};

// visit(key, value) of every setting that the method has besides its scope; those of learned that
// are Learning's are apart.
template <class Settings, class Visit>
void for_each_setting(Settings& settings, const Visit& visit) {
  const AlignMethod method = settings.method;
  const bool learned = method == AlignMethod::learned;
  if (method == AlignMethod::two_stage) {
    visit("compact", settings.options.compact);
    visit("neurons", settings.options.neurons);
  }
  if (method == AlignMethod::weights || learned) {
    visit("iterations", settings.options.iterations);
    visit("starts", settings.options.starts);
  }
  if (method != AlignMethod::two_stage) visit("seed", settings.options.seed);
  if (runs_models(method)) {
    visit("batch", settings.batch);
    visit("batches", settings.batches);
  }
  if (learned) {
    visit("start", settings.start);
    visit("loss", settings.loss);
  }
}

void require_choice(const char* key, const std::string& value, const char* one, const char* other) {
  if (value == one || value == other) return;
  throw UsageError(fmt::format("[align] '{}' is {} or {}, not {}", key, one, other, value));
}

}  // namespace

AlignSettings align_settings_from_json(const json& settings) {
  AlignSettings result;
  Reader reader(settings);
  std::string method(method_name(result.method)), scope = "all";
  reader.take("method", method);
  reader.take("scope", scope);
  result.method = method_from_name(method);
  result.options.scope = Scope(scope);
  for_each_setting(result, [&](const char* key, auto& value) { reader.take(key, value); });
  if (result.method == AlignMethod::two_stage) {
    std::string stream(stream_map_name(result.options.stream));
    reader.take("stream", stream);
    result.options.stream = stream_map_from_name(stream);
  }
  if (result.method == AlignMethod::learned) {
    require_choice("start", result.start, "activations", "weights");
    require_choice("loss", result.loss, "distillation", "task");
    json learning = reader.left();
    learning["seed"] = result.options.seed;
    result.learning = learning_from_json(learning);
  } else if (!reader.left().empty()) {
    throw UsageError(
        fmt::format("[align] {} has no setting '{}'", method, reader.left().begin().key()));
  }
  if (result.batch < 1 || result.batches < 1 || result.options.iterations < 1 ||
      result.options.starts < 1) {
    throw UsageError("[align] batch, batches, iterations and starts must be positive");
  }
  return result;
}

json to_json(const AlignSettings& settings) {
  json result = json::object();
  if (settings.method == AlignMethod::learned) result = regauge::to_json(settings.learning);
  result["method"] = method_name(settings.method);
  result["scope"] = settings.options.scope.text();
  for_each_setting(settings, [&](const char* key, const auto& value) { result[key] = value; });
  if (settings.method == AlignMethod::two_stage) {
    result["stream"] = stream_map_name(settings.options.stream);
  }
  return result;
}

}  // namespace regauge::connect
