#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "regauge/io/checkpoint.h"

namespace regauge {

// When an entry counts: where all fields of one of these alternatives have the given values; always
// if there are none.
struct When {
  using All = std::vector<std::pair<std::string, nlohmann::json>>;
  std::vector<All> any;

  template <class ValueOf>
  bool applies(const ValueOf& value_of) const {
    return any.empty() || std::ranges::any_of(any, [&](const All& all) {
             return std::ranges::all_of(
                 all, [&](const auto& each) { return value_of(each.first) == each.second; });
           });
  }
};

// How one field of an Architecture (or a variable) is written in a config. A string that starts
// with '=' is a formula over fields and variables. Keys are paths: "rope_parameters/rope_theta",
// "architectures/0".
struct ConfigEntry {
  std::vector<std::string>
      keys;  // all that are present must agree; the first is written when none is
  // The field is a list of objects: what in them the items of each key's list are called.
  std::vector<std::string> parts;
  std::optional<nlohmann::json> constant;  // "is": the field has this value and no key
  std::optional<nlohmann::json> fallback;  // "default": what an absent key means
  std::vector<std::pair<nlohmann::json, nlohmann::json>>
      values;  // (config, field); a number in no row stands for itself
  std::optional<nlohmann::json>
      write;             // variables: the formula that gives the key's value on writing
  std::string count_of;  // the field is the number of entries of this object (labels)
  std::string rows_of;   // an absent key means the rows of this tensor
  std::vector<std::string> present_tensor;  // the field is true when the file has one of these
  // The field is true when the file has no such tensor; beside keys: where none of them is there.
  std::string absent_tensor;
  std::vector<std::string> columns_of;  // the field is the length of the last side of one of these
  When when;                            // else the field has its default
  std::string resolution;  // which key wins when two disagree, as a clause for error messages
};

// Where a config keeps the settings of rotary positions; see rope.h for their meaning. The
// spellings of a setting that are present must agree.
struct RopeEntry {
  std::vector<std::string> theta, fraction, dims, type, factor, low_freq_factor, high_freq_factor,
      original_positions;
  // YaRN's where they do not stand beside the factor; a logarithm's multiplier in a factor of all
  // logits, (1 + multiplier log(factor))^2, with which q and k are not multiplied besides.
  std::vector<std::string> beta_fast, beta_slow, log_multiplier;
  // The fraction of a head's pairs that turn in type 'proportional', which is known where this is
  // said; the others stay where they are. Without a type: default_turning.
  std::vector<std::string> turning;
  double default_turning = 1;
  // Spellings that the program which runs the model does not read; they may repeat what it reads.
  std::vector<std::string> theta_echo, fraction_echo;
  double default_theta = 10000;
  double default_fraction = 1;
  std::string default_type = "default";  // "linear": a factor needs no type, as in llama.cpp
  std::string resolution;  // which spelling wins when two disagree, as a clause for error messages
  std::string divisors;    // a tensor of one divisor per frequency
  // Tensors of the frequencies themselves, with .N.; where a file has several they must agree.
  std::vector<std::string> frequencies;
  bool scales_logits = false;      // yarn's mscale_all_dim multiplies all logits (DeepSeek)
  std::string plain_type;          // a type that means "default" for text ("mrope")
  std::vector<std::string> under;  // as of the family
};

enum class Orientation { out_in, in_out };  // of a stored linear map, y = x W: W is [in, out]

// A stored tensor: which parameters it holds. ".N." stands for the layer, {prefix} for the family's
// prefix; with ".E." there is one for every expert, which holds its slice of the parameters.
struct TensorEntry {
  std::vector<std::string> names;  // the first is written, the others are read too
  std::vector<std::string> holds;  // several: side by side along the outputs
  std::string groups;              // a field: the parts alternate, once per group (NeoX: per head)
  bool stacked = false;            // the experts' matrices one after another
  std::string matrices;            // a field: one after another, too, so many (of the heads, say)
  bool minus_exp = false;          // stored is -exp of the parameter
  // In place of another entry of the same parameters where a file has it.
  bool alternative = false;
  // Each expert's matrix is stored as the shape says, which is given for out_in, or the other way
  // round.
  bool either_way = false;
  std::vector<nlohmann::json> shape;  // numbers and formulas; empty: from the parameters
  // Of its one parameter: the first row that it holds and how many; other tensors hold the others.
  std::vector<nlohmann::json> rows;
  nlohmann::json first_row;  // of a table: those in front are for padding; null: 0
  std::optional<Orientation> orientation;
  std::optional<double> gain_offset;  // in place of the family's
  When when;                          // of several entries for one parameter the one that applies
};

// A key of a config that cannot change the function. '*' may begin or end the pattern.
struct KeyRule {
  std::string pattern;
  std::optional<std::vector<nlohmann::json>> values;  // nothing: harmless whatever it says
};

struct FamilyKind;

// Where a config says of which kind each layer is: a list with an item for every layer, or a number
// from which the items follow, and a list of layers that are excepted from it. Or it is
// known without: runs of items, each so many times.
struct PatternEntry {
  struct Run {
    std::vector<nlohmann::json> items;
    std::string times;  // a formula
  };
  std::vector<Run> runs;
  enum class Rule {
    none,
    period,  // the last layer of every `number` has `item`
    every,   // the first one of every `number` has it
    first    // the first `number` layers have it
  };
  std::string key;      // of the list; empty: there is none
  std::string further;  // a variable: items behind those of the layers; empty: there are none
  Rule rule = Rule::none;
  std::string number_key;       // empty: the number is fixed
  std::int64_t number = 0;      // where the key does not say
  nlohmann::json item, others;  // of the layers that the rule names, and of the others
  std::string by_layer;         // of an object with settings of single layers; empty: there is none
  std::vector<std::string> lists;  // of settings that may be a list with one for every layer
  nlohmann::json ends_with;        // the item that the last layer must have, or null
  std::string last_key;            // of how many of the last layers have another item; or empty
  // What items in the list become there.
  std::vector<std::pair<nlohmann::json, nlohmann::json>> last_items;
  std::string except_key;      // of a list of layers by their numbers; empty: there is none
  nlohmann::json except_item;  // what they have
};

// One data file of data/architectures/.
struct Family {
  std::string file;
  std::string name;
  Format format = Format::safetensors;
  // Config keys that recognise it, and what they say; {"above": n}: a number above n.
  std::vector<std::pair<std::string, nlohmann::json>> match;
  std::vector<std::pair<std::string, std::vector<nlohmann::json>>>
      requirements;               // what else a key may say
  std::vector<KeyRule> harmless;  // besides those of data/harmless-keys.json
  bool canonical = false;         // the `regauge` family: fields and tensors by their own names
  std::vector<std::pair<std::string, ConfigEntry>> fields;
  std::vector<std::pair<std::string, ConfigEntry>> variables;
  std::optional<RopeEntry> rope;
  std::vector<std::string> prefixes;
  bool half_pairs = false;  // rotary pairs are (b, b + rotary_dims / 2) instead of (2b, 2b + 1)
  // A delta net's value heads: the first one of every key head, then the second ones (llama.cpp).
  bool tiled_value_heads = false;
  Orientation linear = Orientation::out_in;
  double gain_offset = 0;  // gain = stored + offset
  std::vector<TensorEntry> tensors;
  std::string number;  // a formula of `layer`: what ".N." is in stored names; empty: the layer
  std::vector<std::string> dead;  // tensors that nothing reads: buffers of older programs
  // What belongs to other parts of the checkpoint (a vision tower): tensors and keys of the config,
  // '*' may begin or end a name.
  std::vector<std::string> apart_tensors, apart_keys;
  std::string apart_layers;  // before a number: tensors of layers behind the model's; or empty
  // Objects of the config in which the inherited keys are looked for; "": the config itself.
  std::vector<std::string> under;
  // Layers that differ; without kinds all are alike, as the fields above say.
  PatternEntry pattern;
  std::vector<FamilyKind> kinds;
  std::vector<std::string> keys_of_other_kinds;
  // How the other model of the same checkpoint is written; at most one.
  std::vector<Family> beside;
  // Objects of the config that, where they are there, stand in the place of others: (which, whose).
  std::vector<std::pair<std::string, std::string>> stand_ins;
};

// What an item of the pattern means: the family as if all layers were of this kind.
struct FamilyKind {
  nlohmann::json item;
  // Settings that a layer of this kind may have of its own, by the model's name for it: the name
  // that the family has for that of all layers of this kind.
  std::vector<std::pair<std::string, std::string>> own;
  Family family;
};

// '*' may begin or end the pattern.
bool fits(std::string_view pattern, std::string_view name);
// A tensor, or a key, of another part.
// `layers`: of the model.
bool is_apart(const Family& family, std::string_view tensor, std::int64_t layers);
bool is_apart_key(const Family& family, std::string_view path);

// What recognises a family; throws UsageError for an object other than {"above": a number}.
decltype(Family::match) parse_match(const std::string& where, decltype(Family::match) match);
// Rules as data files write them: true for any value, or a list of the values that are harmless.
// Throws UsageError that names `where`.
std::vector<KeyRule> parse_key_rules(
    const std::string& where, const std::vector<std::pair<std::string, nlohmann::json>>& entries);

std::optional<Format> format_named(std::string_view name);

// Reads a data file; `find` gives the text of the file that it inherits from, or nothing. Unknown
// keys and values are UsageErrors that name the file.
Family parse_family(std::string_view file, std::string_view text,
                    const std::function<std::optional<std::string_view>(std::string_view)>& find);

// What a data file says at first sight; the rest is parsed when it is asked for.
class KnownFamily {
 public:
  KnownFamily(std::string_view text, std::function<Family()> parse);

  const std::string& name() const { return name_; }
  Format format() const { return format_; }
  // The config has what the family is recognised by.
  bool matches(const nlohmann::json& config) const;
  const Family& family() const;

 private:
  using Match = decltype(Family::match);

  std::string name_;
  Format format_ = Format::safetensors;
  std::optional<Match> match_;  // nothing: `family_` has it
  std::function<Family()> parse_;
  mutable std::once_flag once_;
  mutable std::optional<Family> family_;
};

// All families, in the order in which they are tried: those that were registered, the last one
// first, those of REGAUGE_FAMILIES, and those that are compiled in.
const std::list<KnownFamily>& all_families();
// Throws UsageError, listing the families, when there is none of that name and format.
const Family& family_of(std::string_view name, Format format);
// The family that a config announces; throws UsageError.
const Family& recognise(const nlohmann::json& config, Format format);

}  // namespace regauge
