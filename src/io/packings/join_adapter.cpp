#include "join_adapter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "adapter_settings.h"
#include "low_rank.h"
#include "regauge/base/error.h"

namespace regauge::io {
namespace {

using nlohmann::json;
using Form = LowRank::Form;

constexpr std::string_view kWrapped = "base_model.model.";
constexpr std::string_view kBaseLayer = ".base_layer";

// What an adapter has for one module, or for one parameter of it.
struct Pair {
  const StoredTensor* a = nullptr;
  const StoredTensor* b = nullptr;
  const StoredTensor* bias = nullptr;  // lora_B's
  const StoredTensor* magnitudes = nullptr;
  bool embedding = false;
};

// How the maps of single experts are called in a file whose modules hold them as one.
struct Spelling {
  std::string_view gate, up, down;
};
constexpr std::array<Spelling, 2> kSpellings = {
    {{"gate_proj", "up_proj", "down_proj"}, {"w1", "w3", "w2"}}};

[[noreturn]] void refuse_adapter(const std::string& what) { throw UsageError("[adapter] " + what); }

bool cut_end(std::string& name, std::string_view end) {
  if (!name.ends_with(end)) return false;
  name.resize(name.size() - end.size());
  return true;
}

std::string as_shown(const StoredTensor& tensor) {
  return fmt::format("'{}' [{}]", tensor.name, fmt::join(tensor.shape, ", "));
}

class Join {
 public:
  Join(const json& settings, const std::vector<StoredTensor>& adapter,
       std::vector<StoredTensor> base, json& config)
      : settings_(settings), base_(std::move(base)), config_(config) {
    for (std::size_t i = 0; i < base_.size(); ++i) places_.emplace(base_[i].name, i);
    for (const StoredTensor& tensor : adapter) sort(tensor);
  }

  std::vector<StoredTensor> run() && {
    for (const auto& [name, tensor] : whole_) replace(name, *tensor);
    find_orientation();
    for (const auto& [module, pair] : pairs_) add(module, pair);
    level_experts();
    return std::move(base_);
  }

 private:
  // By its name: one of a pair of factors, or a tensor in the place of the base's.
  void sort(const StoredTensor& tensor) {
    std::string name = tensor.name;
    if (name.starts_with(kWrapped)) name.erase(0, kWrapped.size());
    for (const std::string_view with : {".default.", ".default"}) {  // the adapter's own name
      const std::size_t at = name.rfind(with);
      const bool inside = with.ends_with('.');
      if (at == std::string::npos || (!inside && at + with.size() != name.size())) continue;
      name.erase(at, with.size() - (inside ? 1 : 0));  // but for the point behind it
    }
    const auto take = [&](std::string_view end, const StoredTensor* Pair::*what) {
      std::string module = name;
      if (!cut_end(module, end)) return false;
      Pair& pair = pairs_[module];
      if (pair.*what != nullptr) refuse_adapter(fmt::format("'{}' is there twice", tensor.name));
      pair.*what = &tensor;
      pair.embedding = end.find("embedding") != std::string_view::npos;
      return true;
    };
    if (take(".lora_A.weight", &Pair::a) || take(".lora_B.weight", &Pair::b) ||
        take(".lora_B.bias", &Pair::bias) || take(".lora_embedding_A", &Pair::a) ||
        take(".lora_embedding_B", &Pair::b) || take(".lora_magnitude_vector", &Pair::magnitudes) ||
        take(".lora_magnitude_vector.weight", &Pair::magnitudes)) {
      return;
    }
    if (name.find("lora_") != std::string::npos || name.find("trainable_tokens") != name.npos) {
      refuse_adapter(
          fmt::format("'{}' is not read; merge the adapter into its base with PEFT's "
                      "merge_and_unload and name the merged model",
                      tensor.name));
    }
    for (const std::string_view between : {".base_layer.", ".modules_to_save."}) {
      const std::size_t at = name.rfind(between);
      if (at != std::string::npos) name.replace(at, between.size(), ".");
    }
    if (!whole_.emplace(name, &tensor).second) {
      refuse_adapter(fmt::format("'{}' is there twice", name));
    }
  }

