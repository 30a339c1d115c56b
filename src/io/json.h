#pragma once

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <string>
#include <string_view>

namespace regauge::io {

bool is_utf8(std::string_view text);
// Paths are printed, and stored in JSON. Throws UsageError for one that is not UTF-8; `what` begins
// the message: "open".
void require_utf8(const std::filesystem::path& path, std::string_view what);

// JSON as the standard has it: one object, valid UTF-8, no duplicate keys, nested at most 64 deep.
// `where` begins the message: "[safetensors] model.safetensors". Throws CorruptFile.
nlohmann::json parse_json_object(std::string_view text, const std::string& where);

// The bytes of a regular file of at most 100 MB. Throws FileError or CorruptFile.
std::string read_json_text(const std::filesystem::path& path, const std::string& where);
// Its object. Throws FileError or CorruptFile.
nlohmann::json read_json_object(const std::filesystem::path& path, const std::string& where);

}  // namespace regauge::io
