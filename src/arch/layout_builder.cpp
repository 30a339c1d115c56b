#include "layout_builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "config_kinds.h"
#include "config_path.h"
#include "config_value.h"
#include "fields.h"
#include "formula.h"
#include "names.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

constexpr std::string_view kExpert = ".E.";  // in a name: the expert's number

std::string pattern_of(const ParameterSpec& spec) { return across_layers(spec.name, 'N'); }

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  if (const std::size_t at = text.find(from); at != std::string::npos)
    text.replace(at, from.size(), to);
  return text;
}

bool ends_with_any(std::string_view text, std::initializer_list<std::string_view> ends) {
  for (const auto end : ends) {
    if (text.ends_with(end)) return true;
  }
  return false;
}

bool is_vector(std::string_view parameter) { return ends_with_any(parameter, {".gain", ".bias"}); }

// A tensor for every expert, or one in which all stand one after another.
bool is_by_expert(const TensorEntry& entry) {
  return entry.names.front().find(kExpert) != std::string::npos;
}
bool is_of_experts(const TensorEntry& entry) { return entry.stacked || is_by_expert(entry); }

// The parameters whose columns are the coordinates of query or key heads, or of their rotating
// part.
bool is_rotated(std::string_view parameter, bool apart) {
  if (apart) return ends_with_any(parameter, {".attn.q_rotary.weight", ".attn.k_rotary.weight"});
  return ends_with_any(parameter, {".attn.q.weight", ".attn.k.weight", ".attn.q.bias",
                                   ".attn.k.bias", ".attn.q_norm.gain", ".attn.k_norm.gain"});
}

// The axis of value heads that a delta net's parameter has, if any, in the order that the file has.
void set_tiles(auto& part, std::string_view parameter, const DeltaNet& delta) {
  const bool rows = parameter.ends_with(".delta.o.weight");
  const bool wide = rows || ends_with_any(parameter, {".delta.v.weight", ".delta.z.weight",
                                                      ".delta.v_conv.weight"});
  const bool narrow = ends_with_any(
      parameter, {".delta.a.weight", ".delta.b.weight", ".delta.a.bias", ".delta.decay"});
  if ((!wide && !narrow) || delta.group() == 1) return;
  part.tile_heads = delta.key_heads;
  part.tile_group = delta.group();
  part.tile_width = wide ? delta.value_width : 1;
  part.tiles_rows = rows;
}

}  // namespace

LayoutBuilder::LayoutBuilder(const Family& family, const Architecture& architecture,
                             const Variables& variables, const TensorSource* file)
    : family_(family), architecture_(architecture), variables_(variables), file_(file) {
  for (const auto& kind : architecture.kinds) {
    Architecture uniform = architecture;
    uniform.kinds = {kind};
    uniform.pattern.clear();
    fields_.push_back(flat_fields(uniform));
    const FamilyKind* of_kind = family.kinds.empty() ? nullptr : kind_for(family, uniform);
    families_.push_back(of_kind == nullptr ? &family : &of_kind->family);
  }
  layout_.family_ = family.name;
  layout_.format_ = family.format;
}

// Where parameters live. An entry that applies to some models alone goes before one for all, and an
// alternative before both where the file has it.
void LayoutBuilder::find_homes() {
  for (std::size_t kind = 0; kind < families_.size(); ++kind) {
    Homes& homes = homes_.emplace_back();
    const auto value_of = [&](const std::string& name) { return fields_[kind].at(name); };
    std::int64_t first = 0;
    while (kind_of(first) != kind) ++first;
    for (const int rank : {0, 1, 2}) {
      for (const auto& entry : families_[kind]->tensors) {
        const bool alternative = entry.alternative;
        const int own = alternative ? 2 : entry.when.any.empty() ? 0 : 1;
        if (own != rank || !entry.when.applies(value_of)) continue;
        const std::string name = instance(replaced(entry.names.front(), ".E.", ".0."), first);
        if (alternative && (file_ == nullptr || file_->shape(name) == nullptr)) continue;
        for (const auto& parameter : entry.holds) {
          if (!entry.rows.empty()) homes.pieces[parameter].push_back(&entry);
          auto& some = is_of_experts(entry) ? homes.of_experts : homes.others;
          some[parameter] = &entry;
        }
      }
    }
  }
}