  // A module's or a tensor's name in the base's file: a prefix more or less makes no difference.
  StoredTensor* find(const std::string& name) {
    static constexpr std::array<std::string_view, 4> kPrefixes = {"", "model.", "transformer.",
                                                                  "language_model."};
    std::vector<std::string> names = {name};
    for (const auto& [modules, file] :
         {std::pair<std::string_view, std::string_view>{".mlp.", ".block_sparse_moe."}}) {
      const std::size_t at = name.find(modules);
      if (at != std::string::npos) {
        names.push_back(name);
        names.back().replace(at, modules.size(), file);
      }
    }
    for (const std::string& full : names) {
      for (std::string_view prefix : kPrefixes) {
        if (const auto found = places_.find(std::string(prefix) + full); found != places_.end()) {
          return &base_[found->second];
        }
        if (prefix.empty() || !full.starts_with(prefix)) continue;
        if (const auto found = places_.find(full.substr(prefix.size())); found != places_.end()) {
          return &base_[found->second];
        }
      }
    }
    return nullptr;
  }

  void replace(const std::string& name, const StoredTensor& tensor) {
    StoredTensor own = tensor;
    StoredTensor* before = find(name);
    if (before == nullptr) {
      if (!name.ends_with("lm_head.weight")) {
        refuse_adapter(fmt::format("'{}' has no counterpart in the base; is it another model's?",
                                   tensor.name));
      }
      own.name = name;
      places_.emplace(name, base_.size());
      base_.push_back(std::move(own));
      config_["tie_word_embeddings"] = false;
      return;
    }
    if (before->shape != tensor.shape) {
      refuse_adapter(fmt::format("{} stands for the base's {}; is it another model's?",
                                 as_shown(tensor), as_shown(*before)));
    }
    own.name = before->name;
    *before = std::move(own);
  }

  // PEFT finds out by the kind of a layer whether it stores its matrix transposed, and not all
  // versions write down what they found; layers that are not square tell.
  void find_orientation() {
    transposed_ = settings_.fan_in_fan_out();
    for (const auto& [module, pair] : pairs_) {
      const StoredTensor* weight = find(module + ".weight");
      if (weight == nullptr || pair.embedding || pair.a == nullptr || pair.b == nullptr) continue;
      if (weight->shape.size() != 2 || pair.a->shape.size() != 2 || pair.b->shape.size() != 2) {
        continue;
      }
      const std::vector<std::int64_t> turned = {pair.a->shape[1], pair.b->shape[0]};
      transposed_ = transposed_ || (weight->shape == turned && turned[0] != turned[1]);
    }
  }

  void add(const std::string& module, const Pair& pair) {
    if (pair.a == nullptr || pair.b == nullptr) {
      refuse_adapter(fmt::format("'{}' has only one of its two factors", module));
    }
    for (const StoredTensor* factor : {pair.a, pair.b}) {
      if (factor->shape.size() != 2 || !is_floating(factor->dtype)) {
        refuse_adapter(fmt::format("{} is {}; expected a matrix of floating-point numbers",
                                   as_shown(*factor), factor->type_name()));
      }
    }
    if (pair.a->dtype != pair.b->dtype) {
      refuse_adapter(fmt::format("{} is {} and {} is {}; expected one type", as_shown(*pair.a),
                                 pair.a->type_name(), as_shown(*pair.b), pair.b->type_name()));
    }
    if (pair.a->shape[0] != pair.b->shape[1]) {
      refuse_adapter(
          fmt::format("{} and {} have different ranks", as_shown(*pair.a), as_shown(*pair.b)));
    }
    std::string owner = module;
    while (cut_end(owner, kBaseLayer)) {
    }
    if (StoredTensor* weight = find(owner + ".weight")) {
      add_to_matrix(owner, pair, *weight);
    } else if (!add_to_experts(owner, pair)) {
      refuse_adapter(
          fmt::format("'{}' has no counterpart in the base ('{}.weight'); is it another "
                      "model's, or is the base tied where the adapter is not?",
                      pair.a->name, owner));
    }
  }

