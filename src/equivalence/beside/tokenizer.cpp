#include "tokenizer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <numeric>
#include <unordered_map>

#include "io/file_bytes.h"
#include "io/json.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;
constexpr std::uintmax_t kMostBytes = 100'000'000;
constexpr std::size_t kMostDifferences = 5;

[[noreturn]] void cannot_read(const std::string& source, const std::string& problem) {
  throw UsageError(fmt::format("[tokenizer] {}: {}", source, problem));
}

void put_token(Vocabulary& vocabulary, const Json& id, const Json& text) {
  if (!id.is_number_integer() || !text.is_string()) {
    cannot_read(vocabulary.source, "expected tokens with whole numbers as their ids");
  }
  const auto at = id.get<std::int64_t>();
  if (at < 0 || at >= kMostTokens) {
    cannot_read(vocabulary.source, fmt::format("the id {} of a token is out of range", at));
  }
  const auto index = static_cast<std::size_t>(at);
  if (vocabulary.tokens.size() <= index) vocabulary.tokens.resize(index + 1);
  vocabulary.tokens[index] = text.get<std::string>();
}

void put_tokens(Vocabulary& vocabulary, const Json& ids_by_text) {
  for (const auto& [text, id] : ids_by_text.items()) put_token(vocabulary, id, Json(text));
}