std::size_t LayoutBuilder::kind_of(std::int64_t layer) const {
  if (layer < 0 || architecture_.pattern.empty()) return 0;
  return static_cast<std::size_t>(architecture_.pattern.at(static_cast<std::size_t>(layer)));
}

const TensorEntry* LayoutBuilder::home_of(const std::string& pattern, std::int64_t layer,
                                          bool of_experts) const {
  const Homes& homes = homes_.at(kind_of(layer));
  for (const auto* some : {&homes.of_experts, &homes.others}) {
    if (some == &homes.of_experts && !of_experts) continue;
    if (const auto found = some->find(pattern); found != some->end()) return found->second;
  }
  return nullptr;
}

std::string LayoutBuilder::instance(const std::string& pattern, std::int64_t layer) const {
  std::int64_t n = layer;
  if (const std::string& formula = families_.at(kind_of(layer))->number; !formula.empty()) {
    n = static_cast<std::int64_t>(evaluate_formula(formula, [&](const std::string& name) {
      return name == "layer" ? static_cast<double>(layer) : number(name, layer);
    }));
  }
  return replaced(replaced(pattern, "{prefix}", prefix_), ".N.", fmt::format(".{}.", n));
}

// The prefix under which the file has most of the expected names; the first when there is no file.
void LayoutBuilder::choose_prefix() {
  prefix_ = family_.prefixes.front();
  if (file_ == nullptr) return;
  std::size_t most = 0;
  std::string best = prefix_;
  for (const auto& prefix : family_.prefixes) {
    prefix_ = prefix;
    std::size_t found = 0;
    for (const auto& entry : family_.tensors) {
      for (const auto& name : entry.names) {
        if (file_->shape(instance(replaced(name, ".E.", ".0."), 0)) != nullptr) ++found;
      }
    }
    if (found > most) {
      most = found;
      best = prefix;
    }
  }
  prefix_ = best;
}

Layout LayoutBuilder::build(std::vector<Layout::Constant> constants) && {
  choose_prefix();
  find_homes();
  const std::vector<ParameterSpec> specs = parameter_specs(architecture_);
  for (const auto& spec : specs) specs_[spec.name] = spec;
  std::vector<std::string> homeless;
  const auto of_experts = [&](const ParameterSpec& spec) {
    return spec.layer >= 0 && architecture_.layer(spec.layer).ffn.experts.count > 0;
  };
  for (const auto& spec : specs) {
    if (layout_.parts_.contains(spec.name)) continue;
    if (family_.canonical) {
      add_canonical(spec);
    } else if (const TensorEntry* home = home_of(pattern_of(spec), spec.layer, of_experts(spec))) {
      add_tensors(*home, spec);
    } else if (std::ranges::find(homeless, pattern_of(spec)) == homeless.end()) {
      homeless.push_back(pattern_of(spec));
    }
  }
  if (!homeless.empty()) {
    problems_.push_back(fmt::format("has no place for {}", fmt::join(homeless, ", ")));
  }
  if (!problems_.empty()) {
    const std::string where =
        fmt::format("[layout] family '{}' in {} ", family_.name, format_name(family_.format));
    throw UsageError(where + fmt::format("{}", fmt::join(problems_, "\n" + where)));
  }
  add_tied_copy();
  layout_.constants_ = std::move(constants);
  return std::move(layout_);
}