  Form form_of(const std::string& module, const Pair& pair, std::int64_t experts) const {
    Form form;
    form.experts = experts;
    form.lora_rank = settings_.rank(module);
    form.rank = pair.a->shape[0] / experts;
    form.scale = settings_.scale(module);
    form.alpha = settings_.alpha(module);
    form.rank_stabilised = settings_.rank_stabilised();
    if (form.rank * experts != pair.a->shape[0] || form.rank != form.lora_rank) {
      refuse_adapter(
          fmt::format("{} is of rank {}, and the config says {}{}", as_shown(*pair.a),
                      pair.a->shape[0] / experts, form.lora_rank,
                      experts > 1 ? fmt::format(" for each of {} experts", experts) : ""));
    }
    return form;
  }

  void join(StoredTensor& target, Form form, std::vector<StoredTensor> parts) {
    const std::optional<DType> base = target.plain_type();
    if (!base && !target.packing) {
      refuse_adapter(
          fmt::format("{} of the base is {}; an adapter is added to floating-point numbers",
                      as_shown(target), target.type_name()));
    }
    if (base && !is_floating(*base)) {
      refuse_adapter(fmt::format("{} of the base is {}; expected floating-point numbers",
                                 as_shown(target), target.type_name()));
    }
    StoredTensor packed = target;
    packed.dtype = DType::packed;
    if (!joined_.insert(target.name).second) {
      refuse_adapter(fmt::format("two pairs of factors add to '{}'", target.name));
    }
    const std::int64_t shared_by = form.experts / form.matrices;
    packed.packing = std::make_shared<LowRank>(form, base, parts.front().dtype, recent_);
    packed.parts = {target};
    for (StoredTensor& part : parts) {
      packed.bytes += part.bytes / shared_by;
      packed.parts.push_back(std::move(part));
    }
    target = std::move(packed);
  }

  void add_to_matrix(const std::string& module, const Pair& pair, StoredTensor& weight) {
    const std::int64_t in = pair.a->shape[1], out = pair.b->shape[0];
    Form form = form_of(module, pair, 1);
    const std::int64_t rank = form.rank;
    // Factors that share the rank: A is [rank, in], B is [out, rank].
    const LowRank::Factor of_a{1, 0, 0, 1, in}, of_b{2, 0, 0, rank, 1};
    const std::vector<std::int64_t> plain = {out, in}, turned = {in, out};
    const bool square = in == out;
    const bool is_turned = pair.embedding || (square ? transposed_ : weight.shape == turned);
    if (weight.shape != (is_turned ? turned : plain)) {
      refuse_adapter(fmt::format("{} and {} make a matrix of [{}, {}], and the base's is {}",
                                 as_shown(*pair.a), as_shown(*pair.b), out, in, as_shown(weight)));
    }
    form.rows = weight.shape[0];
    form.cols = weight.shape[1];
    form.left = is_turned ? of_a : of_b;
    form.right = is_turned ? of_b : of_a;
    form.output_is_row = !is_turned;
    std::vector<StoredTensor> parts = {*pair.a, *pair.b};
    if (pair.magnitudes != nullptr) {
      if (pair.embedding) {
        refuse_adapter(
            fmt::format("'{}': a DoRA of an embedding is not read; merge it into its base with "
                        "PEFT's merge_and_unload and name the merged model",
                        pair.magnitudes->name));
      }
      if (pair.magnitudes->elements() != out || !is_floating(pair.magnitudes->dtype)) {
        refuse_adapter(fmt::format("{} is not one number for each of {} outputs",
                                   as_shown(*pair.magnitudes), out));
      }
      form.magnitudes = 3;
      parts.push_back(*pair.magnitudes);
    }
    join(weight, form, std::move(parts));
    if (pair.bias != nullptr) add_to_bias(module, pair);
  }

  void add_to_bias(const std::string& module, const Pair& pair) {
    StoredTensor* bias = find(module + ".bias");
    if (bias == nullptr) {
      refuse_adapter(
          fmt::format("{} belongs to a bias that the base does not have", as_shown(*pair.bias)));
    }
    Form form = form_of(module, pair, 1);
    form.rank = 1;
    form.rows = bias->elements();
    form.cols = 1;
    form.left = {1, 0, 0, 1, 0};
    form.right = {0, 0, 0, 0, 0};
    if (pair.bias->elements() != form.rows || !is_floating(pair.bias->dtype)) {
      refuse_adapter(
          fmt::format("{} does not fit the base's {}", as_shown(*pair.bias), as_shown(*bias)));
    }
    join(*bias, form, {*pair.bias});
  }

