#include "arch/family.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "arch/formula.h"
#include "regauge/arch/layout.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

std::optional<std::string_view> nothing(std::string_view) { return std::nullopt; }

std::string problem_in(const std::string& text) {
  try {
    parse_family("test.json", text, nothing);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

std::string family_with(const std::string& more) {
  return R"({"family": "x", "format": "gguf", "match": {}, )" + more + "}";
}

TEST(Family, EveryFileIsEmbeddedAndNamed) {
  std::set<std::string> files, embedded, names;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(REGAUGE_FIXTURES) / "../../data/architectures")) {
    files.insert(entry.path().filename().string());
  }
  for (const auto& known : all_families()) {
    embedded.insert(known.family().file);
    names.insert(known.name());
  }
  EXPECT_GT(files.size(), 100u);
  EXPECT_EQ(embedded, files);
  const auto listed = families();
  EXPECT_EQ(std::set(listed.begin(), listed.end()), names);
  EXPECT_EQ(listed.size(), names.size()) << "a family is listed once for all its formats";
}

TEST(Family, UnknownKeysAreErrors) {
  EXPECT_EQ(problem_in(family_with(R"("fields": {}, "tensors": {})")), "");
  for (const char* text :
       {R"("fields": {}, "tensors": {}, "colour": 1)",
        R"("fields": {"width": {"key": "w", "colour": 1}}, "tensors": {})",
        R"("fields": {}, "tensors": {"t": {"holds": "embed.tokens", "colour": 1}})",
        R"("fields": {}, "tensors": {}, "rope": {"colour": 1})"}) {
    const std::string problem = problem_in(family_with(text));
    EXPECT_NE(problem.find("colour"), std::string::npos) << text;
    EXPECT_NE(problem.find("test.json"), std::string::npos) << text;
  }
}

TEST(Family, WrongValuesAreErrors) {
  for (const char* text :
       {R"("tensors": {})", R"("fields": {}, "tensors": {}, "pairs": "thirds")",
        R"("fields": {}, "tensors": {}, "linear": "sideways")",
        R"("fields": {"width": {}}, "tensors": {})",
        R"("fields": {"width": {"key": "a", "is": 3}}, "tensors": {})",
        R"("fields": {"width": {"key": "a", "values": [1]}}, "tensors": {})",
        R"("fields": {}, "tensors": {"t": {}})",
        R"("fields": {}, "tensors": {"t": {"holds": "head.weight", "first_row": 2}})",
        R"("fields": {}, "tensors": {}, "inherits": "nobody.json")"}) {
    EXPECT_NE(problem_in(family_with(text)), "") << text;
  }
  EXPECT_NE(problem_in("[1, 2"), "");
}

TEST(Family, IsKnownAtFirstSightAsItIsParsed) {
  for (const auto& known : all_families()) {
    const Family& family = known.family();
    EXPECT_EQ(known.name(), family.name);
    EXPECT_EQ(known.format(), family.format);
    nlohmann::json config = nlohmann::json::object();
    for (const auto& [key, value] : family.match) {
      const bool above = value.is_object();
      config[nlohmann::json::json_pointer("/" + key)] =
          above ? nlohmann::json(value.at("above").get<int>() + 1) : value;
    }
    EXPECT_TRUE(known.matches(config)) << family.file;
    for (const auto& [key, value] : family.match) {
      auto other = config;
      other[nlohmann::json::json_pointer("/" + key)] = "another";
      EXPECT_FALSE(known.matches(other)) << family.file << " " << key;
    }
  }
}

TEST(Family, InheritsEntryByEntry) {
  const std::string parent = R"({"family": "p", "format": "gguf", "fields":
    {"width": {"key": "{family}.w"}, "heads": {"key": "h"}}, "tensors": {"a": "embed.tokens"}})";
  const std::string child = R"({"family": "c", "format": "gguf", "inherits": "p.json",
    "fields": {"heads": null, "layers": {"is": 3}}})";
  const Family family = parse_family("c.json", child, [&](std::string_view name) {
    return name == "p.json" ? std::optional<std::string_view>(parent) : std::nullopt;
  });
  ASSERT_EQ(family.fields.size(), 2u);
  EXPECT_EQ(family.fields[0].second.keys, (std::vector<std::string>{"c.w"}));
  EXPECT_EQ(family.fields[1].first, "layers");
  EXPECT_EQ(family.tensors.size(), 1u);
}

// What is inherited is looked for in the objects that are named; what is not, where it says.
TEST(Family, KeysMayStandInAnObject) {
  const std::string parent = R"({"family": "p", "format": "gguf",
    "requires": {"q": [1]}, "harmless": {"z": true}, "rope": {"theta": ["t", "r/t"]},
    "fields": {"width": {"key": "w"}, "heads": {"key": ["h", "n"]}}, "tensors": {}})";
  const std::string child = R"({"family": "c", "format": "gguf", "inherits": "p.json",
    "under": ["text", ""], "fields": {"layers": {"key": "l"}}})";
  const Family family = parse_family(
      "c.json", child, [&](std::string_view) { return std::optional<std::string_view>(parent); });
  using Keys = std::vector<std::string>;
  EXPECT_EQ(family.fields[0].second.keys, (Keys{"text/w", "w"}));
  EXPECT_EQ(family.fields[1].second.keys, (Keys{"text/h", "text/n", "h", "n"}));
  EXPECT_EQ(family.fields[2].second.keys, (Keys{"l"}));
  EXPECT_EQ(family.rope->theta, (Keys{"text/t", "text/r/t", "t", "r/t"}));
  EXPECT_EQ(family.requirements.size(), 2u);
  EXPECT_EQ(family.harmless.front().pattern, "text/z");
}

TEST(Formula, Arithmetic) {
  const auto value_of = [](const std::string& name) { return name == "width" ? 9.0 : 2.0; };
  EXPECT_EQ(evaluate_formula("1 + 2 * 3 - 8 / 4", value_of), 5);
  EXPECT_EQ(evaluate_formula("(1 + 2) * sqrt(width)", value_of), 9);
  EXPECT_EQ(evaluate_formula("width / biases.q", value_of), 4.5);
  EXPECT_EQ(evaluate_formula("2 * floor(width / biases.q)", value_of), 8);
  for (const char* bad : {"", "1 +", "(1", "1 2", "2x", "sqrt 4)", "floor(1", "$"}) {
    EXPECT_THROW(evaluate_formula(bad, value_of), UsageError) << bad;
  }
}

}  // namespace
}  // namespace regauge