Layout LayoutBuilder::build_all(const Family& family, const Architecture& architecture,
                                const std::vector<Variables>& variables, const TensorSource* file,
                                std::vector<Layout::Constant> constants) {
  if (family.canonical || (family.beside.empty() && architecture.beside.empty())) {
    return LayoutBuilder(family, architecture, variables.front(), file).build(std::move(constants));
  }
  if (family.beside.empty() != architecture.beside.empty()) {
    throw UsageError(fmt::format(
        "[layout] family '{}' in {} has {}", family.name, format_name(family.format),
        family.beside.empty() ? "no place for a model beside" : "two models side by side"));
  }
  const std::vector<Tower> towers = towers_of(architecture);
  Layout all = LayoutBuilder(family, towers.front().architecture, variables.front(), file)
                   .build(std::move(constants));
  join(all,
       LayoutBuilder(family.beside.front(), towers.back().architecture, variables.back(), file)
           .build({}),
       towers.back());
  return all;
}

// What holds the parameters of a model beside, under their names among all.
void LayoutBuilder::join(Layout& all, const Layout& beside, const Tower& tower) {
  const std::size_t first = all.stored_.size();
  for (Layout::Stored stored : beside.stored_) {
    for (auto& parameter : stored.parameters) parameter = tower.among_all(parameter);
    all.stored_.push_back(std::move(stored));
  }
  for (const auto& [parameter, parts] : beside.parts_) {
    auto& among_all = all.parts_[tower.among_all(parameter)] = parts;
    for (Layout::Part& part : among_all) part.holder += first;
  }
}

void LayoutBuilder::add_canonical(const ParameterSpec& spec) {
  Layout::Part part;
  part.holder = layout_.stored_.size();
  part.rows = spec.rows;
  part.cols = part.width = spec.cols;
  std::vector<std::int64_t> shape = {spec.rows, spec.cols};
  if (is_vector(spec.name) && spec.rows == 1) shape = {spec.cols};
  layout_.stored_.push_back({spec.name, shape, {spec.name}});
  layout_.parts_[spec.name] = {part};
}

// What an entry holds for a layer; of all layers that have it, side by side, where the tensor's
// name speaks of none.
std::vector<std::string> LayoutBuilder::held_by(const TensorEntry& entry,
                                                std::int64_t layer) const {
  const bool of_one = entry.names.front().find(".N.") != std::string::npos;
  std::vector<std::string> parameters;
  for (const auto& pattern : entry.holds) {
    const bool has_layers = pattern.find(".N.") != std::string::npos;
    for (std::int64_t n = 0; has_layers && !of_one && n < architecture_.layers; ++n) {
      std::string parameter = replaced(pattern, ".N.", fmt::format(".{}.", n));
      if (specs_.contains(parameter)) parameters.push_back(std::move(parameter));
    }
    if (of_one || !has_layers) {
      parameters.push_back(replaced(pattern, ".N.", fmt::format(".{}.", layer)));
    }
  }
  return parameters;
}

// A tensor for every expert, or for some rows, or one for all.
void LayoutBuilder::add_tensors(const TensorEntry& entry, const ParameterSpec& spec) {
  if (!entry.rows.empty()) {
    const Homes& homes = homes_.at(kind_of(spec.layer));
    for (const TensorEntry* piece : homes.pieces.at(entry.holds.front())) {
      add_tensor(*piece, spec.layer, "");
    }
    return;
  }
  if (!is_by_expert(entry)) return add_tensor(entry, spec.layer, "");
  for (std::int64_t expert = 0; expert < spec.slices; ++expert) {
    add_tensor(entry, spec.layer, fmt::format(".{}.", expert));
  }
}