  // Factors of all experts of a layer: A is [expert, rank] x in, B is out x [rank, expert].
  struct Experts {
    std::int64_t count, rank, in, out;
  };

  // Of one expert, or of all; row of the fused map from which the tensor's outputs begin.
  Form form_of_expert(Form form, const Experts& of, std::int64_t expert, std::int64_t begin,
                      bool turned) const {
    const std::int64_t together = of.count * of.rank;
    const std::int64_t a_from = turned ? begin : 0, b_from = turned ? 0 : begin;
    const LowRank::Factor of_a{1, expert * of.rank * of.in + a_from, of.rank * of.in, 1, of.in};
    const LowRank::Factor of_b{2, b_from * together + expert, 1, together, of.count};
    form.left = turned ? of_a : of_b;
    form.right = turned ? of_b : of_a;
    form.output_is_row = !turned;
    return form;
  }

  bool add_to_experts(const std::string& owner, const Pair& pair) {
    if (pair.magnitudes != nullptr || pair.bias != nullptr) return false;
    return add_to_stack(owner, pair) || add_to_each(owner, pair);
  }

  // The base holds the experts' maps as one tensor of three sides.
  bool add_to_stack(const std::string& owner, const Pair& pair) {
    const std::int64_t in = pair.a->shape[1], out = pair.b->shape[0];
    bool turned = false;
    std::vector<StoredTensor*> fitting;
    for (StoredTensor& tensor : base_) {
      if (tensor.shape.size() != 3 || !tensor.name.starts_with(owner + ".")) continue;
      const bool plain = tensor.shape[1] == out && tensor.shape[2] == in;
      const bool other = tensor.shape[1] == in && tensor.shape[2] == out;
      if (!plain && !other) continue;
      fitting.push_back(&tensor);
      turned = !plain;
    }
    if (fitting.empty()) return false;
    if (fitting.size() > 1) {
      refuse_adapter(fmt::format("{} and {} fit {} and {} of the base alike", as_shown(*pair.a),
                                 as_shown(*pair.b), as_shown(*fitting[0]), as_shown(*fitting[1])));
    }
    StoredTensor* found = fitting.front();
    if (in == out) {
      require_settled(pair);
      turned = experts_are_transposed(owner, *found);
    }
    const std::int64_t count = found->shape[0];
    if (count == 0) return false;
    Form form = form_of(found->name, pair, count);
    form.matrices = count;
    form.rows = found->shape[1];
    form.cols = found->shape[2];
    join(*found, form_of_expert(form, {count, form.rank, in, out}, 0, 0, turned),
         {*pair.a, *pair.b});
    return true;
  }

  // Where both readings fit, only what wrote the adapter says which is meant.
  void require_settled(const Pair& pair) const {
    if (settings_.swaps_experts()) return;
    refuse_adapter(fmt::format(
        "{} and {} fit experts in two ways, and PEFT changed from one to the other in 0.19; "
        "'peft_version' of the config does not say that it is that or later. Merge it with the "
        "version that wrote it, and name the merged model",
        as_shown(*pair.a), as_shown(*pair.b)));
  }

  // A square map tells nothing; the fused one beside it is twice as long on the side of its
  // outputs.
  bool experts_are_transposed(const std::string& owner, const StoredTensor& square) const {
    for (const StoredTensor& tensor : base_) {
      if (tensor.shape.size() != 3 || !tensor.name.starts_with(owner + ".")) continue;
      if (tensor.name.find("gate_up") == std::string::npos) continue;
      if (tensor.shape[1] == tensor.shape[2]) continue;
      return tensor.shape[2] > tensor.shape[1];
    }
    refuse_adapter(fmt::format(
        "{} is square, and nothing beside it tells which side its outputs are", as_shown(square)));
  }

