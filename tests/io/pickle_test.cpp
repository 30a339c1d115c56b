#include "io/pickle.h"

#include <gtest/gtest.h>

#include <limits>

#include "files.h"
#include "io/corrupt.h"

namespace regauge {
namespace {

using namespace testing;
using io::Pickle, io::PickleValue;
using Kind = PickleValue::Kind;

Pickle read(const std::string& opcodes, char protocol = 4) {
  const std::string bytes = std::string("\x80") + protocol + opcodes + ".";
  return Pickle(std::as_bytes(std::span(bytes)), "test");
}

TEST(Pickle, ReadsNumbersOfAnyWidth) {
  const auto integer = [](const std::string& opcodes) {
    const Pickle pickle = read(opcodes);
    EXPECT_TRUE(pickle.root().is(Kind::integer));
    return pickle.root().integer;
  };
  EXPECT_EQ(integer("K\xff"), 255);
  EXPECT_EQ(integer("M\xff\xff"), 65535);
  EXPECT_EQ(integer("J\xff\xff\xff\xff"), -1);
  EXPECT_EQ(integer(std::string("\x8a\0", 2)), 0);
  EXPECT_EQ(integer("\x8a\1\xff"), -1);
  EXPECT_EQ(integer(std::string("\x8a\2\xff\0", 4)), 255);
  EXPECT_EQ(integer("\x8a\x8" + raw(std::numeric_limits<std::int64_t>::min())),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_TRUE(read("\x8a\x9" + std::string(9, '\1')).root().is(Kind::long_integer));
  EXPECT_EQ(read(std::string("G\x3f\xf8\0\0\0\0\0\0", 9)).root().real, 1.5);
}

TEST(Pickle, SharesWhatItsMemoHolds) {
  // [[]] * 2 in a list that also holds itself.
  const Pickle pickle =
      read("]q" + std::string(1, '\0') + "(]q\1h\1h" + std::string(1, '\0') + "e");
  const PickleValue& list = pickle.root();
  ASSERT_EQ(list.items.size(), 3U);
  EXPECT_EQ(list.items[0], list.items[1]);
  EXPECT_EQ(list.items[2], &list);
}

TEST(Pickle, DescribesObjectsAndMakesNone) {
  const Pickle pickle = read("ctorch\nSize\nK\2K\3\x86\x85RNb");
  const PickleValue& size = pickle.root();
  EXPECT_TRUE(size.is_object("torch.Size"));
  ASSERT_EQ(size.items.size(), 3U);
  EXPECT_EQ(size.items[1]->items[0]->items[1]->integer, 3);
  EXPECT_TRUE(size.items[2]->is(Kind::none));
}

TEST(Pickle, TakesPythonsDictsForDicts) {
  for (const char* name : {"OrderedDict", "defaultdict", "Counter"}) {
    const Pickle pickle = read(std::string("ccollections\n") + name + "\n)R(K\1K\2u}b");
    EXPECT_TRUE(pickle.root().is(Kind::dict)) << name;
    EXPECT_EQ(pickle.root().items.size(), 2U) << name;
  }
}

// Each level holds the one below ten times: 10^30 values for who walks them.
TEST(Pickle, ABombOfTheMemoStaysSmall) {
  std::string opcodes = "]\x94";
  for (char level = 0; level < 30; ++level) {
    opcodes += "](";
    for (int i = 0; i < 10; ++i) opcodes += std::string("h") + level;
    opcodes += "e\x94";
  }
  // All but the outermost level go with the tuple.
  const Pickle pickle = read("(" + opcodes + "t");
  EXPECT_EQ(pickle.root().items.back()->items.size(), 10U);
}

TEST(Pickle, DepthCostsNothing) {
  const std::size_t depth = 100'000;
  const Pickle pickle = read(std::string(depth, ']') + std::string(depth - 1, 'a'));
  EXPECT_EQ(pickle.root().items.size(), 1U);
}

TEST(Pickle, SaysWhatItRefusedAndThatNothingIsRun) {
  try {
    read("cos\nsystem\n(Vtouch x\ntR");
    FAIL();
  } catch (const CorruptFile& error) {
    EXPECT_STREQ(error.what(),
                 "test: byte 2: it names os.system, which is not among the few that weights are "
                 "saved with. Nothing in a pickle is ever run; save the weights as safetensors, or "
                 "the state dict alone by torch.save");
  }
  try {
    read("(ios\nsystem\n");
    FAIL();
  } catch (const CorruptFile& error) {
    EXPECT_STREQ(error.what(),
                 "test: byte 3: the opcode INST is not one that weights are saved with. Nothing in "
                 "a pickle is ever run; save the weights as safetensors, or the state dict alone "
                 "by torch.save");
  }
}

}  // namespace
}  // namespace regauge
