#include "regauge/arch/joint_architecture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "regauge/base/error.h"

namespace regauge {
namespace {

using Bias = bool& (*)(Layer&);
constexpr std::array<std::pair<const char*, Bias>, 7> kBiases = {
    {{"q", [](Layer& layer) -> bool& { return layer.attention.biases.q; }},
     {"k", [](Layer& layer) -> bool& { return layer.attention.biases.k; }},
     {"v", [](Layer& layer) -> bool& { return layer.attention.biases.v; }},
     {"o", [](Layer& layer) -> bool& { return layer.attention.biases.o; }},
     {"the gate", [](Layer& layer) -> bool& { return layer.ffn.biases.gate; }},
     {"up", [](Layer& layer) -> bool& { return layer.ffn.biases.up; }},
     {"down", [](Layer& layer) -> bool& { return layer.ffn.biases.down; }}}};

bool has(Layer layer, Bias bias) { return bias(layer); }

// The same without a pooler that is an output of its own.
Architecture without_pooler(Architecture a) {
  const std::vector<Output> outputs = a.output.list();
  if (!a.output.has(Output::pooled) || a.classes_pooled || outputs.size() == 1) return a;
  a.output = outputs.front();  // the pooler stands last
  for (const Output output : outputs) {
    if (output != Output::pooled) a.output.add(output);
  }
  a.pooler = false;
  a.pooler_activation = Activation::tanh;
  return a;
}

// What both declare, as far as outputs go: without the pooler of only one of them, and with the
// hidden states, which every model has, where they count for one.
std::pair<Architecture, Architecture> with_shared_outputs(Architecture a, Architecture b) {
  if (a.pooler != b.pooler) {
    a = without_pooler(std::move(a));
    b = without_pooler(std::move(b));
  }
  if (a.output.has(Output::hidden)) b.output.add(Output::hidden);
  if (b.output.has(Output::hidden)) a.output.add(Output::hidden);
  return {std::move(a), std::move(b)};
}

}  // namespace

std::vector<std::string> architecture_differences(const Architecture& a, const Architecture& b) {
  std::set<std::string> ignored = {"tied", "biases", "norm_bias", "input_bias"};
  if (a.input == Input::tokens && b.input == Input::tokens) ignored.insert("vocabulary");
  // Without a table the context length is a promise, not a part of the function.
  if (!a.has_position_table() && !b.has_position_table()) ignored.insert("max_positions");
  std::vector<std::string> differences;
  const auto [like_a, like_b] = with_shared_outputs(a.alone(), b.alone());
  for (const auto& difference : differing_fields(like_a, like_b)) {
    if (ignored.contains(difference.field)) continue;
    differences.push_back(fmt::format("{}{}: {} and {}", difference.where(), difference.field,
                                      difference.a, difference.b));
  }
  if (a.beside.size() != b.beside.size()) {
    differences.push_back(
        fmt::format("only {} has another model beside", a.beside.empty() ? "B" : "A"));
  } else if (!a.beside.empty()) {
    for (auto& line : architecture_differences(a.beside.front(), b.beside.front())) {
      differences.push_back("beside: " + std::move(line));
    }
  }
  return differences;
}

Architecture require_joint_architecture(const Architecture& a, const Architecture& b) {
  const auto differences = architecture_differences(a, b);
  if (!differences.empty()) {
    throw UsageError(fmt::format("the models differ in what they compute:\n  {}",
                                 fmt::join(differences, "\n  ")));
  }
  return joint_architecture(a, b);
}

std::vector<std::string> output_differences(const Architecture& a, const Architecture& b) {
  if (a.pooler == b.pooler) return {};
  return {fmt::format("only {} has a pooler: it is not compared", a.pooler ? "A" : "B")};
}

Architecture joint_architecture(const Architecture& a, const Architecture& b) {
  Architecture joint = with_shared_outputs(a, b).first;
  joint.tied = a.tied && b.tied;
  joint.vocabulary = std::min(a.vocabulary, b.vocabulary);
  joint.norm_bias = a.norm_bias || b.norm_bias;
  joint.input_bias = a.input_bias || b.input_bias;
  joint.head_bias = a.head_bias || b.head_bias;
  std::vector<Layer> layers;
  for (std::int64_t n = 0; n < a.layers; ++n) {
    Layer layer = a.layer(n);
    for (const auto& [name, bias] : kBiases) bias(layer) = bias(layer) || has(b.layer(n), bias);
    layers.push_back(std::move(layer));
  }
  joint.set_layers(layers);
  for (std::size_t i = 0; i < joint.beside.size(); ++i) {
    joint.beside[i] = joint_architecture(a.beside[i], b.beside[i]);
  }
  return joint;
}

std::vector<std::string> declaration_differences(const Architecture& a, const Architecture& b) {
  std::vector<std::string> lines;
  const auto one_has = [&](bool in_a, bool in_b, const char* what) {
    if (in_a != in_b) lines.push_back(fmt::format("only {} {}", in_a ? "A" : "B", what));
  };
  one_has(a.tied, b.tied, "declares its head tied to the token table");
  one_has(a.output.has(Output::hidden), b.output.has(Output::hidden),
          "declares that its hidden states count: they are compared as they are");
  one_has(a.norm_bias, b.norm_bias, "has norm biases");
  one_has(a.input_bias, b.input_bias, "has an input bias");
  for (const auto& [name, bias] : kBiases) {
    bool in_a = false, in_b = false;
    for (const auto& kind : a.kinds) in_a = in_a || has(kind, bias);
    for (const auto& kind : b.kinds) in_b = in_b || has(kind, bias);
    one_has(in_a, in_b, fmt::format("has a bias of {}", name).c_str());
  }
  one_has(a.head_bias, b.head_bias, "has a bias of the head");
  if (!a.beside.empty() && !b.beside.empty()) {
    for (auto& line : declaration_differences(a.beside.front(), b.beside.front())) {
      lines.push_back("beside: " + std::move(line));
    }
  }
  return lines;
}

}  // namespace regauge
