#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <tuple>

#include "io/json.h"
#include "record.h"
#include "regauge/base/error.h"

namespace regauge::connect {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> record_files(const fs::path& folder) {
  const fs::path within = fs::is_directory(folder / "records") ? folder / "records" : folder;
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(within, error)) {
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
  }
  if (error) {
    throw FileError(fmt::format("[records] {}: {}", within.string(), error.message()));
  }
  if (files.empty()) {
    throw FileError(fmt::format(
        "[records] {}: no *.jsonl here; give the folder of a study, or its folder of records",
        within.string()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

// What a measurement is of.
auto key_of(const Record& record) {
  return std::tuple(record.experiment, record.cell, record.scope, record.seeds, record.method);
}

}  // namespace

std::vector<Record> read_records(const fs::path& folder) {
  std::vector<Record> records;
  std::map<decltype(key_of(Record{})), std::pair<std::string, double>> seen;
  for (const fs::path& path : record_files(folder)) {
    std::ifstream file(path);
    if (!file || fs::is_directory(path)) {
      throw FileError(fmt::format("[records] {}: cannot be read", path.string()));
    }
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      const std::string where = fmt::format("[records] {}:{}", path.string(), number);
      try {
        Record record = record_from_json(io::parse_json_object(line, where), where);
        const auto [earlier, is_new] = seen.try_emplace(
            key_of(record), fmt::format("{}:{}", path.string(), number), record.barrier);
        if (!is_new && earlier->second.second != record.barrier) {
          throw UsageError(fmt::format("{}: the same measurement as {} with another barrier", where,
                                       earlier->second.first));
        }
        if (is_new) records.push_back(std::move(record));
      } catch (const Error& error) {
        throw UsageError(fmt::format(
            "{}\nWas the line cut short or edited? Remove it and measure it again.", error.what()));
      }
    }
    if (file.bad()) throw FileError(fmt::format("[records] {}: cannot be read", path.string()));
  }
  if (records.empty()) {
    throw FileError(fmt::format("[records] {}: the files have no records", folder.string()));
  }
  return records;
}

}  // namespace regauge::connect
