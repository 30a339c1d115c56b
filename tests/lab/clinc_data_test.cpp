#include "data_fixture.h"

namespace regauge::lab {
namespace {

class ClincTest : public DataTest {
 protected:
  ClincTest() {
    write("data_full.json", R"({"val": [], "oos_train": [["x", "oos"]],
        "train": [["hi you", "greet"], ["pay", "bill"], ["", "auto"]], "test": [["\u00e9", "bill"]]})");
  }
  static Architecture queries(std::int64_t classes) {
    Architecture a = classifier(0, 5, classes);
    a.input = Input::tokens;
    a.vocabulary = 258;
    return a;
  }
  std::unique_ptr<Data> open(const Architecture& a, Split split = Split::all) const {
    return open_data(spec("clinc"), a, split);
  }
};

TEST_F(ClincTest, BytesBetweenBeginAndFill) {
  const auto data = open(queries(3));
  EXPECT_EQ(labels(*data), (Numbers{2, 1, 0, 1}));
  EXPECT_EQ(batch(*data, {0, 1}).tokens,
            (Numbers{256, 'h', 'i', ' ', 'y', 256, 'p', 'a', 'y', 257}));
  EXPECT_EQ(batch(*data, {2}).tokens, (Numbers{256, 257, 257, 257, 257}));
  EXPECT_EQ(labels(*open(queries(3), Split::train)), (Numbers{2, 1, 0}));
  const auto test = open(queries(3), Split::test);
  EXPECT_EQ(batch(*test, {0}).tokens, (Numbers{256, 0xc3, 0xa9, 257, 257}));
}

TEST_F(ClincTest, DomainsAreClassesToo) {
  expect_error<UsageError>([&] { open(queries(2)); },
                           "classes must be 3 (the intents) or 0 (the domains of domains.json), "
                           "this architecture has 2");
  write("domains.json", R"({"talk": ["greet"], "money": ["auto", "bill"]})");
  EXPECT_EQ(labels(*open(queries(2))), (Numbers{1, 0, 0, 0}));
  EXPECT_EQ(labels(*open(queries(3))), (Numbers{2, 1, 0, 1}));
  expect_error<UsageError>([&] { open(queries(4)); }, "3 (the intents) or 2 (the domains");
  write("domains.json", R"({"talk": ["greet"], "money": ["bill"]})");
  expect_corrupt(
      Corruption::bad_entry, [&] { open(queries(2)); }, "domains.json has no domain for 'auto'");
  write("domains.json", R"({"talk": "greet"})");
  expect_corrupt(
      Corruption::bad_entry, [&] { open(queries(2)); }, "not an object of lists of intents");
}

TEST_F(ClincTest, RefusesWhatItCannotTake) {
  Architecture a = queries(3);
  a.vocabulary = 257;
  expect_error<UsageError>([&] { open(a); },
                           "vocabulary must be at least 258, this architecture has 257");
  for (const char* text : {"", "{", "\xff", "{\"train\": [[\"\xff\", \"a\"]]}"}) {
    write("data_full.json", text);
    expect_corrupt(
        Corruption::not_json, [&] { open(queries(3)); }, "data_full.json is not JSON");
  }
  for (const char* text : {"[]", "{}", R"({"train": 1})", R"({"train": [["a"]]})",
                           R"({"train": [["a", 1]]})", R"({"train": [["a", "b"]]})"}) {
    write("data_full.json", text);
    expect_corrupt(
        Corruption::bad_entry, [&] { open(queries(3)); }, "is not a list of pairs");
  }
  write("data_full.json", std::string(1'000'000, '['));
  expect_corrupt(
      Corruption::not_json, [&] { open(queries(3)); }, "data_full.json is not JSON");
}

}  // namespace
}  // namespace regauge::lab
