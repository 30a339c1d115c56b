#include "arch/family.h"

#include <gtest/gtest.h>

#include "arch/embedded.h"
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

TEST(Family, EveryEmbeddedFileIsRead) {
  EXPECT_EQ(all_families().size(), embedded_architectures().size());
  EXPECT_EQ(families(), (std::vector<std::string>{"bart",
                                                  "bert",
                                                  "biogpt",
                                                  "bloom",
                                                  "camembert",
                                                  "codegen",
                                                  "cohere",
                                                  "data2vec-text",
                                                  "deepseek_v3",
                                                  "deepseek_v3-direct",
                                                  "dinov2",
                                                  "dinov2-swiglu",
                                                  "dinov2_with_registers",
                                                  "dinov2_with_registers-swiglu",
                                                  "distilbert",
                                                  "electra",
                                                  "ernie",
                                                  "ernie4_5",
                                                  "eurobert",
                                                  "falcon",
                                                  "falcon-grouped",
                                                  "falcon-grouped-one-norm",
                                                  "gemma",
                                                  "gemma2",
                                                  "gemma3_text",
                                                  "glm",
                                                  "glm4_moe",
                                                  "gpt2",
                                                  "gpt_bigcode",
                                                  "gpt_neox",
                                                  "gpt_oss",
                                                  "gptj",
                                                  "granite",
                                                  "gte",
                                                  "helium",
                                                  "jina_embeddings_v3",
                                                  "llama",
                                                  "m2m_100",
                                                  "marian",
                                                  "marian-separate",
                                                  "mbart",
                                                  "ministral",
                                                  "mistral",
                                                  "mixtral",
                                                  "mpt",
                                                  "mt5",
                                                  "nomic_bert",
                                                  "olmo2",
                                                  "olmoe",
                                                  "openai-gpt",
                                                  "opt",
                                                  "pegasus",
                                                  "phi",
                                                  "phi3",
                                                  "qwen2",
                                                  "qwen2-sliding",
                                                  "qwen2_moe",
                                                  "qwen3",
                                                  "qwen3-sliding",
                                                  "qwen3_moe",
                                                  "regauge",
                                                  "roberta",
                                                  "seed_oss",
                                                  "smollm3",
                                                  "stablelm",
                                                  "starcoder",
                                                  "starcoder2",
                                                  "t5",
                                                  "t5-encoder",
                                                  "vit",
                                                  "xlm-roberta"}));
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
