#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>

#include "gzip.h"
#include "io/corrupt.h"
#include "request.h"

namespace regauge::lab {
namespace {

using nlohmann::json;

constexpr std::int64_t kBegin = 256, kFill = 257, kVocabulary = 258;

struct Query {
  std::string text;
  std::int64_t label = 0;
};

class Queries final : public Data {
 public:
  Queries(std::vector<Query> queries, std::int64_t length)
      : queries_(std::move(queries)), length_(length) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(queries_.size()); }

  Batch batch(std::span<const std::int64_t> examples) const override {
    Batch batch;
    batch.sequences = static_cast<std::int64_t>(examples.size());
    batch.length = length_;
    const auto length = static_cast<std::size_t>(length_);
    batch.tokens.resize(examples.size() * length, kFill);
    for (std::size_t i = 0; i < examples.size(); ++i) {
      const Query& query = queries_[static_cast<std::size_t>(examples[i])];
      batch.tokens[i * length] = kBegin;
      for (std::size_t t = 1; t < length && t <= query.text.size(); ++t) {
        batch.tokens[i * length + t] = static_cast<unsigned char>(query.text[t - 1]);
      }
      batch.targets.push_back(query.label);
    }
    return batch;
  }

 private:
  std::vector<Query> queries_;
  std::int64_t length_;
};

json read_json(const Request& request, const char* name) {
  try {
    return json::parse(read_file(request.path / name, request.where()));
  } catch (const json::exception& error) {
    throw CorruptFile(Corruption::not_json,
                      fmt::format("{}: {} is not JSON: {}", request.where(), name, error.what()));
  }
}

using Pairs = std::vector<std::pair<std::string, std::string>>;  // text, intent

Pairs pairs_of(const Request& request, const json& file, const char* part) {
  try {
    return file.at(part).get<Pairs>();
  } catch (const json::exception&) {
    throw CorruptFile(
        Corruption::bad_entry,
        fmt::format("{}: data_full.json: '{}' is not a list of pairs of a text and its intent",
                    request.where(), part));
  }
}

// The class of every intent: its place among the names in order, or that of its domain.
std::map<std::string, std::int64_t> classes(const Request& request,
                                            const std::set<std::string>& intents) {
  std::map<std::string, std::int64_t> numbers;
  const std::int64_t wanted = request.architecture.classes;
  if (wanted == static_cast<std::int64_t>(intents.size())) {
    for (const std::string& intent : intents) {
      numbers.emplace(intent, static_cast<std::int64_t>(numbers.size()));
    }
    return numbers;
  }
  std::map<std::string, std::vector<std::string>> domains;
  std::error_code ignored;
  if (std::filesystem::exists(request.path / "domains.json", ignored)) {
    try {
      read_json(request, "domains.json").get_to(domains);
    } catch (const json::exception&) {
      throw CorruptFile(
          Corruption::bad_entry,
          fmt::format("{}: domains.json is not an object of lists of intents", request.where()));
    }
  }
  if (wanted != static_cast<std::int64_t>(domains.size())) {
    throw request.refusal(
        fmt::format("classes must be {} (the intents) or {} (the domains of domains.json), this "
                    "architecture has {}",
                    intents.size(), domains.size(), wanted));
  }
  std::int64_t number = 0;
  for (const auto& [domain, members] : domains) {
    for (const std::string& intent : members) numbers.emplace(intent, number);
    ++number;
  }
  for (const std::string& intent : intents) {
    if (!numbers.contains(intent)) {
      throw CorruptFile(
          Corruption::bad_entry,
          fmt::format("{}: domains.json has no domain for '{}'", request.where(), intent));
    }
  }
  return numbers;
}

}  // namespace

std::unique_ptr<Data> open_clinc(const Request& request) {
  require(request, Input::tokens, Output::classes);
  if (request.architecture.vocabulary < kVocabulary) {
    throw request.refusal(fmt::format("vocabulary must be at least {}, this architecture has {}",
                                      kVocabulary, request.architecture.vocabulary));
  }
  const std::int64_t length = sequence_length(request);
  const json file = read_json(request, "data_full.json");
  Pairs train = pairs_of(request, file, "train"), test = pairs_of(request, file, "test");
  std::set<std::string> intents;
  for (const Pairs* pairs : {&train, &test}) {
    for (const auto& [text, intent] : *pairs) intents.insert(intent);
  }
  const auto numbers = classes(request, intents);
  std::vector<Query> queries;
  const auto add = [&](const Pairs& pairs) {
    for (const auto& [text, intent] : pairs) queries.push_back({text, numbers.at(intent)});
  };
  if (request.split != Split::test) add(train);
  if (request.split != Split::train) add(test);
  return std::make_unique<Queries>(std::move(queries), length);
}

}  // namespace regauge::lab
