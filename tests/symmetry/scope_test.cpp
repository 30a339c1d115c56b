#include "regauge/symmetry/scope.h"

#include <gtest/gtest.h>

#include "architectures.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

std::vector<std::string> tensors_of(const char* scope) {
  std::vector<std::string> names;
  for (const auto& spec : parameter_specs(known_architectures().front().architecture)) {
    if (Scope(scope).contains_tensor(spec.name)) names.push_back(spec.name);
  }
  return names;
}

TEST(Scope, PartsOfAModelByTensor) {
  const auto all = parameter_specs(known_architectures().front().architecture).size();
  EXPECT_EQ(tensors_of("all").size(), all);
  EXPECT_EQ(tensors_of("attention:0"),
            (std::vector<std::string>{"layers.0.attn.q.weight", "layers.0.attn.k.weight",
                                      "layers.0.attn.v.weight", "layers.0.attn.o.weight"}));
  for (const auto& name : tensors_of("attention")) EXPECT_NE(name.find(".attn."), name.npos);
  for (const auto& name : tensors_of("block:1")) EXPECT_TRUE(name.starts_with("layers.1.")) << name;
  EXPECT_GT(tensors_of("block:1").size(), tensors_of("attention:1").size());
  EXPECT_LT(tensors_of("block").size(), all);
  EXPECT_THROW(Scope("heads").contains_tensor("layers.0.attn.q.weight"), UsageError);
}

TEST(Scope, KeepsItsLayers) {
  EXPECT_EQ(Scope("attention:0-2").layers(), ":0-2");
  EXPECT_EQ(Scope("attention").layers(), "");
}

TEST(Scope, RefusesWhatIsNone) {
  for (const char* text : {"everything", "attention:x", "heads,", ":0"}) {
    EXPECT_THROW(Scope{text}, UsageError) << text;
  }
}

}  // namespace
}  // namespace regauge
