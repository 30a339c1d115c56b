// What was not understood or not read is compared all the same, and told.
#include "equivalence/beside/unread.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <fstream>

#include "arch/fixture.h"
#include "equivalence/beside/not_compared.h"
#include "equivalence/beside/vocabulary.h"
#include "regauge/arch/layout.h"
#include "temporary.h"

namespace regauge {
namespace {

using Json = nlohmann::json;
using testing::fixture;
using testing::says;
using testing::Temporary;

// A checkpoint in memory that starts as a fixture and can be changed.
class Copy {
 public:
  explicit Copy(const std::string& name) : original_(Checkpoint::open(fixture(name))) {
    config = original_.config();
    for (const auto& tensor : original_.tensors()) {
      const auto bytes = original_.bytes(tensor);
      add(tensor.name, tensor.dtype, tensor.shape, {bytes.begin(), bytes.end()});
    }
  }

  void add(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
           std::vector<std::byte> bytes) {
    auto owner = std::make_shared<std::vector<std::byte>>(std::move(bytes));
    tensors_.push_back({name, dtype, std::move(shape), *owner, owner});
  }
  void add_zeros(const std::string& name, std::int64_t count) {
    add(name, DType::f32, {count}, std::vector<std::byte>(static_cast<std::size_t>(4 * count)));
  }
  // Another lowest byte of one number.
  void spoil(const std::string& name, std::size_t at) {
    for (auto& tensor : tensors_) {
      if (tensor.name != name) continue;
      std::vector<std::byte> bytes(tensor.bytes.begin(), tensor.bytes.end());
      bytes.at(4 * at) ^= std::byte{1};
      auto owner = std::make_shared<std::vector<std::byte>>(std::move(bytes));
      tensor.bytes = *owner;
      tensor.owner = owner;
    }
  }
  // Another number of rows: zeros, or fewer.
  void resize_rows(const std::string& name, std::int64_t rows) {
    for (auto& tensor : tensors_) {
      if (tensor.name != name) continue;
      std::vector<std::byte> bytes(tensor.bytes.begin(), tensor.bytes.end());
      bytes.resize(bytes.size() / static_cast<std::size_t>(tensor.shape[0]) *
                   static_cast<std::size_t>(rows));
      auto owner = std::make_shared<std::vector<std::byte>>(std::move(bytes));
      tensor.shape[0] = rows;
      tensor.bytes = *owner;
      tensor.owner = owner;
    }
  }
  Model model() const { return Model::open(Checkpoint::in_memory(config, tensors_)); }

  Json config;

