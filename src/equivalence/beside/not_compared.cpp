#include "not_compared.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include "activation_scales.h"
#include "io/remote/url.h"
#include "io/shard_index.h"

namespace regauge {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostNamed = 12;

bool is_companion(const std::string& name) {
  static const std::set<std::string_view> known = {"tokenizer.json",
                                                   "tokenizer_config.json",
                                                   "tokenizer.model",
                                                   "tokenizer.bin",
                                                   "spiece.model",
                                                   "sentencepiece.bpe.model",
                                                   "vocab.json",
                                                   "vocab.txt",
                                                   "merges.txt",
                                                   "added_tokens.json",
                                                   "special_tokens_map.json",
                                                   "chat_template.json",
                                                   "chat_template.jinja",
                                                   "generation_config.json",
                                                   "preprocessor_config.json",
                                                   "processor_config.json",
                                                   "adapter_config.json",
                                                   "adapter_model.safetensors",
                                                   "adapter_model.bin",
                                                   "modules.json",
                                                   "sentence_bert_config.json",
                                                   "config_sentence_transformers.json"};
  return known.contains(name) || name.ends_with(".py");
}

// Other weights in the folder, which some loader may prefer to those that were read.
bool holds_weights(const std::string& name) {
  static constexpr std::string_view kEndings[] = {".safetensors",
                                                  ".safetensors.index.json",
                                                  ".gguf",
                                                  ".bin",
                                                  ".bin.index.json",
                                                  ".pt",
                                                  ".pth",
                                                  ".ckpt",
                                                  ".h5",
                                                  ".msgpack",
                                                  ".onnx"};
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

std::set<std::string> beside(const Model& model) {
  std::set<std::string> names;
  const nlohmann::json& config = model.checkpoint.config();
  if (model.checkpoint.format() == Format::gguf) {
    for (const auto& [key, value] : config.items()) {
      if (key == "tokenizer.chat_template") names.insert("chat template");
      if (key.starts_with("tokenizer.ggml.")) names.insert("tokenizer");
    }
    return names;
  }
  for (const char* key : {"auto_map", "custom_pipelines"}) {
    if (config.is_object() && config.contains(key)) names.insert(fmt::format("{} (code)", key));
  }
  if (model.checkpoint.files().empty()) return names;
  if (io::is_url(model.checkpoint.files().front())) {
    names.insert("the other files of the remote folder (tokenizer, ...)");
    return names;
  }
  std::set<std::string> read;
  for (const auto& file : model.checkpoint.files()) read.insert(file.filename().string());
  const bool torch = read.begin()->ends_with(".bin");
  if (!read.contains(torch ? io::kTorchFile : io::kSingleFile)) {
    read.insert(torch ? io::kTorchIndexFile : io::kIndexFile);
  }
  std::error_code ignored;
  const bool is_folder = !model.checkpoint.folder().empty();
  const fs::path folder = model.checkpoint.files().front().parent_path();
  for (fs::directory_iterator at(folder.empty() ? fs::path(".") : folder, ignored), end;
       !ignored && at != end; at.increment(ignored)) {
    const std::string name = at->path().filename().string();
    std::error_code unknown;
    const bool other_weights = is_folder && holds_weights(name) && !read.contains(name);
    if (is_companion(name) || other_weights) names.insert(name);
    if (name == "chat_templates" && at->is_directory(unknown)) names.insert("chat_templates/");
  }
  return names;
}

// What transformers takes for generation from a config beside which there is no
// generation_config.json.
bool generate_alike(const Model& a, const Model& b) {
  static constexpr const char* kSettings[] = {"max_length",
                                              "min_length",
                                              "do_sample",
                                              "early_stopping",
                                              "num_beams",
                                              "temperature",
                                              "top_k",
                                              "top_p",
                                              "typical_p",
                                              "length_penalty",
                                              "repetition_penalty",
                                              "no_repeat_ngram_size",
                                              "bad_words_ids",
                                              "bos_token_id",
                                              "eos_token_id",
                                              "pad_token_id",
                                              "diversity_penalty",
                                              "num_beam_groups",
                                              "suppress_tokens",
                                              "begin_suppress_tokens",
                                              "exponential_decay_length_penalty",
                                              "num_return_sequences"};
  const auto in = [](const Model& model, const char* key) {
    const nlohmann::json& config = model.checkpoint.config();
    const bool hugging_face = model.checkpoint.format() == Format::safetensors;
    return hugging_face && config.is_object() ? config.value(key, nlohmann::json())
                                              : nlohmann::json();
  };
  return std::all_of(std::begin(kSettings), std::end(kSettings),
                     [&](const char* key) { return in(a, key) == in(b, key); });
}

// The type that transformers loads a model in, unless it is told another.
std::string loaded_as(const Model& model) {
  const nlohmann::json& config = model.checkpoint.config();
  if (model.checkpoint.format() != Format::safetensors || !config.is_object()) return "";
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (config.contains(key) && config[key].is_string()) return config[key].get<std::string>();
  }
  return "";
}

// How activations are quantised at run time, as the config.json says beside the weights.
std::string activations(const Model& model) {
  const auto files = model.checkpoint.opened_files();
  if (files.empty() || files.back().first != "config.json") return "";
  const Bytes bytes = files.back().second.bytes();
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const auto config = nlohmann::json::parse(text, text + bytes.size(), nullptr, false);
  if (!config.is_object() || !config.contains("quantization_config")) return "";
  const nlohmann::json& settings = config["quantization_config"];
  if (!settings.is_object()) return "";
  std::set<std::string> parts;
  const auto add = [&](const char* what, const nlohmann::json& value) {
    if (value.is_null()) return;
    parts.insert(value.is_string() ? fmt::format("{} {}", what, value.get<std::string>()) : what);
  };
  add("activations:", settings.value("activation_scheme", nlohmann::json()));
  add("key and value cache", settings.value("kv_cache_scheme", nlohmann::json()));
  add("key and value cache:", settings.value("kv_cache_quant_algo", nlohmann::json()));
  if (settings.value("load_in_8bit", nlohmann::json()) == true) parts.insert("activations: INT8");
  const nlohmann::json groups = settings.value("config_groups", nlohmann::json());
  if (groups.is_object()) {
    for (const auto& [name, group] : groups.items()) {
      if (!group.is_object()) continue;
      add("activations", group.value("input_activations", nlohmann::json()));
      add("outputs", group.value("output_activations", nlohmann::json()));
    }
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// Scales of activations that only one of the two has.
std::int64_t lone_scales(const Model& model, const Model& other) {
  return std::count_if(model.unread.begin(), model.unread.end(), [&](const std::string& name) {
    return is_activation_scale(name) && other.checkpoint.find(name) == nullptr;
  });
}

}  // namespace

std::vector<std::string> not_compared(const Model& a, const Model& b) {
  const std::set<std::string> in_a = beside(a), in_b = beside(b);
  std::set<std::string> all = in_a;
  all.insert(in_b.begin(), in_b.end());
  const std::string type_a = loaded_as(a), type_b = loaded_as(b);
  std::vector<std::string> names;
  const std::string quantised_a = activations(a), quantised_b = activations(b);
  for (const auto& [which, how] : {std::pair("A", quantised_a), std::pair("B", quantised_b)}) {
    const bool said = !how.empty() && (quantised_a != quantised_b || which[0] == 'A');
    if (said) names.push_back(fmt::format("what {} is quantised to when it runs ({})", which, how));
  }
  for (const auto& [which, count] :
       {std::pair("A", lone_scales(a, b)), std::pair("B", lone_scales(b, a))}) {
    if (count > 0) names.push_back(fmt::format("{} scales of activations in {}", count, which));
  }
  if (type_a != type_b && !type_a.empty() && !type_b.empty()) {
    names.push_back(
        fmt::format("the dtype that A is loaded in ({}) and that of B ({})", type_a, type_b));
  }
  const bool both_folders = a.checkpoint.format() == b.checkpoint.format();
  if (both_folders && !generate_alike(a, b))
    names.emplace_back("generation settings of the configs");
  if (all.empty() && names.empty()) return {};
  for (const auto& name : all) {
    const bool both = in_a.contains(name) && in_b.contains(name);
    names.push_back(both ? name : fmt::format("{} (in {})", name, in_a.contains(name) ? "A" : "B"));
  }
  std::string more;
  if (names.size() > kMostNamed) {
    more = fmt::format(" and {} more", names.size() - kMostNamed);
    names.resize(kMostNamed);
  }
  return {fmt::format("not compared: {}{}", fmt::join(names, ", "), more)};
}

}  // namespace regauge
