#include "tokenizer.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <queue>

#include "gzip.h"
#include "io/corrupt.h"

namespace regauge::lab {
namespace {

constexpr std::string_view kSpace = "\u2581";  // SentencePiece's sign for a space

std::string byte_piece(char byte) {
  return fmt::format("<0x{:02X}>", static_cast<unsigned char>(byte));
}

// A byte that is not a continuation, and up to three that are.
std::string_view first_character(std::string_view text) {
  std::size_t length = 1;
  while (length < std::min<std::size_t>(text.size(), 4) && (text[length] & 0xc0) == 0x80) ++length;
  return text.substr(0, length);
}

}  // namespace

Tokenizer::Tokenizer(const std::filesystem::path& path)
    : where_(fmt::format("[tokenizer] {}", path.string())) {
  const bool vocab = path.extension() == ".vocab";
  if (!vocab && path.extension() != ".bin") {
    throw UsageError(fmt::format("{}: expected llama2.c's .bin or a .vocab", where_));
  }
  const std::string file = read_file(path, where_);
  vocab ? read_vocab(file) : read_llama2c(file);
}

// int32 length of the longest piece; of each piece, float32 score, int32 length, bytes.
void Tokenizer::read_llama2c(std::string_view file) {
  const auto take = [&](std::size_t length) {
    if (length > file.size()) {
      throw CorruptFile(Corruption::truncated,
                        fmt::format("{}: ends inside piece {}; was the download cut short?", where_,
                                    pieces_.size()));
    }
    const std::string_view taken = file.substr(0, length);
    file.remove_prefix(length);
    return taken;
  };
  take(4);
  while (!file.empty()) {
    float score = 0;
    std::uint32_t length = 0;  // a negative one is longer than the file
    std::memcpy(&score, take(4).data(), 4);
    std::memcpy(&length, take(4).data(), 4);
    if (!std::isfinite(score)) {
      throw CorruptFile(Corruption::bad_entry, fmt::format("{}: the score of piece {} is no number",
                                                           where_, pieces_.size()));
    }
    const std::string_view piece = take(length);
    numbers_.emplace(piece, static_cast<std::int32_t>(pieces_.size()));
    pieces_.emplace_back(piece);
    scores_.push_back(score);
  }
  begin_ = 1;
  space_ = find(" ");
  if (size() < 2) {
    throw CorruptFile(Corruption::bad_header,
                      fmt::format("{}: no pieces; is this llama2.c's tokenizer?", where_));
  }
}

void Tokenizer::read_vocab(std::string_view file) {
  while (!file.empty()) {
    const std::string_view line = file.substr(0, file.find('\n'));
    file.remove_prefix(std::min(line.size() + 1, file.size()));
    const std::string piece(line.substr(0, line.rfind('\t')));
    if (!numbers_.emplace(piece, static_cast<std::int32_t>(pieces_.size())).second) {
      throw CorruptFile(
          Corruption::duplicate_key,
          fmt::format("{}:{}: the piece '{}' is there twice", where_, pieces_.size() + 1, piece));
    }
    pieces_.push_back(piece);
  }
  begin_ = find("<s>");
  space_ = find(std::string(kSpace));
}

std::optional<std::int32_t> Tokenizer::find(const std::string& piece) const {
  const auto found = numbers_.find(piece);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

void Tokenizer::encode(std::string_view text, std::vector<std::int32_t>& tokens) const {
  if (begin_) tokens.push_back(*begin_);
  std::vector<std::int32_t> body;
  if (space_ && !text.empty()) body.push_back(*space_);
  while (!text.empty()) {
    const std::string_view character = first_character(text);
    encode_character(character, body);
    text.remove_prefix(character.size());
  }
  if (!scores_.empty()) merge(body);
  tokens.insert(tokens.end(), body.begin(), body.end());
}

void Tokenizer::encode_character(std::string_view character,
                                 std::vector<std::int32_t>& tokens) const {
  auto token = find(std::string(character));
  const bool white = character.find_first_of(" \n\r\t") == 0;
  if (!token && white) token = find(std::string(kSpace));
  if (!token) {
    std::vector<std::int32_t> bytes;
    for (const char byte : character) {
      if (const auto piece = find(byte_piece(byte))) bytes.push_back(*piece);
    }
    if (bytes.size() == character.size()) {
      tokens.insert(tokens.end(), bytes.begin(), bytes.end());
      return;
    }
  }
  if (!token) token = find("<unk>");
  if (!token) {
    throw UsageError(fmt::format(
        "{}: the text holds '{}', and the vocabulary has neither this piece nor those of its bytes "
        "({}) nor <unk>",
        where_, character, byte_piece(character[0])));
  }
  tokens.push_back(*token);
}

// What llama2.c does by looking at all pairs before each union (the leftmost of the best), with a
// queue: pairs that a union has broken up stay in it and are passed over.
void Tokenizer::merge(std::vector<std::int32_t>& tokens) const {
  struct Pair {
    std::size_t left, right;  // places in `tokens`
    std::int32_t left_token, right_token, merged;
    float score;
    bool operator<(const Pair& other) const {  // comes later
      return score != other.score ? score < other.score : left > other.left;
    }
  };
  constexpr std::int32_t kGone = -1;
  const std::size_t end = tokens.size();
  std::vector<std::size_t> next(end), previous(end);
  std::priority_queue<Pair> pairs;
  const auto propose = [&](std::size_t left, std::size_t right) {
    const auto piece = [&](std::size_t at) -> const std::string& {
      return pieces_[static_cast<std::size_t>(tokens[at])];
    };
    if (const auto merged = find(piece(left) + piece(right))) {
      pairs.push({left, right, tokens[left], tokens[right], *merged,
                  scores_[static_cast<std::size_t>(*merged)]});
    }
  };
  for (std::size_t i = 0; i < end; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;
    if (i > 0) propose(i - 1, i);
  }
  while (!pairs.empty()) {
    const Pair best = pairs.top();
    pairs.pop();
    if (tokens[best.left] != best.left_token || tokens[best.right] != best.right_token) continue;
    tokens[best.left] = best.merged;
    tokens[best.right] = kGone;
    next[best.left] = next[best.right];
    if (next[best.left] < end) {
      previous[next[best.left]] = best.left;
      propose(best.left, next[best.left]);
    }
    if (best.left > 0) propose(previous[best.left], best.left);
  }
  std::erase(tokens, kGone);
}

}  // namespace regauge::lab