 private:
  Checkpoint original_;
  std::vector<MemoryTensor> tensors_;
};

Unread compared(const Model& a, const Model& b) { return compare_unread(a, b, Progress::silent()); }

TEST(Unread, NothingIsSaidWhereAllWasUnderstood) {
  const Model model = Copy("llama").model();
  const Unread result = compared(model, model);
  EXPECT_TRUE(result.differ.empty());
  EXPECT_TRUE(result.equal.empty());
}

TEST(Unread, KeysThatAreNotUnderstood) {
  Copy a("llama"), b("llama");
  b.config["is_causal"] = false;
  Unread result = compared(a.model(), b.model());
  ASSERT_EQ(result.differ.size(), 1u);
  EXPECT_TRUE(says(result.differ[0], "'is_causal'") && says(result.differ[0], "only B"))
      << result.differ[0];
  a.config["is_causal"] = false;
  result = compared(a.model(), b.model());
  EXPECT_TRUE(result.differ.empty());
  ASSERT_EQ(result.equal.size(), 1u);
  a.config["logit_scale"] = 2;
  b.config["logit_scale"] = 3;
  result = compared(a.model(), b.model());
  ASSERT_EQ(result.differ.size(), 1u);
  EXPECT_TRUE(says(result.differ[0], "2 in A and 3 in B")) << result.differ[0];
}

TEST(Unread, AKeyHasNoCounterpartInAnotherFormat) {
  Copy a("llama");
  a.config["is_causal"] = false;
  const Unread result = compared(a.model(), Model::open(fixture("llama-gguf")));
  ASSERT_EQ(result.differ.size(), 1u);
  EXPECT_TRUE(says(result.differ[0], "only A")) << result.differ[0];
}

TEST(Unread, AnotherHeadIsComparedToTheLastBit) {
  Copy a("bert"), b("bert");
  for (Copy* copy : {&a, &b}) copy->add_zeros("another_head.weight", 12);
  Unread result = compared(a.model(), b.model());
  EXPECT_TRUE(result.differ.empty());
  EXPECT_EQ(result.equal.size(), 1u);
  b.spoil("another_head.weight", 7);
  result = compared(a.model(), b.model());
  ASSERT_EQ(result.differ.size(), 1u);
  EXPECT_TRUE(says(result.differ[0], "'another_head.weight'")) << result.differ[0];
}

TEST(Unread, ATensorOfOneFileAloneIsNamed) {
  Copy a("llama"), b("llama");
  b.add_zeros("model.layers.1.self_attn.q_proj.bias", 4);
  EXPECT_EQ(compared(a.model(), b.model()).differ.size(), 1u);
  EXPECT_EQ(compared(b.model(), a.model()).differ.size(), 1u);
  a.add_zeros("model.layers.1.self_attn.q_proj.bias", 8);
  const Unread result = compared(a.model(), b.model());
  ASSERT_EQ(result.differ.size(), 1u);
  EXPECT_TRUE(says(result.differ[0], "shape")) << result.differ[0];
}

TEST(Unread, BuffersThatNothingReadsAreDead) {
  Copy a("llama"), b("llama");
  b.add_zeros("model.layers.1.self_attn.rotary_emb.inv_freq", 4);
  b.add_zeros("model.rotary_emb.inv_freq", 4);
  EXPECT_TRUE(compared(a.model(), b.model()).differ.empty());
  b.add_zeros("model.layers.x.self_attn.rotary_emb.inv_freq", 4);
  EXPECT_EQ(compared(a.model(), b.model()).differ.size(), 1u);
}

TEST(Unread, ManySentencesAreCounted) {
  Copy a("llama"), b("llama");
  for (int i = 0; i < 30; ++i) b.add_zeros("extra." + std::to_string(i), 1);
  const Unread result = compared(a.model(), b.model());
  EXPECT_LT(result.differ.size(), 25u);
  EXPECT_TRUE(says(result.differ.back(), "10 tensors more")) << result.differ.back();
}

TEST(VocabularyLength, TokensOfAHeadMatter) {
  Copy a("llama"), b("llama");
  const auto rows = a.model().architecture.vocabulary;
  EXPECT_TRUE(vocabulary_differences(a.model(), b.model()).matter.empty());
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"}) {
    b.resize_rows(name, rows + 3);
  }
  b.config["vocab_size"] = rows + 3;
  VocabularyNotes notes = vocabulary_differences(a.model(), b.model());
  ASSERT_EQ(notes.matter.size(), 1u);
  EXPECT_TRUE(notes.harmless.empty());
  EXPECT_TRUE(says(notes.matter[0], "B has 3 tokens more than A")) << notes.matter[0];
  EXPECT_TRUE(says(notes.matter[0], std::to_string(rows) + " to " + std::to_string(rows + 2)));
  EXPECT_TRUE(says(notes.matter[0], "zero")) << notes.matter[0];
  // Half of the vocabulary is no padding.
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"}) {
    b.resize_rows(name, rows / 2);
  }
  b.config["vocab_size"] = rows / 2;
  notes = vocabulary_differences(a.model(), b.model());
  ASSERT_EQ(notes.matter.size(), 1u);
  EXPECT_TRUE(says(notes.matter[0], "A has")) << notes.matter[0];
  EXPECT_FALSE(says(notes.matter[0], "zero")) << notes.matter[0];
}

TEST(VocabularyLength, RowsThatNoInputReachesAreHarmless) {
  Copy a("llama-hidden"), b("llama-hidden");
  const auto rows = a.model().architecture.vocabulary;
  const bool prefixed = a.model().checkpoint.find("model.embed_tokens.weight") != nullptr;
  b.resize_rows(prefixed ? "model.embed_tokens.weight" : "embed_tokens.weight", rows + 3);
  b.config["vocab_size"] = rows + 3;
  const VocabularyNotes notes = vocabulary_differences(a.model(), b.model());
  EXPECT_TRUE(notes.matter.empty());
  EXPECT_EQ(notes.harmless.size(), 1u);
}

TEST(NotCompared, NamesWhatLiesBesideTheWeights) {
  const Temporary folder("not_compared");
  const auto copy = [&](const std::string& name, const std::vector<std::string>& files) {
    std::filesystem::copy(fixture("llama"), folder / name);
    for (const auto& file : files) std::ofstream(folder / name / file) << "{}";
    return Model::open(folder / name);
  };
  const Model plain = copy("plain", {});
  const Model a = copy("a", {"tokenizer.json", "README.md"});
  const Model b = copy("b", {"tokenizer.json", "generation_config.json", "modeling_x.py"});
  EXPECT_TRUE(not_compared(plain, plain).empty());
  EXPECT_EQ(not_compared(a, b),
            std::vector<std::string>{"not compared: generation_config.json (in B), modeling_x.py "
                                     "(in B), tokenizer.json"});
  EXPECT_EQ(not_compared(a, plain),
            std::vector<std::string>{"not compared: tokenizer.json (in A)"});
}

}  // namespace
}  // namespace regauge
