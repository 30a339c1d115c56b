#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

#include "io/packings/unread.h"
#include "print.h"
#include "regauge/arch/apart.h"
#include "regauge/arch/towers.h"
#include "regauge/io/remote.h"
#include "symmetry/factors.h"
#include "verb.h"

namespace regauge::cli {
namespace {

using Json = nlohmann::json;

// "4 heads (2 kv) of 6/6, feed-forward 27 gated silu"
std::string describe_maps(const Layer& layer, const Json& json) {
  const Attention& a = layer.attention;
  const Experts& e = layer.ffn.experts;
  std::string ffn = fmt::format("feed-forward {}", layer.ffn.width);
  if (e.count > 0) ffn = fmt::format("{} of {} experts of {}", e.active, e.count, layer.ffn.width);
  if (e.has_groups()) {
    ffn += fmt::format(" in {} of {} groups", e.active_groups, e.groups);
  }
  if (e.shared_width > 0) ffn += fmt::format(" and a shared one of {}", e.shared_width);
  if (e.own_norms) ffn += ", each between norms of its own,";
  const DeltaNet& d = layer.delta;
  std::string heads =
      layer.has_delta()
          ? fmt::format("delta net of {} value heads ({} key heads) of {}/{}, kernel {}",
                        d.value_heads, d.key_heads, d.key_width, d.value_width, d.kernel)
          : fmt::format("{} heads ({} kv) of {}/{}", a.heads, a.kv_heads, a.qk_width, a.v_width);
  if (a.has_latents()) heads += fmt::format(" from a latent of {}", a.kv_latent);
  if (a.q_latent > 0) heads += fmt::format(", queries from one of {}", a.q_latent);
  if (!layer.has_ffn()) return heads + ", no feed-forward";
  return fmt::format("{}, {} {}{}", heads, ffn, layer.ffn.gated ? "gated " : "",
                     json.at("activation").get<std::string>());
}

std::string describe_positions(const Layer& layer, const Json& json) {
  const Attention& a = layer.attention;
  std::string text = json.at("positions").get<std::string>();
  if (a.positions == Positions::rotary && a.rotary_dims < a.qk_width) {
    text += fmt::format(" ({} of {} coordinates)", a.rotary_dims, a.qk_width);
  }
  if (a.shares_table) text += " (the table of the stack's first layer)";
  return text;
}

std::string describe_rest(const Layer& layer) {
  const bool joint = layer.attention.qk_norm == QkNorm::joint;
  return fmt::format(
      "{}{}{}{}{}{}{}{}{}{}", layer.attention.cross ? ", reads the encoder" : "",
      layer.attention.has_qk_norm() ? joint ? ", qk-norm of all heads" : ", qk-norm" : "",
      layer.attention.value_norm ? ", norm of values" : "",
      layer.attention.keys_as_values ? ", keys as values" : "",
      layer.attention.shares_keys ? ", keys and values of an earlier layer" : "",
      layer.attention.gate ? ", output gate" : "", layer.parallel ? ", parallel block" : "",
      layer.shared_norm ? " with one norm" : "", layer.layer_scale ? ", layer scales" : "",
      layer.stream_scale ? ", scale of the stream" : "");
}

void print_shape_alone(const Architecture& a) {
  const Json json = to_json(a);
  const std::string stacks =
      a.encoder_layers > 0 ? fmt::format(" ({} of the encoder)", a.encoder_layers) : "";
  const auto some = [](std::int64_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  const std::string registers = a.registers > 0 ? ", " + some(a.registers, "register") : "";
  const std::string deep =
      a.deep_inputs > 0 ? ", further ones behind the first " + some(a.deep_inputs, "layer") : "";
  const std::string vectors =
      a.encodes_vectors()
          ? fmt::format(", the encoder reads vectors of {} through {}", a.input_width,
                        some(static_cast<std::int64_t>(a.convolutions.size()), "convolution"))
      : a.input == Input::tokens && a.input_width > 0
          ? fmt::format(", vectors of {} among the tokens{}", a.input_width, deep)
          : "";
  const std::string tables =
      a.has_tables() ? fmt::format(", a table of {} in each layer", a.table_width) : "";
  const std::string layers = fmt::format("{}{}, width {}{}{}{}", some(a.layers, "layer"), stacks,
                                         a.width, registers, vectors, tables);
  const std::string norm = fmt::format("{} norm ({}, eps {:g})", json["norm"].get<std::string>(),
                                       json["placement"].get<std::string>(), a.norm_eps);
  const Json& outputs = json["output"];
  const std::string output =
      fmt::format("output {}{}",
                  outputs.is_array()
                      ? fmt::format("{}", fmt::join(outputs.get<std::vector<std::string>>(), ", "))
                      : outputs.get<std::string>(),
                  a.tied ? " (tied)" : "");
  if (a.pattern.empty()) {
    const Layer& layer = a.kinds.front();
    answer("  {}, {}\n", layers, describe_maps(layer, json));
    answer("  positions {}, {}{}, {}\n", describe_positions(layer, json), norm,
           describe_rest(layer), output);
    return;
  }
  answer("  {}, {}, {}\n", layers, norm, output);
  for (std::size_t kind = 0; kind < a.kinds.size(); ++kind) {
    std::vector<std::size_t> where;
    for (std::size_t n = 0; n < a.pattern.size(); ++n) {
      if (a.pattern[n] == static_cast<std::int64_t>(kind)) where.push_back(n);
    }
    const Layer& layer = a.kinds[kind];
    const Json alike = to_json(a.with_layers_like(static_cast<std::int64_t>(where.front()), 1));
    answer("  layer{} {}:\n", where.size() == 1 ? "" : "s",
           fmt::format("{}", fmt::join(where, ", ")));
    answer("    {}, positions {}{}{}\n", describe_maps(layer, alike),
           describe_positions(layer, alike), describe_rest(layer),
           layer.attention.window > 0 ? fmt::format(", window {}", layer.attention.window) : "");
  }
}

void print_shape(const Architecture& a) {
  for (const Tower& tower : towers_of(a)) {
    if (!tower.prefix.empty()) answer("  beside it a model with\n");
    print_shape_alone(tower.architecture);
  }
}

// Keys and tensors that may change the function and were not looked at.
void print_not_understood(const Model& model) {
  constexpr std::size_t kLongest = 60;
  constexpr std::size_t kMost = 20;
  for (const auto& [key, value] : model.not_understood) {
    answer("  not understood: key {} = {}\n", key,
           value.size() <= kLongest ? value : value.substr(0, kLongest) + "...");
  }
  for (std::size_t i = 0; i < std::min(kMost, model.unread.size()); ++i) {
    answer("  not read: tensor {}\n", model.unread[i]);
  }
  if (model.unread.size() > kMost) {
    answer("  not read: {} tensors more\n", model.unread.size() - kMost);
  }
  if (const Apart apart = apart_of(model); !apart.tensors.empty()) {
    answer("  {} tensors of other parts, {} among them, are never moved and compared bit by bit\n",
           apart.tensors.size(), apart.tensors.front());
  }
}

// The tensors whose numbers are held in a way that is not read, by its name.
std::map<std::string, std::vector<std::string>> unread_types(const Model& model) {
  std::map<std::string, std::vector<std::string>> types;
  for (const StoredTensor& tensor : model.checkpoint.tensors()) {
    if (io::UnreadPacking::of(tensor) != nullptr) types[tensor.type_name()].push_back(tensor.name);
  }
  return types;
}

void print_unread_types(const Model& model) {
  for (const auto& [type, tensors] : unread_types(model)) {
    answer("  not read: the numbers of {} tensors of type {}, {} among them\n", tensors.size(),
           type, tensors.front());
  }
}

// What a remote model has cost so far.
void print_traffic() {
  const RemoteTraffic traffic = remote_traffic();
  if (traffic.requests == 0) return;
  answer("  fetched {} in {} requests{}\n", format_bytes(static_cast<double>(traffic.fetched)),
         traffic.requests,
         traffic.cached == 0 ? ""
                             : fmt::format("; {} were in the cache",
                                           format_bytes(static_cast<double>(traffic.cached))));
}

void print_text(const Model& model, const Symmetry& symmetry) {
  const Architecture& a = model.architecture;
  const std::int64_t parameters = parameter_count(a);
  answer("{}: {} in {}\n", model.checkpoint.path().string(), model.layout.family(),
         format_name(model.layout.format()));
  print_shape(a);
  print_not_understood(model);
  print_unread_types(model);
  print_traffic();
  answer("\n  {:<30} {:<26} {:>6} {:>14} {:>14}\n", "factor", "group", "times", "dimension",
         "components");
  for (const Factor& line : factors_of(symmetry)) {
    answer("  {:<30} {:<26} {:>6} {:>14} {:>14}\n", line.name, line.group, line.times,
           line.dimension,
           line.log2_components == 0 ? "" : fmt::format("2^{:.0f}", line.log2_components));
  }
  answer(
      "  O: rotations; GL: invertible matrices; R*, C*: nonzero numbers; wr S: permuted; R^n: "
      "vectors "
      "to add\n");
  if (std::any_of(symmetry.shifts.begin(), symmetry.shifts.end(),
                  [](const Shift& shift) { return shift.depends_on_values; })) {
    answer("  counted: along directions that depend on the weights; act leaves them alone\n");
  }
  const auto dimension = symmetry.dimension();
  answer("\n  parameters    {:>16}\n", parameters);
  answer("  redundant     {:>16}  ({:.3g} %)\n", dimension,
         100.0 * static_cast<double>(dimension) / static_cast<double>(parameters));
  answer("  identifiable  {:>16}\n", parameters - dimension);
  answer("  discrete      {:>16}\n", fmt::format("2^{:.0f}", symmetry.log2_components()));
  if (a.norm_eps > 0) {
    answer(
        "  The norms' eps is not 0: scalings of a normed vector are only approximate and not "
        "counted.\n");
  }
}

Json as_json(const Model& model, const Symmetry& symmetry) {
  Json factors = Json::array();
  for (const auto& space : symmetry.spaces) {
    factors.push_back({{"name", space.name},
                       {"category", category_name(space.category)},
                       {"group", space.group_name()},
                       {"dimension", space.dimension()},
                       {"log2_components", space.log2_components()}});
  }
  for (const auto& shift : symmetry.shifts) {
    factors.push_back({{"name", shift.name},
                       {"category", category_name(Category::shifts)},
                       {"group", fmt::format("R^{}", shift.dimension)},
                       {"dimension", shift.dimension},
                       {"log2_components", 0},
                       {"depends_on_values", shift.depends_on_values}});
  }
  const auto parameters = parameter_count(model.architecture);
  Json not_understood = Json::object();
  for (const auto& [key, value] : model.not_understood) not_understood[key] = Json::parse(value);
  Json apart_keys = Json::object();
  const Apart apart = apart_of(model);
  for (const auto& [key, value] : apart.keys) apart_keys[key] = Json::parse(value);
  const RemoteTraffic traffic = remote_traffic();
  return {{"path", model.checkpoint.path().string()},
          {"fetched", {{"requests", traffic.requests}, {"bytes", traffic.fetched}}},
          {"family", model.layout.family()},
          {"format", format_name(model.layout.format())},
          {"architecture", to_json(model.architecture)},
          {"factors", factors},
          {"parameters", parameters},
          {"redundant", symmetry.dimension()},
          {"identifiable", parameters - symmetry.dimension()},
          {"log2_components", symmetry.log2_components()},
          {"unclaimed", model.unclaimed},
          {"unread", model.unread},
          {"unread_types", unread_types(model)},
          {"apart", apart.tensors},
          {"apart_keys", apart_keys},
          {"not_understood", not_understood}};
}

}  // namespace

void add_inspect(CLI::App& app, int& exit_code) {
  struct Options {
    std::string model;
    bool json = false;
    bool exact = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand(
      "inspect",
      "Show what a model is, and which changes of its parameters leave its function the same");
  verb->add_option("MODEL", options->model, "folder, file, https:// or hf://org/name@revision")
      ->required();
  verb->add_flag("--json", options->json, "everything, factor by factor, as JSON");
  verb->add_flag("--without-eps", options->exact,
                 "count as if the norms' eps were 0, as the dimension formulas do");
  verb->callback([options, &exit_code] {
    Model model = Model::open(options->model);
    if (options->exact) model.architecture.norm_eps = 0;
    for (auto& beside : model.architecture.beside) {
      if (options->exact) beside.norm_eps = 0;
    }
    const Symmetry symmetry = symmetry_of(model.architecture);
    if (options->json) {
      answer_json(as_json(model, symmetry));
    } else {
      print_text(model, symmetry);
    }
    exit_code = 0;
  });
}

}  // namespace regauge::cli