// Merges are "left right" or ["left", "right"].
void put_merges(Vocabulary& vocabulary, const Json& merges) {
  for (const auto& merge : merges) {
    if (merge.is_string()) {
      vocabulary.merges.push_back(merge.get<std::string>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      vocabulary.merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    } else {
      cannot_read(vocabulary.source, "expected merges of two tokens");
    }
  }
}

Vocabulary from_tokenizer_json(const fs::path& path) {
  Vocabulary vocabulary;
  vocabulary.source = path.filename().string();
  const Json json = io::read_json_object(path, "[tokenizer] " + path.string());
  const auto model = json.find("model");
  if (model == json.end() || !model->is_object() || !model->contains("vocab")) {
    cannot_read(path.string(), "has no model.vocab");
  }
  const Json& tokens = (*model)["vocab"];
  if (tokens.is_object()) {
    put_tokens(vocabulary, tokens);
  } else {
    // Unigram: [token, score], by id.
    std::int64_t id = 0;
    for (const auto& entry : tokens) {
      if (!entry.is_array() || entry.empty()) cannot_read(path.string(), "model.vocab is no list");
      put_token(vocabulary, id++, entry[0]);
    }
  }
  if (const auto merges = model->find("merges"); merges != model->end()) {
    put_merges(vocabulary, *merges);
  }
  if (const auto added = json.find("added_tokens"); added != json.end() && added->is_array()) {
    for (const auto& entry : *added) {
      if (!entry.is_object()) cannot_read(path.string(), "added_tokens is no list of objects");
      put_token(vocabulary, entry.value("id", Json()), entry.value("content", Json()));
    }
  }
  return vocabulary;
}

std::string text_of(const fs::path& path) {
  std::string text = io::read_text(path, kMostBytes + 1);
  if (text.size() > kMostBytes) cannot_read(path.string(), "is too long");
  return text;
}

std::vector<std::string> lines_of(const fs::path& path) {
  std::vector<std::string> lines;
  std::string line;
  for (const char c : text_of(path)) {
    if (c == '\n') {
      lines.push_back(std::move(line));
      line.clear();
    } else if (c != '\r') {
      line += c;
    }
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

// llama2.c: the length of the longest token, then for each a score, a length and its bytes.
Vocabulary from_llama2c(const fs::path& path, std::int64_t count) {
  Vocabulary vocabulary;
  vocabulary.source = path.filename().string();
  const std::string bytes = text_of(path);
  std::size_t at = sizeof(std::int32_t);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int32_t length = 0;
    if (bytes.size() < at + 8) cannot_read(path.string(), "is cut short");
    std::memcpy(&length, bytes.data() + at + 4, sizeof length);
    at += 8;
    if (length < 0 || bytes.size() - at < static_cast<std::size_t>(length)) {
      cannot_read(path.string(), "is cut short");
    }
    vocabulary.tokens.push_back(bytes.substr(at, static_cast<std::size_t>(length)));
    at += static_cast<std::size_t>(length);
  }
  return vocabulary;
}

std::string text_or_bytes(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_binary()) return value.dump();
  const auto& bytes = value.get_binary();
  return {bytes.begin(), bytes.end()};
}

std::optional<Vocabulary> from_gguf(const Json& metadata) {
  const auto tokens = metadata.find("tokenizer.ggml.tokens");
  if (tokens == metadata.end() || !tokens->is_array()) return std::nullopt;
  Vocabulary vocabulary;
  vocabulary.source = "tokenizer.ggml.tokens";
  for (const auto& token : *tokens) {
    std::string text = text_or_bytes(token);
    // What llama.cpp's converter calls ids without a token.
    if (text == fmt::format("[PAD{}]", vocabulary.tokens.size())) text.clear();
    vocabulary.tokens.push_back(std::move(text));
  }
  const auto merges = metadata.find("tokenizer.ggml.merges");
  if (merges != metadata.end() && merges->is_array()) {
    for (const auto& merge : *merges) vocabulary.merges.push_back(text_or_bytes(merge));
  }
  return vocabulary;
}

std::optional<Vocabulary> from_folder(const fs::path& folder) {
  const auto has = [&](const char* name) { return io::is_file(folder / name); };
  if (has("tokenizer.json")) return from_tokenizer_json(folder / "tokenizer.json");
  Vocabulary vocabulary;
  if (has("vocab.json")) {
    vocabulary.source = "vocab.json";
    put_tokens(vocabulary, io::read_json_object(folder / "vocab.json", "[tokenizer] vocab.json"));
  } else if (has("vocab.txt")) {
    vocabulary.source = "vocab.txt";
    vocabulary.tokens = lines_of(folder / "vocab.txt");
  } else {
    return std::nullopt;
  }
  if (has("added_tokens.json")) {
    put_tokens(vocabulary,
               io::read_json_object(folder / "added_tokens.json", "[tokenizer] added_tokens.json"));
  }
  if (has("merges.txt")) {
    for (auto& line : lines_of(folder / "merges.txt")) {
      if (!line.empty() && !line.starts_with("#version")) {
        vocabulary.merges.push_back(std::move(line));
      }
    }
  }
  return vocabulary;
}

std::string quoted(const std::string& token) {
  return token.empty() ? "no token"
                       : Json(token).dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace

std::optional<Vocabulary> read_vocabulary(const Model& model) {
  const Checkpoint& checkpoint = model.checkpoint;
  if (checkpoint.format() == Format::gguf) return from_gguf(checkpoint.config());
  if (checkpoint.files().empty()) return std::nullopt;
  const fs::path folder = checkpoint.files().front().parent_path();
  if (checkpoint.format() != Format::llama2c) return from_folder(folder);
  const fs::path file = folder / "tokenizer.bin";
  if (!io::is_file(file)) return std::nullopt;
  return from_llama2c(file, model.architecture.vocabulary);
}

VocabularyMatch compare_vocabularies(const Vocabulary& a, const Vocabulary& b) {
  VocabularyMatch match;
  // Ids without a token behind the last one are no part of a vocabulary.
  const auto length = [](const Vocabulary& vocabulary) {
    std::size_t count = vocabulary.tokens.size();
    while (count > 0 && vocabulary.tokens[count - 1].empty()) --count;
    return count;
  };
  const std::size_t in_a = length(a), in_b = length(b);
  std::unordered_map<std::string, std::deque<std::int64_t>> ids;  // of A, in order
  for (std::size_t i = 0; i < in_a; ++i) ids[a.tokens[i]].push_back(static_cast<std::int64_t>(i));
  std::vector<std::size_t> only_b;
  bool in_place = in_a == in_b;
  for (std::size_t i = 0; i < in_b; ++i) {
    const auto found = ids.find(b.tokens[i]);
    if (found == ids.end() || found->second.empty()) {
      only_b.push_back(i);
      continue;
    }
    match.a_from_b.push_back(found->second.front());
    found->second.pop_front();
    in_place = in_place && match.a_from_b.back() == static_cast<std::int64_t>(i);
  }
  std::vector<std::int64_t> only_a;
  for (const auto& [text, left] : ids) only_a.insert(only_a.end(), left.begin(), left.end());
  std::sort(only_a.begin(), only_a.end());

  const auto tell = [&](const char* name, const auto& only, const Vocabulary& vocabulary) {
    for (std::size_t i = 0; i < std::min(kMostDifferences, only.size()); ++i) {
      const auto id = static_cast<std::size_t>(only[i]);
      match.differences.push_back(
          fmt::format("only {} has the token {}, id {}", name, quoted(vocabulary.tokens[id]), id));
    }
    if (only.size() > kMostDifferences) {
      match.differences.push_back(
          fmt::format("and {} tokens more are in {} alone", only.size() - kMostDifferences, name));
    }
  };
  tell("A", only_a, a);
  tell("B", only_b, b);
  if (!a.merges.empty() && !b.merges.empty() && a.merges != b.merges) {
    const auto [x, y] =
        std::mismatch(a.merges.begin(), a.merges.end(), b.merges.begin(), b.merges.end());
    match.differences.push_back(
        fmt::format("the merges differ from number {} on", x - a.merges.begin()));
  }
  if (!match.differences.empty()) {
    match.a_from_b.clear();
    return match;
  }
  match.kind = in_place ? VocabularyMatch::Kind::equal : VocabularyMatch::Kind::permuted;
  return match;
}

Patches permuted_vocabulary(const Architecture& target, std::vector<std::int64_t> a_from_b) {
  if (static_cast<std::int64_t>(a_from_b.size()) > target.vocabulary) {
    throw UsageError(fmt::format("[tokenizer] {} tokens, but the model has rows for {}",
                                 a_from_b.size(), target.vocabulary));
  }
  const auto first = a_from_b.size();
  a_from_b.resize(static_cast<std::size_t>(target.vocabulary));
  std::iota(a_from_b.begin() + static_cast<std::ptrdiff_t>(first), a_from_b.end(),
            static_cast<std::int64_t>(first));
  const auto patch = [&](const std::string& name) -> Patch {
    return [name, order = a_from_b](const ReadTensor& read) {
      const Matrix<double> value = read(name);
      Matrix<double> result(value.rows(), value.cols());
      for (std::size_t i = 0; i < order.size(); ++i) {
        const auto from = static_cast<Eigen::Index>(i);
        if (name == "embed.tokens") {
          result.row(order[i]) = value.row(from);
        } else {
          result.col(order[i]) = value.col(from);
        }
      }
      return result;
    };
  };
  Patches patches;
  for (const auto& spec : parameter_specs(target)) {
    const bool by_token =
        spec.name == "embed.tokens" || (target.output.has(Output::tokens) &&
                                        (spec.name == "head.weight" || spec.name == "head.bias"));
    if (by_token) patches.emplace(spec.name, patch(spec.name));
  }
  return patches;
}

}  // namespace regauge