void LayoutBuilder::add_tensor(const TensorEntry& entry, std::int64_t layer,
                               const std::string& expert) {
  const auto named = [&](const std::string& pattern) {
    return instance(expert.empty() ? pattern : replaced(pattern, kExpert, expert), layer);
  };
  Layout::Stored stored;
  stored.name = named(entry.names.front());
  if (file_ != nullptr) {
    for (auto name = entry.names.rbegin(); name != entry.names.rend(); ++name) {
      if (file_->shape(named(*name)) != nullptr) stored.name = named(*name);
    }
  }
  const std::size_t holder = layout_.stored_.size();
  const auto groups =
      entry.groups.empty() ? 1 : static_cast<std::int64_t>(number(entry.groups, layer));
  std::int64_t total = 0;
  std::vector<Layout::Part> parts;
  for (const auto& parameter : held_by(entry, layer)) {
    const std::string pattern = across_layers(parameter, 'N');
    const auto spec = specs_.find(parameter);
    if (spec == specs_.end()) {
      add_problem(fmt::format("fuses {} in one tensor, so it needs all or none; '{}' is missing",
                              fmt::join(entry.holds, ", "), pattern));
      return;
    }
    Layout::Part part;
    part.holder = holder;
    part.rows = spec->second.rows;
    part.cols = spec->second.cols;
    if (!expert.empty()) {
      const std::int64_t index = static_cast<std::int64_t>(layout_.parts_[parameter].size());
      auto& size = spec->second.sliced_rows ? part.rows : part.cols;
      size /= spec->second.slices;
      (spec->second.sliced_rows ? part.row : part.col) = index * size;
    }
    if (!entry.rows.empty()) {
      part.row = size(entry.rows[0], layer);
      part.rows = size(entry.rows[1], layer);
    }
    part.groups = groups;
    part.begin = total / std::max<std::int64_t>(1, groups);
    part.transposed = parameter.ends_with(".weight") &&
                      entry.orientation.value_or(family_.linear) == Orientation::out_in &&
                      !is_turned(entry, stored.name, layer);
    part.minus_exp = entry.minus_exp;
    if (family_.tiled_value_heads && layer >= 0) {
      set_tiles(part, parameter, architecture_.layer(layer).delta);
    }
    if (!entry.matrices.empty()) {
      part.matrices = static_cast<std::int64_t>(number(entry.matrices, layer));
    }
    if (family_.half_pairs && layer >= 0) {
      const Attention& attention = architecture_.layer(layer).attention;
      const bool apart = attention.has_latents();
      // Values that are keys have the order of keys.
      part.heads_in_rows = attention.keys_as_values && parameter.ends_with(".attn.o.weight");
      if (part.heads_in_rows || is_rotated(parameter, apart)) {
        part.rotary_dims = attention.rotary_dims;
      }
      if (part.rotary_dims > 0) part.head_width = apart ? part.rotary_dims : attention.qk_width;
    }
    if (parameter.ends_with(".gain")) {
      part.offset = entry.gain_offset.value_or(family_.gain_offset);
    }
    if (!entry.first_row.is_null()) {  // rows lie one behind the other: it begins that much later
      part.begin = size(entry.first_row, layer) * part.cols;
    }
    if (part.matrices <= 0 || part.cols % part.matrices != 0 || groups <= 0 ||
        part.cols % groups != 0) {
      add_problem(
          fmt::format("cannot cut {} columns of '{}' into {} groups", part.cols, pattern, groups));
      return;
    }
    total += part.cols;
    parts.push_back(part);
    stored.parameters.push_back(parameter);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].width = total / std::max<std::int64_t>(1, parts[i].matrices);
    auto& all = layout_.parts_[stored.parameters[i]];
    const ParameterSpec& spec = specs_.at(stored.parameters[i]);
    if (entry.stacked) {
      stored.slices = spec.slices;
      add_stacked(parts[i], spec, all);
    } else {
      all.push_back(parts[i]);
    }
  }
  stored.shape = shape_of(entry, layer, parts.front(), is_vector(entry.holds.front()));
  if (is_turned(entry, stored.name, layer)) std::swap(stored.shape[1], stored.shape[2]);
  layout_.stored_.push_back(std::move(stored));
  if (expert.empty()) add_copies(entry, layer, holder);
}

// Experts' matrices that the file has the other way round than the shape says. transformers takes
// both, too, and where the sides are equal what it writes itself.
bool LayoutBuilder::is_turned(const TensorEntry& entry, const std::string& name,
                              std::int64_t layer) const {
  const std::vector<std::int64_t>* shape = file_ == nullptr ? nullptr : file_->shape(name);
  if (!entry.either_way || shape == nullptr || shape->size() != 3) return false;
  const std::int64_t rows = size(entry.shape[1], layer), cols = size(entry.shape[2], layer);
  return rows != cols && (*shape)[1] == cols && (*shape)[2] == rows;
}

