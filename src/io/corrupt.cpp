#include "corrupt.h"

namespace regauge {

std::string_view corruption_name(Corruption cause) {
  switch (cause) {
    case Corruption::header_too_short:
      return "header_too_short";
    case Corruption::header_too_large:
      return "header_too_large";
    case Corruption::header_truncated:
      return "header_truncated";
    case Corruption::not_utf8:
      return "not_utf8";
    case Corruption::not_json:
      return "not_json";
    case Corruption::duplicate_key:
      return "duplicate_key";
    case Corruption::bad_metadata:
      return "bad_metadata";
    case Corruption::bad_entry:
      return "bad_entry";
    case Corruption::unknown_dtype:
      return "unknown_dtype";
    case Corruption::bad_shape:
      return "bad_shape";
    case Corruption::bad_offsets:
      return "bad_offsets";
    case Corruption::size_mismatch:
      return "size_mismatch";
    case Corruption::overlap:
      return "overlap";
    case Corruption::hole:
      return "hole";
    case Corruption::truncated:
      return "truncated";
    case Corruption::trailing_bytes:
      return "trailing_bytes";
    case Corruption::bad_index:
      return "bad_index";
    case Corruption::bad_shard_name:
      return "bad_shard_name";
    case Corruption::missing_shard:
      return "missing_shard";
    case Corruption::missing_tensor:
      return "missing_tensor";
    case Corruption::tensor_in_two_shards:
      return "tensor_in_two_shards";
    case Corruption::bad_magic:
      return "bad_magic";
    case Corruption::unsupported_version:
      return "unsupported_version";
    case Corruption::unknown_value_type:
      return "unknown_value_type";
    case Corruption::nested_too_deeply:
      return "nested_too_deeply";
    case Corruption::bad_alignment:
      return "bad_alignment";
    case Corruption::bad_header:
      return "bad_header";
    case Corruption::bad_archive:
      return "bad_archive";
    case Corruption::refused_opcode:
      return "refused_opcode";
    case Corruption::refused_global:
      return "refused_global";
    case Corruption::bad_pickle:
      return "bad_pickle";
    case Corruption::bad_view:
      return "bad_view";
  }
  return "?";
}

}  // namespace regauge
