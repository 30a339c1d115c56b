#include <algorithm>
#include <charconv>

#include "gzip.h"
#include "io/corrupt.h"
#include "request.h"
#include "tokenizer.h"

namespace regauge::lab {
namespace {

using Tokens = std::vector<std::int32_t>;

// Windows of `length` tokens and what follows each of them.
class TokenStream final : public Data {
 public:
  // `stories` holds where each begins and, last, where the last one ends; or nothing, and a window
  // begins at every token that enough others follow.
  TokenStream(Tokens tokens, std::vector<std::size_t> stories, std::int64_t length)
      : tokens_(std::move(tokens)), stories_(std::move(stories)), length_(length) {}

  std::int64_t size() const override {
    return stories_.empty() ? static_cast<std::int64_t>(tokens_.size()) - length_
                            : static_cast<std::int64_t>(stories_.size()) - 1;
  }
  std::int64_t stride() const override { return stories_.empty() ? length_ : 1; }

  Batch batch(std::span<const std::int64_t> examples) const override {
    Batch batch;
    batch.sequences = static_cast<std::int64_t>(examples.size());
    batch.length = length_;
    const auto length = static_cast<std::size_t>(length_);
    batch.tokens.resize(examples.size() * length, 0);
    batch.targets.resize(examples.size() * length, kIgnore);
    for (std::size_t i = 0; i < examples.size(); ++i) {
      const auto example = static_cast<std::size_t>(examples[i]);
      const std::size_t begin = stories_.empty() ? example : stories_[example];
      const std::size_t end = stories_.empty() ? tokens_.size() : stories_[example + 1];
      for (std::size_t t = 0; t < length && begin + t + 1 < end; ++t) {
        batch.tokens[i * length + t] = tokens_[begin + t];
        batch.targets[i * length + t] = tokens_[begin + t + 1];
      }
    }
    return batch;
  }

 private:
  Tokens tokens_;
  std::vector<std::size_t> stories_;
  std::int64_t length_;
};

// The part of `all` that the split asks for.
template <class T>
std::vector<T> part(Split split, std::vector<T> all) {
  const auto border =
      all.begin() + static_cast<std::ptrdiff_t>(all.size() / 10 * 9 + all.size() % 10 * 9 / 10);
  if (split == Split::train) all.erase(border, all.end());
  if (split == Split::test) all.erase(all.begin(), border);
  return all;
}

std::unique_ptr<Data> stream(const Request& request, Tokens all) {
  const std::int64_t length = sequence_length(request);
  Tokens tokens = part(request.split, std::move(all));
  if (static_cast<std::int64_t>(tokens.size()) <= length) {
    throw request.refusal(fmt::format(
        "{} tokens in this part are too few for a window of {} and the token after it; give a "
        "shorter length{}",
        tokens.size(), length, request.split == Split::all ? "" : ", or --split all"));
  }
  const auto largest = *std::max_element(tokens.begin(), tokens.end());
  if (largest >= request.architecture.vocabulary) {
    throw request.refusal(
        fmt::format("there is a token {}; vocabulary must be at least {}, this "
                    "architecture has {}",
                    largest, std::int64_t{largest} + 1, request.architecture.vocabulary));
  }
  return std::make_unique<TokenStream>(std::move(tokens), std::vector<std::size_t>{}, length);
}

Tokens parse_binary(const Request& request, std::string_view file) {
  if (file.size() % 2 != 0) {
    throw CorruptFile(Corruption::truncated,
                      fmt::format("{}: {} bytes are no whole number of uint16 tokens",
                                  request.where(), file.size()));
  }
  Tokens tokens;
  tokens.reserve(file.size() / 2);
  for (std::size_t i = 0; i < file.size(); i += 2) {
    tokens.push_back(static_cast<unsigned char>(file[i]) | static_cast<unsigned char>(file[i + 1])
                                                               << 8);
  }
  return tokens;
}

Tokens parse_decimal(const Request& request, std::string_view file) {
  constexpr std::string_view kWhite = " \n\r\t";
  Tokens tokens;
  for (std::size_t at = 0; (at = file.find_first_not_of(kWhite, at)) != std::string_view::npos;) {
    const std::string_view word =
        file.substr(at, std::min(file.find_first_of(kWhite, at), file.size()) - at);
    std::int32_t token = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), token);
    if (error != std::errc() || end != word.data() + word.size() || token < 0) {
      throw CorruptFile(
          Corruption::bad_entry,
          fmt::format("{}: '{}' at byte {} is no token number; expected decimal numbers with "
                      "spaces or newlines between them, or a .bin file of uint16",
                      request.where(), word.substr(0, 20), at));
    }
    tokens.push_back(token);
    at += word.size();
  }
  return tokens;
}

// The text between separators, without white space around it; empty ones are left out.
std::vector<std::string_view> stories_of(std::string_view text, std::string_view separator) {
  constexpr std::string_view kWhite = " \n\r\t";
  std::vector<std::string_view> stories;
  for (bool last = false; !last;) {
    const std::size_t end = text.find(separator);
    last = end == std::string_view::npos;
    std::string_view story = text.substr(0, end);
    if (!last) text.remove_prefix(end + separator.size());
    const std::size_t first = story.find_first_not_of(kWhite);
    if (first == std::string_view::npos) continue;
    stories.push_back(story.substr(first, story.find_last_not_of(kWhite) + 1 - first));
  }
  return stories;
}

}  // namespace

std::unique_ptr<Data> open_bytes(const Request& request) {
  require(request, Input::tokens, Output::tokens);
  Tokens tokens;
  for (const char byte : read_file(request.path, request.where())) {
    tokens.push_back(static_cast<unsigned char>(byte));
  }
  return stream(request, std::move(tokens));
}

std::unique_ptr<Data> open_tokens(const Request& request) {
  require(request, Input::tokens, Output::tokens);
  const std::string file = read_file(request.path, request.where());
  return stream(request, request.path.extension() == ".bin" ? parse_binary(request, file)
                                                            : parse_decimal(request, file));
}

std::unique_ptr<Data> open_text(const Request& request) {
  require(request, Input::tokens, Output::tokens);
  const Tokenizer tokenizer(request.tokenizer);
  if (tokenizer.size() != request.architecture.vocabulary) {
    throw request.refusal(fmt::format(
        "{} has {} pieces, this architecture's vocabulary {}; is it the model's tokenizer?",
        request.tokenizer.string(), tokenizer.size(), request.architecture.vocabulary));
  }
  const std::string text = read_file(request.path, request.where());
  constexpr std::string_view kSeparator = "<|endoftext|>";
  Tokens tokens;
  if (text.find(kSeparator) == std::string::npos) {
    tokenizer.encode(text, tokens);
    return stream(request, std::move(tokens));
  }
  std::vector<std::size_t> stories;
  for (const std::string_view story : part(request.split, stories_of(text, kSeparator))) {
    const std::size_t begin = tokens.size();
    tokenizer.encode(story, tokens);
    if (tokens.size() - begin < 2) {
      tokens.resize(begin);  // nothing to predict
    } else {
      stories.push_back(begin);
    }
  }
  stories.push_back(tokens.size());
  return std::make_unique<TokenStream>(std::move(tokens), std::move(stories),
                                       sequence_length(request));
}

}  // namespace regauge::lab
