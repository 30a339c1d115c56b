#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace regauge::lab {

// Text to token numbers: a begin token and a leading space where the vocabulary has them, one token
// per character, and then, for llama2.c, the neighbours whose union has the highest score become
// one token until no union is a piece. A character that is no piece is, of these, the first that
// the vocabulary has: U+2581 if it is white space, its bytes as <0x00> to <0xFF>, <unk>.
class Tokenizer {
 public:
  // llama2.c's .bin, or a .vocab: line n holds piece n - 1, then perhaps a tab and a score, which
  // is not read. Throws FileError, CorruptFile, UsageError.
  explicit Tokenizer(const std::filesystem::path& path);

  std::int64_t size() const { return static_cast<std::int64_t>(pieces_.size()); }
  // Appends the tokens of `text`. Throws UsageError for a character that has none.
  void encode(std::string_view text, std::vector<std::int32_t>& tokens) const;

 private:
  void read_llama2c(std::string_view file);
  void read_vocab(std::string_view file);
  std::optional<std::int32_t> find(const std::string& piece) const;
  void encode_character(std::string_view character, std::vector<std::int32_t>& tokens) const;
  void merge(std::vector<std::int32_t>& tokens) const;

  std::string where_;
  std::vector<std::string> pieces_;
  std::vector<float> scores_;  // empty: nothing merges
  std::unordered_map<std::string, std::int32_t> numbers_;
  std::optional<std::int32_t> begin_, space_;
};

}  // namespace regauge::lab
