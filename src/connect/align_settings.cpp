#include "regauge/connect/align_settings.h"

#include <fmt/format.h>

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

  void take_choice(const char* key, std::string& value, const char* other) {
    const std::string first = value;
    take(key, value);
    if (value != first && value != other) {
      throw UsageError(fmt::format("[align] '{}' is {} or {}, not {}", key, first, other, value));
    }
  }

  const json& left() const { return left_; }

 private:
  json left_;
};

}  // namespace

AlignSettings align_settings_from_json(const json& settings) {
  AlignSettings result;
  Reader reader(settings);
  std::string method(method_name(result.method)), scope = "all";
  reader.take("method", method);
  reader.take("scope", scope);
  result.method = method_from_name(method);
  result.options.scope = Scope(scope);
  const bool learned = result.method == AlignMethod::learned;
  if (result.method == AlignMethod::two_stage) reader.take("compact", result.options.compact);
  if (result.method == AlignMethod::weights || learned) {
    reader.take("iterations", result.options.iterations);
    reader.take("starts", result.options.starts);
  }
  if (result.method != AlignMethod::two_stage) reader.take("seed", result.options.seed);
  if (runs_models(result.method)) {
    reader.take("batch", result.batch);
    reader.take("batches", result.batches);
  }
  if (learned) {
    reader.take_choice("start", result.start, "weights");
    reader.take_choice("loss", result.loss, "task");
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

}  // namespace regauge::connect
