#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "regauge/io/checkpoint.h"

namespace regauge {

// How one field of an Architecture (or a variable) is written in a config. A string that starts
// with '=' is a formula over fields and variables. Keys are paths: "rope_parameters/rope_theta",
// "architectures/0".
struct ConfigEntry {
  std::vector<std::string>
      keys;  // all that are present must agree; the first is written when none is
  std::optional<nlohmann::json> constant;  // "is": the field has this value and no key
  std::optional<nlohmann::json> fallback;  // "default": what an absent key means
  std::vector<std::pair<nlohmann::json, nlohmann::json>>
      values;  // (config, field); a number in no row stands for itself
  std::optional<nlohmann::json>
      write;                   // variables: the formula that gives the key's value on writing
  std::string count_of;        // the field is the number of entries of this object (labels)
  std::string rows_of;         // an absent key means the rows of this tensor
  std::string present_tensor;  // the field is true when the file has this tensor
  std::string absent_tensor;   // the field is true when the file has no such tensor
  std::vector<std::pair<std::string, nlohmann::json>> when;  // else the field has its default
};

// Where a config keeps the settings of rotary positions; see rope.h for their meaning.
struct RopeEntry {
  std::vector<std::string> theta, fraction, dims, type, factor, low_freq_factor, high_freq_factor,
      original_positions;
  double default_theta = 10000;
  double default_fraction = 1;
  std::string divisors;  // a tensor of one divisor per frequency
};

enum class Orientation { out_in, in_out };  // of a stored linear map, y = x W: W is [in, out]

// A stored tensor: which parameters it holds. ".N." stands for the layer, {prefix} for the family's
// prefix.
struct TensorEntry {
  std::vector<std::string> names;  // the first is written, the others are read too
  std::vector<std::string> holds;  // several: side by side along the outputs
  std::string groups;              // a field: the parts alternate, once per group (NeoX: per head)
  std::vector<nlohmann::json> shape;  // numbers and formulas; empty: from the parameters
  std::optional<Orientation> orientation;
};

// One data file of data/architectures/.
struct Family {
  std::string file;
  std::string name;
  Format format = Format::safetensors;
  std::vector<std::pair<std::string, nlohmann::json>> match;  // config keys that recognise it
  std::vector<std::pair<std::string, std::vector<nlohmann::json>>>
      requirements;        // what else a key may say
  bool canonical = false;  // the `regauge` family: fields and tensors by their own names
  std::vector<std::pair<std::string, ConfigEntry>> fields;
  std::vector<std::pair<std::string, ConfigEntry>> variables;
  std::optional<RopeEntry> rope;
  std::vector<std::string> prefixes;
  bool half_pairs = false;  // rotary pairs are (b, b + rotary_dims / 2) instead of (2b, 2b + 1)
  Orientation linear = Orientation::out_in;
  double gain_offset = 0;  // gain = stored + offset
  std::vector<TensorEntry> tensors;
};

// Reads a data file; `find` gives the text of the file that it inherits from, or nothing. Unknown
// keys and values are UsageErrors that name the file.
Family parse_family(std::string_view file, std::string_view text,
                    const std::function<std::optional<std::string_view>(std::string_view)>& find);

// All families that are compiled in.
const std::vector<Family>& all_families();
// Throws UsageError, listing the families, when there is none of that name and format.
const Family& family_of(std::string_view name, Format format);
// The family that a config announces; throws UsageError.
const Family& recognise(const nlohmann::json& config, Format format);

}  // namespace regauge