  // The base holds each expert's maps by themselves.
  bool add_to_each(const std::string& owner, const Pair& pair) {
    const std::int64_t in = pair.a->shape[1], out = pair.b->shape[0];
    for (const Spelling& names : kSpellings) {
      const auto at = [&](std::int64_t expert, std::string_view map) {
        return find(fmt::format("{}.{}.{}.weight", owner, expert, map));
      };
      if (at(0, names.gate) == nullptr || at(0, names.down) == nullptr) continue;
      std::int64_t count = 1;
      while (at(count, names.gate) != nullptr) ++count;
      const std::vector<std::int64_t> gate = at(0, names.gate)->shape,
                                      down = at(0, names.down)->shape;
      if (gate.size() != 2 || down.size() != 2) continue;
      // PEFT took the two sides of such a map the other way round before 0.19.
      const bool fused_now = in == gate[1] && out == 2 * gate[0];
      const bool fused_before = out == gate[1] && in == 2 * gate[0];
      const bool single_now = in == down[1] && out == down[0];
      const bool single_before = out == down[1] && in == down[0];
      const bool now = fused_now || single_now;
      if (!now && !fused_before && !single_before) continue;
      if (now && (fused_before || single_before)) require_settled(pair);
      const bool fused = now ? fused_now : fused_before;
      const Form form =
          form_of(fused ? owner + ".gate_up_proj" : owner + ".down_proj", pair, count);
      const Experts experts{count, form.rank, in, out};
      for (std::int64_t expert = 0; expert < count; ++expert) {
        std::int64_t begin = 0;
        for (const std::string_view map :
             fused ? std::vector{names.gate, names.up} : std::vector{names.down}) {
          StoredTensor* tensor = at(expert, map);
          if (tensor == nullptr || tensor->shape != (fused ? gate : down)) {
            refuse_adapter(fmt::format("the base has no '{}.{}.{}.weight' [{}]", owner, expert, map,
                                       fmt::join(fused ? gate : down, ", ")));
          }
          Form own = form_of_expert(form, experts, expert, begin, !now);
          own.rows = tensor->shape[0];
          own.cols = tensor->shape[1];
          join(*tensor, own, {*pair.a, *pair.b});
          begin += own.rows;
        }
      }
      return true;
    }
    return false;
  }

  // All experts of a layer are read alike: where some have an adapter of their own, nothing is
  // added to the others.
  void level_experts() {
    const auto family = [](const std::string& name) -> std::string {
      constexpr std::string_view kExperts = "experts.";
      const std::size_t at = name.find(kExperts);
      if (at == std::string::npos) return "";
      std::size_t end = at + kExperts.size();
      while (end < name.size() && name[end] >= '0' && name[end] <= '9') ++end;
      return end == at + kExperts.size() ? "" : name.substr(0, at) + "*" + name.substr(end);
    };
    std::map<std::string, const LowRank*> adapted;
    for (const StoredTensor& tensor : base_) {
      const auto* packing = dynamic_cast<const LowRank*>(tensor.packing.get());
      const std::string key = packing == nullptr ? "" : family(tensor.name);
      if (!key.empty()) adapted.emplace(key, packing);
    }
    for (StoredTensor& tensor : base_) {
      const auto like = adapted.find(family(tensor.name));
      if (like == adapted.end() || dynamic_cast<const LowRank*>(tensor.packing.get())) continue;
      Form form = like->second->form();
      form.rank = 0;
      StoredTensor packed = tensor;
      packed.dtype = DType::packed;
      packed.packing = like->second->with(form);
      packed.parts = {tensor};
      tensor = std::move(packed);
    }
  }

  AdapterSettings settings_;
  std::vector<StoredTensor> base_;
  json& config_;
  std::map<std::string, std::size_t> places_;
  std::map<std::string, Pair> pairs_;  // by module
  std::map<std::string, const StoredTensor*> whole_;
  std::set<std::string> joined_;
  std::shared_ptr<LowRank::Recent> recent_ = std::make_shared<LowRank::Recent>();
  bool transposed_ = false;
};

}  // namespace

std::vector<StoredTensor> join_adapter(const json& settings,
                                       const std::vector<StoredTensor>& adapter,
                                       std::vector<StoredTensor> base, json& config) {
  return Join(settings, adapter, std::move(base), config).run();
}

}  // namespace regauge::io
