#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "config.h"
#include "config_kinds.h"
#include "family.h"
#include "io/companions.h"
#include "io/packings/unread.h"
#include "layout_builder.h"
#include "regauge/arch/layout.h"
#include "regauge/base/error.h"
#include "rope.h"

namespace regauge {
namespace {

using Json = nlohmann::json;

class FileTensors : public TensorSource {
 public:
  explicit FileTensors(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}
  const std::vector<std::int64_t>* shape(std::string_view name) const override {
    const StoredTensor* tensor = checkpoint_.find(name);
    return tensor == nullptr ? nullptr : &tensor->shape;
  }
  std::vector<double> values(std::string_view name) const override {
    const StoredTensor& tensor = checkpoint_.at(name);
    std::vector<double> result(static_cast<std::size_t>(tensor.elements()));
    checkpoint_.numbers(tensor).decode<double>(result);
    return result;
  }

 private:
  const Checkpoint& checkpoint_;
};

// The tensors that a layout would write.
class PlannedTensors : public TensorSource {
 public:
  explicit PlannedTensors(const Layout& layout) {
    for (const auto& stored : layout.stored()) shapes_[stored.name] = stored.shape;
    for (const auto& constant : layout.constants()) {
      shapes_[constant.name] = {static_cast<std::int64_t>(constant.values.size())};
      values_[constant.name] = constant.values;
    }
  }
  const std::vector<std::int64_t>* shape(std::string_view name) const override {
    const auto found = shapes_.find(name);
    return found == shapes_.end() ? nullptr : &found->second;
  }
  std::vector<double> values(std::string_view name) const override {
    const auto found = values_.find(name);
    return found == values_.end() ? std::vector<double>() : found->second;
  }

