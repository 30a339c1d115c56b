#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "gzip.h"
#include "io/corrupt.h"
#include "regauge/base/random.h"
#include "request.h"

namespace regauge::lab {
namespace {

constexpr std::int64_t kBeginWord = 0, kFillWord = 1, kOtherWord = 2, kFirstWord = 3;

struct LabelledText {
  std::int64_t label = 0;
  std::vector<std::string> words;
};

// Tokens of equal length with a class each, taken from one matrix of examples x length.
class LabelledTokens final : public Data {
 public:
  LabelledTokens(std::vector<std::int64_t> tokens, std::vector<std::int64_t> labels,
                 std::int64_t length)
      : tokens_(std::move(tokens)), labels_(std::move(labels)), length_(length) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }

  Batch batch(std::span<const std::int64_t> examples) const override {
    Batch batch;
    batch.sequences = static_cast<std::int64_t>(examples.size());
    batch.length = length_;
    for (const std::int64_t example : examples) {
      const auto begin = tokens_.begin() + example * length_;
      batch.tokens.insert(batch.tokens.end(), begin, begin + length_);
      batch.targets.push_back(labels_[static_cast<std::size_t>(example)]);
    }
    return batch;
  }

 private:
  std::vector<std::int64_t> tokens_;
  std::vector<std::int64_t> labels_;
  std::int64_t length_;
};

// The records of RFC 4180: fields in quotes may hold commas, line ends and "" for a quote.
std::vector<std::vector<std::string>> records(const Request& request, const std::string& bytes) {
  std::vector<std::vector<std::string>> all;
  std::vector<std::string> record;
  std::string field;
  bool quoted = false, begun = false;  // inside quotes; the record has a byte
  const auto end_record = [&] {
    if (begun) {
      record.push_back(std::move(field));
      all.push_back(std::move(record));
    }
    record.clear();
    field.clear();
    begun = false;
  };
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char c = bytes[i];
    if (quoted) {
      if (c != '"') {
        field += c;
      } else if (i + 1 < bytes.size() && bytes[i + 1] == '"') {
        field += bytes[++i];
      } else {
        quoted = false;
      }
    } else if (c == '\n') {
      end_record();
    } else if (c != '\r') {
      begun = true;
      if (c == '"' && field.empty()) {
        quoted = true;
      } else if (c == ',') {
        record.push_back(std::move(field));
        field.clear();
      } else {
        field += c;
      }
    }
  }
  if (quoted) {
    throw CorruptFile(Corruption::truncated,
                      request.where() + ": the file ends inside of a quoted field");
  }
  end_record();
  return all;
}

// Runs of letters and digits in lower case; a byte above 127 is part of a letter.
void add_words(const std::string& text, std::vector<std::string>& words) {
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };
  for (const char c : text) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c & 0x80) != 0;
    if (upper || plain) {
      word += upper ? static_cast<char>(c - 'A' + 'a') : c;
    } else {
      end_word();
    }
  }
  end_word();
}

std::vector<LabelledText> labelled_texts(const Request& request) {
  std::vector<LabelledText> texts;
  for (const auto& record : records(request, read_file(request.path, request.where()))) {
    LabelledText text;
    const std::string& label = record.front();
    const auto [end, error] =
        std::from_chars(label.data(), label.data() + label.size(), text.label);
    if (error != std::errc() || end != label.data() + label.size() || record.size() < 2) {
      throw CorruptFile(Corruption::bad_entry,
                        fmt::format("{}: record {} is not a class, a whole number, and a text",
                                    request.where(), texts.size() + 1));
    }
    for (std::size_t i = 1; i < record.size(); ++i) add_words(record[i], text.words);
    texts.push_back(std::move(text));
  }
  return texts;
}

// Numbers the classes in order of their labels.
void number_classes(const Request& request, std::vector<LabelledText>& texts) {
  std::set<std::int64_t> labels;
  for (const LabelledText& text : texts) labels.insert(text.label);
  if (request.architecture.classes != static_cast<std::int64_t>(labels.size())) {
    throw request.refusal(fmt::format("classes must be {}, this architecture has {}", labels.size(),
                                      request.architecture.classes));
  }
  for (LabelledText& text : texts) {
    text.label = std::distance(labels.begin(), labels.find(text.label));
  }
}

// The most frequent words of the texts, as many as there are rows for; of equally frequent ones
// the alphabetically first.
std::map<std::string, std::int64_t> frequent_words(std::span<const LabelledText> texts,
                                                   std::int64_t rows) {
  std::map<std::string, std::int64_t> counts;
  for (const LabelledText& text : texts) {
    for (const std::string& word : text.words) ++counts[word];
  }
  std::vector<std::pair<std::string, std::int64_t>> ordered(counts.begin(), counts.end());
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::map<std::string, std::int64_t> numbers;
  for (const auto& [word, count] : ordered) {
    if (static_cast<std::int64_t>(numbers.size()) == rows) break;
    numbers.emplace(word, kFirstWord + static_cast<std::int64_t>(numbers.size()));
  }
  return numbers;
}

}  // namespace

std::unique_ptr<Data> open_csv(const Request& request) {
  require(request, Input::tokens, Output::classes);
  const std::int64_t vocabulary = request.architecture.vocabulary;
  if (vocabulary <= kFirstWord) {
    throw request.refusal(fmt::format("vocabulary must be at least {}, this architecture has {}",
                                      kFirstWord + 1, vocabulary));
  }
  const std::int64_t length = sequence_length(request);
  std::vector<LabelledText> texts = labelled_texts(request);
  number_classes(request, texts);

  std::vector<LabelledText> shuffled;
  shuffled.reserve(texts.size());
  for (const std::int64_t i : Random(0, "csv").permutation(std::ssize(texts))) {
    shuffled.push_back(std::move(texts[static_cast<std::size_t>(i)]));
  }
  const std::span<const LabelledText> all(shuffled);
  const auto train = all.first(all.size() - all.size() / 5), test = all.last(all.size() / 5);
  const auto numbers = frequent_words(train, vocabulary - kFirstWord);

  const auto chosen = request.split == Split::all     ? all
                      : request.split == Split::train ? train
                                                      : test;
  std::vector<std::int64_t> tokens, labels;
  for (const LabelledText& text : chosen) {
    tokens.push_back(kBeginWord);
    for (std::int64_t t = 1; t < length; ++t) {
      if (t > std::ssize(text.words)) {
        tokens.push_back(kFillWord);
        continue;
      }
      const auto found = numbers.find(text.words[static_cast<std::size_t>(t - 1)]);
      tokens.push_back(found == numbers.end() ? kOtherWord : found->second);
    }
    labels.push_back(text.label);
  }
  return std::make_unique<LabelledTokens>(std::move(tokens), std::move(labels), length);
}

}  // namespace regauge::lab
