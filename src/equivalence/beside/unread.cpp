#include "unread.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>

#include "activation_scales.h"
#include "regauge/arch/apart.h"

namespace regauge {
namespace {

constexpr std::size_t kLongestValue = 60;
constexpr std::size_t kMostSentences = 20;  // of one kind; the rest is counted

std::string shortened(const std::string& value) {
  return value.size() <= kLongestValue ? value : value.substr(0, kLongestValue) + "...";
}

// Adds sentences up to kMostSentences, then one with the number of the others.
class Sentences {
 public:
  Sentences(std::vector<std::string>& lines, const char* what) : lines_(lines), what_(what) {}
  void add(std::string line) {
    if (count_++ < kMostSentences) lines_.push_back(std::move(line));
  }
  ~Sentences() {
    if (count_ > kMostSentences) {
      lines_.push_back(fmt::format("and {} {} more", count_ - kMostSentences, what_));
    }
  }
  Sentences(const Sentences&) = delete;
  Sentences& operator=(const Sentences&) = delete;

 private:
  std::vector<std::string>& lines_;
  const char* what_;
  std::size_t count_ = 0;
};

using Keys = std::map<std::string, std::string>;

// `why` they were not read: "is not understood".
void compare_keys(const Keys& a, const Keys& b, bool one_language, const std::string& why,
                  Unread& result) {
  std::set<std::string> keys;
  for (const auto* some : {&a, &b}) {
    for (const auto& [key, value] : *some) keys.insert(key);
  }
  Sentences differ(result.differ, "keys"), equal(result.equal, "keys");
  for (const auto& key : keys) {
    const auto in_a = a.find(key), in_b = b.find(key);
    const bool has_a = in_a != a.end(), has_b = in_b != b.end();
    if (has_a && has_b && one_language && in_a->second == in_b->second) {
      equal.add(fmt::format("key '{}' {}; it is {} in both", key, why, shortened(in_a->second)));
    } else if (has_a && has_b) {
      differ.add(fmt::format("key '{}' {}; it is {} in A and {} in B", key, why,
                             shortened(in_a->second), shortened(in_b->second)));
    } else {
      differ.add(fmt::format("key '{}' {}; only {} has it: {}", key, why, has_a ? "A" : "B",
                             shortened(has_a ? in_a->second : in_b->second)));
    }
  }
}

// What the classes are called, by their numbers; transformers' names where nothing is said.
std::map<std::string, std::string> labels_of(const Model& model) {
  std::map<std::string, std::string> labels;
  for (std::int64_t i = 0; i < model.architecture.classes; ++i) {
    labels[std::to_string(i)] = fmt::format("LABEL_{}", i);
  }
  const nlohmann::json& config = model.checkpoint.config();
  const auto said = config.find("id2label");
  if (said == config.end() || !said->is_object()) return labels;
  for (const auto& [number, label] : said->items()) {
    labels[number] = label.is_string() ? label.get<std::string>() : label.dump();
  }
  return labels;
}

void compare_labels(const Model& a, const Model& b, Unread& result) {
  if (a.architecture.classes == 0 || b.architecture.classes == 0) return;
  const auto in_a = labels_of(a), in_b = labels_of(b);
  for (const auto& [number, label] : in_a) {
    const auto other = in_b.find(number);
    if (other == in_b.end() || other->second == label) continue;
    result.differ.push_back(
        fmt::format("the classes have other names: class {} is '{}' in A and '{}' in B (id2label)",
                    number, shortened(label), shortened(other->second)));
    return;
  }
}

bool same_bytes_in(const Checkpoint& a, const StoredTensor& left, const Checkpoint& b,
                   const StoredTensor& right, Progress& progress) {
  return a.numbers(left).is_bit_equal(b.numbers(right), [&](std::size_t bytes) {
    a.release(left);
    b.release(right);
    progress.advance(static_cast<std::int64_t>(bytes));
  });
}

// `why` they were not read: "has no part in what was compared".
void compare_tensors(const Model& a, const std::vector<std::string>& of_a, const Model& b,
                     const std::vector<std::string>& of_b, const std::string& why, Unread& result,
                     Progress& progress) {
  std::int64_t total = 0;
  for (const auto& name : of_a) total += a.checkpoint.at(name).bytes;
  progress.start("compare what was not read", total);
  const std::set<std::string> in_a(of_a.begin(), of_a.end());
  const std::set<std::string> in_b(of_b.begin(), of_b.end());
  Sentences differ(result.differ, "tensors"), equal(result.equal, "tensors");
  const auto one_sided = [&](const std::string& name, const char* holder, const Model& other) {
    // A model that was not quantised has none; `not compared` counts them.
    if (is_activation_scale(name) && other.checkpoint.find(name) == nullptr) return;
    differ.add(
        fmt::format("tensor '{}' of {} {}; the other file {}", name, holder, why,
                    other.checkpoint.find(name) == nullptr ? "does not have it" : "uses it"));
  };
  for (const auto& name : of_a) {
    if (!in_b.contains(name)) {
      one_sided(name, "A", b);
      continue;
    }
    const StoredTensor& left = a.checkpoint.at(name);
    const StoredTensor& right = b.checkpoint.at(name);
    if (left.shape != right.shape || left.type_name() != right.type_name()) {
      differ.add(fmt::format("tensor '{}' {}; its shape or type differs", name, why));
    } else if (!same_bytes_in(a.checkpoint, left, b.checkpoint, right, progress)) {
      differ.add(fmt::format("tensor '{}' {}; its numbers differ", name, why));
    } else {
      equal.add(fmt::format("tensor '{}' {}; it is the same in both", name, why));
    }
  }
  for (const auto& name : of_b) {
    if (!in_a.contains(name)) one_sided(name, "B", a);
  }
  progress.finish();
}

// What belongs to other parts: where it is the same, it is so beside numbers that were moved, too.
void compare_apart(const Model& a, const Model& b, bool one_language, Unread& result,
                   Progress& progress) {
  Unread apart;
  const Apart of_a = apart_of(a), of_b = apart_of(b);
  const std::string why = "belongs to another part";
  compare_keys(of_a.keys, of_b.keys, one_language, why, apart);
  compare_tensors(a, of_a.tensors, b, of_b.tensors, why, apart, progress);
  result.differ.insert(result.differ.end(), apart.differ.begin(), apart.differ.end());
}

}  // namespace

Unread compare_unread(const Model& a, const Model& b, Progress& progress) {
  Unread result;
  const bool one_language = a.checkpoint.format() == b.checkpoint.format();
  compare_keys(a.not_understood, b.not_understood, one_language, "is not understood", result);
  compare_labels(a, b, result);
  compare_tensors(a, a.unread, b, b.unread, "has no part in what was compared", result, progress);
  compare_apart(a, b, one_language, result, progress);
  return result;
}

}  // namespace regauge