// Experts one after another in one tensor, each a matrix of its own.
void LayoutBuilder::add_stacked(Layout::Part part, const ParameterSpec& spec,
                                std::vector<Layout::Part>& slices) {
  if (spec.sliced_rows) {
    part.rows /= spec.slices;
  } else {
    part.cols /= spec.slices;
    part.width /= spec.slices;
    part.begin /= spec.slices;
  }
  for (part.slice = 0; part.slice < spec.slices; ++part.slice) {
    (spec.sliced_rows ? part.row : part.col) =
        part.slice * (spec.sliced_rows ? part.rows : part.cols);
    slices.push_back(part);
  }
}

// Other names of the entry that the file has besides the holder.
void LayoutBuilder::add_copies(const TensorEntry& entry, std::int64_t layer, std::size_t holder) {
  if (file_ == nullptr) return;
  for (const auto& pattern : entry.names) {
    Layout::Stored copy = layout_.stored_[holder];
    copy.name = instance(pattern, layer);
    copy.copy_of = layout_.stored_[holder].name;
    if (copy.name == layout_.stored_[holder].name || file_->shape(copy.name) == nullptr) continue;
    layout_.stored_.push_back(std::move(copy));
  }
}

// The head of a tied model, if the file has it: a copy of the token table.
void LayoutBuilder::add_tied_copy() {
  const TensorEntry* head = home_of("head.weight", -1, false);
  if (!architecture_.tied || file_ == nullptr || head == nullptr) return;
  for (const auto& pattern : head->names) {
    Layout::Stored copy = layout_.holder("embed.tokens");
    copy.copy_of = copy.name;
    copy.name = instance(pattern, -1);
    if (file_->shape(copy.name) != nullptr) layout_.stored_.push_back(std::move(copy));
  }
}

void LayoutBuilder::add_problem(std::string problem) {
  if (std::ranges::find(problems_, problem) == problems_.end()) {
    problems_.push_back(std::move(problem));
  }
}

// A variable, or a field of the model or of that layer, or a number in a list of such
// (convolutions.0.kernel).
double LayoutBuilder::number(const std::string& name, std::int64_t layer) const {
  if (const auto found = variables_.find(name); found != variables_.end()) return found->second;
  const nlohmann::json& fields = fields_.at(kind_of(layer));
  std::string path = name;
  std::ranges::replace(path, '.', '/');
  const auto* found = fields.contains(name) ? &fields.at(name) : find_path(fields, path);
  if (found == nullptr || !(found->is_number() || found->is_boolean())) {
    throw UsageError(fmt::format("[architectures] {}: '{}' is neither a field nor a variable",
                                 family_.file, name));
  }
  return found->is_boolean() ? (found->get<bool>() ? 1.0 : 0.0) : found->get<double>();
}

std::int64_t LayoutBuilder::size(const nlohmann::json& number_or_formula,
                                 std::int64_t layer) const {
  const double value =
      number_or_formula.is_number()
          ? number_or_formula.get<double>()
          : evaluate_formula(
                number_or_formula.get<std::string>().substr(is_formula(number_or_formula) ? 1 : 0),
                [&](const std::string& name) { return number(name, layer); });
  return value >= 0 && value < 9e15 ? static_cast<std::int64_t>(value) : 0;
}

std::vector<std::int64_t> LayoutBuilder::shape_of(const TensorEntry& entry, std::int64_t layer,
                                                  const Layout::Part& part, bool vector) const {
  if (entry.shape.empty()) {
    if (vector) return {part.width};
    if (part.transposed) return {part.width, part.rows};
    return {part.begin / part.width + part.rows, part.width};
  }
  std::vector<std::int64_t> shape;
  for (const auto& given : entry.shape) shape.push_back(size(given, layer));
  return shape;
}

}  // namespace regauge
