#pragma once

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "regauge/base/error.h"
#include "regauge/io/checkpoint.h"

namespace regauge {

// What one part of divided work did, as its file says it.
struct PartRecord {
  std::string shown;     // how messages call it: its file's name
  nlohmann::json asked;  // what all parts have in common: see asked_of()
  std::int64_t part = 1, of = 1;
  struct Loop {
    std::int64_t units = 0;                          // of the whole loop
    std::map<std::int64_t, nlohmann::json> results;  // of the units that this part did
  };
  std::map<std::string, Loop> loops;

  // Nothing was left to do.
  bool is_empty() const { return loops.empty(); }
};

// The text of a record's file, and back: throws CorruptFile for what is damaged, UsageError for
// another version.
std::string part_text(const PartRecord& record);
PartRecord part_from_text(const std::string& text, const std::string& shown);
// Of a part that is a folder, since it wrote more than a record, the file kRecord in it.
inline constexpr const char* kRecord = "part.json";
PartRecord read_part(const std::filesystem::path& path);
// Whole or not at all, where nothing is or the same record. Throws UsageError.
void write_part(const PartRecord& record, const std::filesystem::path& path);

// What identifies a file without reading all of it: its length, and the SHA-256 of its beginning
// and of so many pages at equal distances. Throws FileError.
nlohmann::json mark_of(const ByteRange& file, std::size_t pages);
nlohmann::json mark_of_file(const std::filesystem::path& path);

// What is asked: a verb with what changes its answer, about these models, which were opened by
// these paths.
nlohmann::json asked_of(const std::string& verb, nlohmann::json options,
                        const std::vector<std::pair<std::string, const Checkpoint*>>& models);
std::vector<std::string> paths_in(const nlohmann::json& asked);

// Throws UsageError, naming what does not fit.
void require_one_run(const std::vector<PartRecord>& parts, const nlohmann::json& asked);

// A result of which a damaged file is no reason for an internal error.
template <class Result>
Result result_in(const nlohmann::json& result, const std::string& loop) try {
  return result.get<Result>();
} catch (const nlohmann::json::exception&) {
  throw UsageError(fmt::format("[parts] a result of '{}' is damaged; make its part again", loop));
}

// A number that JSON may not have.
nlohmann::json number_as_json(double number);
double number_from_json(const nlohmann::json& json);

}  // namespace regauge
