// Vocabularies: read from every kind of file, compared by the text of the tokens.
#include "equivalence/beside/tokenizer.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>

#include "arch/fixture.h"
#include "regauge/base/error.h"
#include "temporary.h"

namespace regauge {
namespace {

using Json = nlohmann::json;
using Kind = VocabularyMatch::Kind;
using testing::fixture;
using testing::says;
using testing::Temporary;

Vocabulary of(std::vector<std::string> tokens) { return {"", std::move(tokens), {}}; }

class TokenizerFiles : public ::testing::Test {
 protected:
  // The fixture with these files beside it.
  std::optional<Vocabulary> read(const std::map<std::string, std::string>& files) {
    const auto path = folder / std::to_string(count++);
    std::filesystem::copy(fixture("llama"), path);
    for (const auto& [name, text] : files) std::ofstream(path / name, std::ios::binary) << text;
    return read_vocabulary(Model::open(path));
  }

  Temporary folder{"tokenizer"};
  int count = 0;
};

TEST_F(TokenizerFiles, AllKindsAreRead) {
  EXPECT_FALSE(read({}).has_value());
  const std::vector<std::string> wanted = {"<s>", "a", "b", "ab"};
  const Json pairs = {{"a", 1}, {"b", 2}, {"ab", 3}};
  const Json bpe = {{"model", {{"vocab", pairs}, {"merges", {"a b"}}}},
                    {"added_tokens", Json::array({{{"id", 0}, {"content", "<s>"}}})}};
  EXPECT_EQ(read({{"tokenizer.json", bpe.dump()}})->tokens, wanted);
  EXPECT_EQ(read({{"tokenizer.json", bpe.dump()}})->merges, std::vector<std::string>{"a b"});
  Json new_way = bpe;
  new_way["model"]["merges"] = Json::array({Json::array({"a", "b"})});
  EXPECT_EQ(read({{"tokenizer.json", new_way.dump()}})->merges, std::vector<std::string>{"a b"});
  const Json scored = Json::array({Json::array({"<s>", 0.0}), Json::array({"a", -1.0}),
                                   Json::array({"b", -2.0}), Json::array({"ab", -3.0})});
  const Json unigram = {{"model", {{"vocab", scored}}}};
  EXPECT_EQ(read({{"tokenizer.json", unigram.dump()}})->tokens, wanted);
  const auto split = read({{"vocab.json", pairs.dump()},
                           {"added_tokens.json", R"({"<s>": 0})"},
                           {"merges.txt", "#version: 0.2\na b\n"}});
  EXPECT_EQ(split->tokens, wanted);
  EXPECT_EQ(split->merges, std::vector<std::string>{"a b"});
  EXPECT_EQ(read({{"vocab.txt", "<s>\na\nb\r\nab"}})->tokens, wanted);
}

TEST_F(TokenizerFiles, HostileFilesAreErrors) {
  EXPECT_THROW(read({{"tokenizer.json", "[]"}}), Error);
  EXPECT_THROW(read({{"tokenizer.json", "{}"}}), UsageError);
  EXPECT_THROW(read({{"vocab.json", R"({"a": 99999999999})"}}), UsageError);
  EXPECT_THROW(read({{"vocab.json", R"({"a": -1})"}}), UsageError);
  EXPECT_THROW(read({{"vocab.json", R"({"a": "1"})"}}), UsageError);
}

TEST(Vocabularies, EqualPermutedOrDifferent) {
  EXPECT_EQ(compare_vocabularies(of({"a", "b", "c"}), of({"a", "b", "c"})).kind, Kind::equal);
  const auto permuted = compare_vocabularies(of({"a", "b", "c"}), of({"c", "a", "b"}));
  EXPECT_EQ(permuted.kind, Kind::permuted);
  EXPECT_EQ(permuted.a_from_b, (std::vector<std::int64_t>{2, 0, 1}));
  const auto different = compare_vocabularies(of({"a", "b", "c"}), of({"a", "b", "x"}));
  EXPECT_EQ(different.kind, Kind::different);
  ASSERT_EQ(different.differences.size(), 2u);
  EXPECT_TRUE(says(different.differences[0], "only A has the token \"c\", id 2"));
  EXPECT_EQ(compare_vocabularies(of({"a", "b"}), of({"a"})).kind, Kind::different);
}

TEST(Vocabularies, IdsWithoutATokenMatchEachOther) {
  EXPECT_EQ(compare_vocabularies(of({"a", "", "b"}), of({"a", "", "b", "", ""})).kind, Kind::equal);
  EXPECT_EQ(compare_vocabularies(of({"a", "", "b"}), of({"", "a", "b"})).a_from_b,
            (std::vector<std::int64_t>{1, 0, 2}));
}

TEST(Vocabularies, OtherMergesAreAnotherTokenizer) {
  Vocabulary a = of({"a", "b"}), b = a;
  a.merges = {"x y", "a b"};
  EXPECT_EQ(compare_vocabularies(a, b).kind, Kind::equal);  // B does not say
  b.merges = {"x y", "b a"};
  const auto match = compare_vocabularies(a, b);
  EXPECT_EQ(match.kind, Kind::different);
  EXPECT_TRUE(says(match.differences.at(0), "number 1"));
}

// Row i becomes row a_from_b[i], in the table and in the head.
TEST(Vocabularies, ThePatchesMoveTheTokens) {
  const Model a = Model::open(fixture("llama"));
  const auto rows = a.architecture.vocabulary;
  std::vector<std::int64_t> a_from_b;
  for (std::int64_t i = 0; i + 2 < rows; ++i) a_from_b.push_back((i + 5) % (rows - 2));
  const ParameterSource plain(a, a.architecture);
  const ParameterSource permuted(a, a.architecture, permuted_vocabulary(a.architecture, a_from_b));
  for (const char* name : {"embed.tokens", "head.weight"}) {
    const Matrix<double> before = plain.read<double>(name), after = permuted.read<double>(name);
    EXPECT_NE(before, after);
    for (std::size_t i = 0; i < a_from_b.size(); ++i) {
      const auto from = static_cast<Eigen::Index>(i);
      const Eigen::Index to = a_from_b[i];
      if (std::string(name) == "embed.tokens") {
        EXPECT_EQ(after.row(to), before.row(from));
      } else {
        EXPECT_EQ(after.col(to), before.col(from));
      }
    }
  }
  EXPECT_FALSE(permuted.is_patched("layers.0.attn.q.weight"));
  EXPECT_THROW(permuted_vocabulary(a.architecture,
                                   std::vector<std::int64_t>(static_cast<std::size_t>(rows + 1))),
               UsageError);
}

}  // namespace
}  // namespace regauge
