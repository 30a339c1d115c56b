#pragma once

#include <string>
#include <string_view>

#include "regauge/base/error.h"

namespace regauge {

// Why a file was refused; one test per cause.
enum class Corruption {
  header_too_short,  // the file ends inside its fixed-size header
  header_too_large,  // a safetensors header above 100 MB, GGUF arrays above 2^23 values
  header_truncated,  // the file ends inside its variable-size header
  not_utf8,          // a name or JSON text that is not UTF-8
  not_json,          // JSON that does not parse, is nested too deeply or is not an object
  duplicate_key,     // a JSON key, GGUF key or tensor name given twice
  bad_metadata,      // __metadata__ that is not an object of strings
  bad_entry,         // a tensor entry without exactly dtype, shape and data_offsets
  unknown_dtype,     // a tensor type that no producer writes
  bad_shape,         // negative or too many dimensions, or a size that overflows
  bad_offsets,       // offsets that are no interval, or a GGUF offset off its alignment
  size_mismatch,     // an interval whose length is not that of dtype and shape
  overlap,           // two tensors share bytes
  hole,              // bytes between tensors that belong to none
  truncated,         // the file ends before its last tensor does
  trailing_bytes,    // the file goes on after its last tensor
  bad_index,         // a shard index without a weight_map from names to files
  bad_shard_name,    // a shard outside the index's own folder
  missing_shard,     // the index names a file that is not there
  missing_tensor,    // the index names a tensor that its shard does not hold
  tensor_in_two_shards,
  bad_magic,            // a .gguf file that does not begin with "GGUF"
  unsupported_version,  // a GGUF or llama2.c version that this library does not read
  unknown_value_type,   // a GGUF metadata type that does not exist
  nested_too_deeply,    // GGUF arrays of arrays of arrays ...
  bad_alignment,        // general.alignment is not a power of two
  bad_header,           // llama2.c sizes that are not positive or do not divide
  bad_archive,          // a zip whose directory, ends and local headers do not agree
  refused_opcode,       // a pickle with an opcode that weights are not saved with
  refused_global,       // a pickle that names what weights are not made of
  bad_pickle,           // a pickle whose opcodes do not fit together
  bad_view              // strides and sizes that are no view of a tensor's storage
};
inline constexpr int kCorruptions = static_cast<int>(Corruption::bad_view) + 1;

std::string_view corruption_name(Corruption cause);

// A file that fails a check. "[safetensors] model.safetensors: tensor 'x': bytes [0, 8) do not hold
// F32 [2, 2] (16 bytes); was the download cut short?"
class CorruptFile : public Error {
 public:
  CorruptFile(Corruption cause, const std::string& message) : Error(message), cause_(cause) {}
  Corruption cause() const { return cause_; }

 private:
  Corruption cause_;
};

}  // namespace regauge
