#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>

#include "io/corrupt.h"
#include "regauge/base/error.h"
#include "regauge/lab/data.h"

namespace regauge::lab {

using Numbers = std::vector<std::int64_t>;

// A temporary folder and what is in it.
class DataTest : public ::testing::Test {
 protected:
  DataTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "regauge-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw std::runtime_error("cannot make a temporary folder");
    folder_ = pattern;
  }
  ~DataTest() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string spec(const std::string& kind, const std::string& name = "") const {
    return kind + ":" + path(name);
  }

  std::filesystem::path folder_;
};

template <class T>
std::string raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

inline std::string big_endian(std::uint32_t value) {
  std::string bytes = raw(value);
  return {bytes.rbegin(), bytes.rend()};
}

inline Architecture language_model(std::int64_t vocabulary, std::int64_t positions) {
  Architecture a;
  a.vocabulary = vocabulary;
  a.position_table = PositionTable::learned;
  a.max_positions = positions;
  return a;
}

inline Architecture classifier(std::int64_t input_width, std::int64_t positions,
                               std::int64_t classes) {
  Architecture a;
  a.input = Input::vectors;
  a.input_width = input_width;
  a.position_table = PositionTable::learned;
  a.max_positions = positions;
  a.causal = false;
  a.output = Output::classes;
  a.classes = classes;
  return a;
}

inline Batch batch(const Data& data, const Numbers& examples) { return data.batch(examples); }

inline Numbers labels(const Data& data) {
  Numbers all(static_cast<std::size_t>(data.size()));
  std::iota(all.begin(), all.end(), 0);
  return data.batch(all).targets;
}

template <class E>
void expect_error(const std::function<void()>& action, const std::string& part) {
  try {
    action();
  } catch (const E& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    return;
  } catch (const Error& error) {
    ADD_FAILURE() << "another error: " << error.what();
    return;
  }
  ADD_FAILURE() << "no error: " << part;
}

inline void expect_corrupt(Corruption cause, const std::function<void()>& action,
                           const std::string& part) {
  expect_error<CorruptFile>(
      [&] {
        try {
          action();
        } catch (const CorruptFile& error) {
          EXPECT_EQ(corruption_name(error.cause()), corruption_name(cause));
          throw;
        }
      },
      part);
}

// Files.

inline const std::string kGzipped(  // of "abcdef"
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\x4b\x4c\x4a\x4e\x49\x4d\x03\x00\xef\x39\x8e\x4b"
    "\x06\x00\x00\x00",
    26);

using Pieces = std::vector<std::pair<std::string, float>>;

inline std::string llama2c(const Pieces& pieces) {
  std::string file = raw<std::int32_t>(9);
  for (const auto& [piece, score] : pieces) {
    file += raw(score) + raw(static_cast<std::int32_t>(piece.size())) + piece;
  }
  return file;
}

inline std::string idx_images(std::uint32_t count, std::uint32_t rows, std::uint32_t columns,
                              const std::string& pixels) {
  return big_endian(0x803) + big_endian(count) + big_endian(rows) + big_endian(columns) + pixels;
}
inline std::string idx_labels(std::uint32_t count, const std::string& labels) {
  return big_endian(0x801) + big_endian(count) + labels;
}

inline std::string chunk(const std::string& name, const std::string& bytes) {
  return name + raw(static_cast<std::uint32_t>(bytes.size())) + bytes +
         std::string(bytes.size() % 2, '\0');
}
inline std::string format(std::uint32_t rate, std::uint16_t code = 1, std::uint16_t channels = 1,
                          std::uint16_t bits = 16) {
  return chunk("fmt ", raw(code) + raw(channels) + raw(rate) + raw(rate * 2) +
                           raw<std::uint16_t>(2) + raw(bits));
}
inline std::string riff(const std::string& chunks) {
  return "RIFF" + raw(static_cast<std::uint32_t>(4 + chunks.size())) + "WAVE" + chunks;
}
inline std::string wav(const std::vector<double>& samples, std::uint32_t rate = 8000) {
  std::string bytes;
  for (const double sample : samples) bytes += raw(static_cast<std::int16_t>(sample * 32768));
  return riff(chunk("LIST", "odd") + format(rate) + chunk("data", bytes));
}
}  // namespace regauge::lab
