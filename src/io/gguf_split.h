#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace regauge::io {

// One model in several GGUF files, as llama.cpp's gguf-split writes it: NAME-00001-of-00003.gguf
// and so on. Each says in `split.count` how many there are and in `split.no`, from 0, which it is;
// the first holds the metadata of all.

// All parts in order, `file` being one of them; empty if its metadata speaks of no others. Throws
// CorruptFile if the metadata contradicts itself, UsageError if the file has another name.
std::vector<std::filesystem::path> gguf_parts(const std::filesystem::path& file,
                                              const nlohmann::json& config);
// Throws CorruptFile unless the metadata of a part says that it is number `index`, from 0, of
// `count`.
void require_gguf_part(const std::filesystem::path& file, const nlohmann::json& config,
                       std::size_t index, std::size_t count);
// The first part of the only split model among the GGUF files of a folder; empty if there is
// another GGUF file, or no first part.
std::filesystem::path first_gguf_part(const std::filesystem::path& folder);

}  // namespace regauge::io