 private:
  std::map<std::string, std::vector<std::int64_t>, std::less<>> shapes_;
  std::map<std::string, std::vector<double>, std::less<>> values_;
};

// What a file made from `config` needs besides its parameters for its rotary frequencies to be
// right.
std::vector<Layout::Constant> divisors(const Family& family, const Architecture& architecture,
                                       const Json& config) {
  const Attention& attention = architecture.kinds.front().attention;
  if (!family.rope || family.rope->divisors.empty() || attention.rotary_frequencies.empty()) {
    return {};
  }
  std::vector<std::string> ignored;
  const Rope rope = read_rope(*family.rope, config, ignored);
  const std::vector<double> stated = scaled_frequencies(rope, attention.rotary_dims);
  Layout::Constant constant{family.rope->divisors, {}};
  bool needed = false;
  for (std::size_t b = 0; b < stated.size(); ++b) {
    const double divisor = stated[b] / attention.rotary_frequencies[b];
    needed = needed || std::abs(divisor - 1) > 1e-12;
    constant.values.push_back(divisor);
  }
  return needed ? std::vector<Layout::Constant>{constant} : std::vector<Layout::Constant>{};
}

std::vector<std::int64_t> without_ones(std::vector<std::int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

bool same_bytes(const Checkpoint& checkpoint, const StoredTensor& a, const StoredTensor& b) {
  return checkpoint.numbers(a).is_bit_equal(checkpoint.numbers(b), [&](std::size_t) {
    checkpoint.release(a);
    checkpoint.release(b);
  });
}

constexpr std::string_view kLayer = ".N.";

// "h.N.attn.bias" fits "h.3.attn.bias".
bool fits_layers(std::string_view pattern, std::string_view name) {
  const std::size_t at = pattern.find(kLayer);
  if (at == std::string_view::npos) return pattern == name;
  const std::string_view before = pattern.substr(0, at + 1);
  const std::string_view behind = pattern.substr(at + kLayer.size() - 1);
  if (name.size() <= before.size() + behind.size() || !name.starts_with(before) ||
      !name.ends_with(behind)) {
    return false;
  }
  const auto digits = name.substr(before.size(), name.size() - before.size() - behind.size());
  return digits.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_one_of(const std::vector<std::string>& patterns, const Family& family,
               std::string_view name) {
  constexpr std::string_view kPrefix = "{prefix}";
  for (const std::string& pattern : patterns) {
    for (const std::string& prefix : family.prefixes) {
      std::string full = pattern;
      if (full.starts_with(kPrefix)) full.replace(0, kPrefix.size(), prefix);
      if (fits_layers(full, name)) return true;
    }
  }
  return false;
}

bool is_dead(const Family& family, std::string_view name) {
  return is_one_of(family.dead, family, name) ||
         std::ranges::any_of(family.beside,
                             [&](const Family& other) { return is_dead(other, name); });
}

// What nothing reads in layers of some kinds, by its name in the file.
std::set<std::string, std::less<>> dead_in_layers(const Family& family, const Architecture& shape) {
  std::set<std::string, std::less<>> names;
  for (std::int64_t n = 0; n < shape.layers && !family.kinds.empty(); ++n) {
    const FamilyKind* kind = kind_for(family, shape.with_layers_like(n, shape.layers));
    if (kind == nullptr) continue;
    for (const std::string& pattern : kind->family.dead) {
      const std::size_t at = pattern.find(kLayer);
      if (at == std::string::npos) continue;
      for (const std::string& prefix : family.prefixes) {
        std::string name = pattern;
        name.replace(at, kLayer.size(), fmt::format(".{}.", n));
        constexpr std::string_view kPrefix = "{prefix}";
        if (name.starts_with(kPrefix)) name.replace(0, kPrefix.size(), prefix);
        names.insert(std::move(name));
      }
    }
  }
  return names;
}

void check_tensors(const Family& family, const Checkpoint& checkpoint, const Layout& layout) {
  std::vector<std::string> problems;
  for (const auto& stored : layout.stored()) {
    const StoredTensor* tensor = checkpoint.find(stored.name);
    if (tensor == nullptr) {
      const bool head = stored.parameters.front() == "head.weight";
      problems.push_back(fmt::format(
          "tensor '{}' is missing; it should be [{}]{}", stored.name, fmt::join(stored.shape, ", "),
          head ? " (if the head is the token table, the config must say that they are tied)" : ""));
      continue;
    }
    const io::UnreadPacking* unread = io::UnreadPacking::of(*tensor);
    const bool is_any_shape = unread != nullptr && tensor->shape.empty();
    if (!is_any_shape && without_ones(tensor->shape) != without_ones(stored.shape)) {
      problems.push_back(fmt::format("tensor '{}' is [{}]; the config asks for [{}]", stored.name,
                                     fmt::join(tensor->shape, ", "),
                                     fmt::join(stored.shape, ", ")));
      continue;
    }
    if (!is_floating(tensor->dtype) && !is_quantised(tensor->dtype)) {
      problems.push_back(fmt::format("tensor '{}' is {}; expected floating-point numbers",
                                     stored.name, tensor->type_name()));
      continue;
    }
    for (const auto& parameter : stored.parameters) {
      const StoredTensor* first = checkpoint.find(layout.holder(parameter).name);
      if (first == nullptr || first->type_name() == tensor->type_name() || !stored.copy_of.empty())
        continue;
      problems.push_back(
          fmt::format("tensor '{}' is {} and '{}', of another expert, {}; expected "
                      "one type for all experts of a layer",
                      stored.name, tensor->type_name(), first->name, first->type_name()));
    }
    const StoredTensor* original =
        stored.copy_of.empty() ? nullptr : checkpoint.find(stored.copy_of);
    if (original == nullptr || unread != nullptr) continue;
    if (!same_bytes(checkpoint, *original, *tensor)) {
      problems.push_back(fmt::format(
          "the config ties '{}' to '{}', but the file holds two different tensors; transformers 5 "
          "then uses both, transformers 4 only the second; say in the config that they are not "
          "tied, or remove the one that is not meant",
          stored.name, stored.copy_of));
    }
  }
  if (problems.empty()) return;
  for (const auto& tensor : checkpoint.tensors()) {
    if (const auto* unread = io::UnreadPacking::of(tensor)) throw UsageError(unread->reason());
  }
  const std::string where = fmt::format("[{}] {}: ", family.name, checkpoint.path().string());
  throw UsageError(where + fmt::format("{}", fmt::join(problems, "\n" + where)));
}

bool has_side(const Checkpoint& checkpoint, std::int64_t length) {
  return std::ranges::any_of(checkpoint.tensors(), [&](const StoredTensor& tensor) {
    return std::ranges::find(tensor.shape, length) != tensor.shape.end();
  });
}

// The folder is one of sentence-transformers, whose modules read the hidden states.
bool feeds_modules(const Checkpoint& checkpoint) {
  if (checkpoint.format() != Format::safetensors || checkpoint.files().empty()) return false;
  const std::filesystem::path folder = checkpoint.files().front().parent_path();
  io::module_folders(folder);  // refuses one that it cannot follow
  return io::has_modules(folder);
}

}  // namespace

Model Model::open(const std::filesystem::path& path) { return open(Checkpoint::open(path)); }

Model Model::open(Checkpoint opened) {
  Model model{std::move(opened), {}, {}, {}, {}, {}};
  const Checkpoint& checkpoint = model.checkpoint;
  if (checkpoint.config().is_null()) {
    throw UsageError(fmt::format(
        "[model] {}: a bare file of weights does not say what it computes; open the folder "
        "that holds it together with its config.json",
        checkpoint.path().string()));
  }
  const Family& family = recognise(checkpoint.config(), checkpoint.format());
  const FileTensors tensors(checkpoint);
  Declared declared = read_config(family, checkpoint.config(), tensors);
  model.architecture = std::move(declared.architecture);
  if (feeds_modules(checkpoint)) model.architecture.output.add(Output::hidden);
  model.not_understood = std::move(declared.not_understood);
  const auto tensor_count = static_cast<std::int64_t>(checkpoint.tensors().size());
  if (model.architecture.layers > tensor_count) {
    throw UsageError(fmt::format("[{}] {}: the config says {} layers, the file holds {} tensors",
                                 family.name, checkpoint.path().string(), model.architecture.layers,
                                 tensor_count));
  }
  for (const auto& kind : model.architecture.kinds) {
    const std::int64_t experts = kind.ffn.experts.count;
    if (experts == 0 || has_side(checkpoint, experts)) continue;
    throw UsageError(fmt::format(
        "[{}] {}: the config says {} experts, but no tensor (a router) has a side of that length",
        family.name, checkpoint.path().string(), experts));
  }
  std::vector<Variables> variables = {std::move(declared.variables)};
  for (auto& beside : declared.variables_beside) variables.push_back(std::move(beside));
  model.layout = LayoutBuilder::build_all(family, model.architecture, variables, &tensors, {});
  check_tensors(family, checkpoint, model.layout);
  std::set<std::string_view> claimed;
  for (const auto& stored : model.layout.stored()) claimed.insert(stored.name);
  const auto dead = dead_in_layers(family, model.architecture);
  for (const auto& tensor : checkpoint.tensors()) {
    if (claimed.contains(tensor.name)) continue;
    model.unclaimed.push_back(tensor.name);
    const bool setting = family.rope && (family.rope->divisors == tensor.name ||
                                         is_one_of(family.rope->frequencies, family, tensor.name));
    if (!setting && !is_apart(family, tensor.name, model.architecture.layers) &&
        !is_dead(family, tensor.name) && !dead.contains(tensor.name))
      model.unread.push_back(tensor.name);
  }
  return model;
}

template <class Scalar>
Matrix<Scalar> Model::read(std::string_view parameter, std::int64_t slice) const {
  return layout.extract<Scalar>(
      parameter,
      [this](const Layout::Home& home, std::span<Scalar> values) {
        numbers(home).decode<Scalar>(values);
      },
      slice);
}
template Matrix<float> Model::read(std::string_view, std::int64_t) const;
template Matrix<double> Model::read(std::string_view, std::int64_t) const;

Numbers Model::numbers(const Layout::Home& home) const {
  const StoredTensor& tensor = checkpoint.at(home.holder.name);
  if (const auto* packing = io::UnreadPacking::of(tensor)) throw UsageError(packing->reason());
  const Numbers all = checkpoint.numbers(tensor);
  const std::int64_t size = all.count() / home.holder.slices;
  return all.range(home.slice * size, size);
}

template <class Scalar>
Parameters<Scalar> read_parameters(const Model& model) {
  Parameters<Scalar> parameters;
  for (const auto& spec : parameter_specs(model.architecture)) {
    parameters.emplace(spec.name, model.read<Scalar>(spec.name));
  }
  return parameters;
}
template Parameters<float> read_parameters(const Model&);
template Parameters<double> read_parameters(const Model&);

Layout layout_for(const std::string& name, Format format, const Architecture& architecture,
                  const Json& base, const Checkpoint* like) {
  validate(architecture);
  const Family& family = family_of(name, format);
  const Json config = write_config(family, architecture, base);
  const Json said = with_stand_ins(family, base);
  std::vector<Variables> variables = {solve_variables(family, architecture, said)};
  for (std::size_t i = 0; i < std::min(family.beside.size(), architecture.beside.size()); ++i) {
    variables.push_back(solve_variables(family.beside[i], architecture.beside[i], said));
  }
  const auto file = like != nullptr ? std::make_optional<FileTensors>(*like) : std::nullopt;
  return LayoutBuilder::build_all(family, architecture, variables, file ? &*file : nullptr,
                                  divisors(family, architecture, config));
}

Layout layout_for(const std::string& name, Format format, const Architecture& architecture) {
  return layout_for(name, format, architecture, Json());
}

Json config_for(const std::string& name, Format format, const Architecture& architecture,
                const Json& base) {
  const Family& family = family_of(name, format);
  const Layout layout = layout_for(name, format, architecture, base);
  Json config = write_config(family, architecture, base);
  Architecture again = read_config(family, config, PlannedTensors(layout)).architecture;
  // Frequencies pass through theta, which costs a rounding, or that of a file that holds them.
  const bool held = family.rope && !family.rope->frequencies.empty();
  const double rounding = held ? 1e-6 : 1e-12;
  for (std::size_t kind = 0; kind < std::min(again.kinds.size(), architecture.kinds.size());
       ++kind) {
    const auto& wanted = architecture.kinds[kind].attention.rotary_frequencies;
    auto& found = again.kinds[kind].attention.rotary_frequencies;
    if (std::equal(wanted.begin(), wanted.end(), found.begin(), found.end(),
                   [&](double a, double b) { return std::abs(a - b) <= rounding * std::abs(a); })) {
      found = wanted;
    }
  }
  // That hidden states count, too, is said by the folder's modules.json.
  if (architecture.output.has(Output::hidden)) again.output.add(Output::hidden);
  const auto lost = differences(architecture, again);
  if (!lost.empty()) {
    throw UsageError(
        fmt::format("[config] family '{}' in {} cannot say (wanted / what it would mean):\n  {}",
                    name, format_name(format), fmt::join(lost, "\n  ")));
  }
  return config;
}

bool can_say(const std::string& name, Format format, const Architecture& architecture,
             const Json& base) {
  try {
    config_for(name, format, architecture, base);
  } catch (const UsageError&) {  // every rule of the data file may have an objection
    return false;
  }
  return true;
}

void declare_dtype(Json& config, DType dtype) {
  const char* name = dtype == DType::f32    ? "float32"
                     : dtype == DType::f16  ? "float16"
                     : dtype == DType::bf16 ? "bfloat16"
                                            : "float64";
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (config.contains(key)) config[key] = name;
  }
}

std::vector<std::string> families() {
  std::set<std::string> names;
  for (const auto& family : all_families()) names.insert(family.name());
  return {names.begin(), names.end()};
}

std::vector<std::string> families_for(Format format, const Architecture& architecture) {
  std::vector<std::string> names;
  for (const auto& family : all_families()) {
    if (family.format() != format) continue;
    if (can_say(family.name(), format, architecture, nullptr)) names.push_back(family.name());
  }
  return names;
}

}  // namespace regauge
