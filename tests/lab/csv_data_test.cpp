#include <fmt/format.h>

#include <algorithm>

#include "data_fixture.h"

namespace regauge::lab {
namespace {

class CsvTest : public DataTest {
 protected:
  static Architecture reader(std::int64_t classes, std::int64_t vocabulary = 100) {
    Architecture a = classifier(0, 5, classes);
    a.input = Input::tokens;
    a.vocabulary = vocabulary;
    return a;
  }
  std::unique_ptr<Data> open(const Architecture& a, Split split = Split::all) const {
    return open_data(spec("csv", "x.csv"), a, split);
  }
  // The tokens of the only record.
  Numbers tokens(const std::string& record, std::int64_t vocabulary = 100) const {
    write("x.csv", record);
    return batch(*open(reader(1, vocabulary)), {0}).tokens;
  }
};

TEST_F(CsvTest, WordsBetweenBeginAndFill) {
  EXPECT_EQ(tokens("1,b b a\n"), (Numbers{0, 3, 3, 4, 1}));
  EXPECT_EQ(tokens("1,b b a"), (Numbers{0, 3, 3, 4, 1}));
  EXPECT_EQ(tokens("1,B-b a'b\r\n"), (Numbers{0, 3, 3, 4, 3}));
  EXPECT_EQ(tokens("1,a b c d e f"), (Numbers{0, 3, 4, 5, 6}));
  EXPECT_EQ(tokens("1,\n"), (Numbers{0, 1, 1, 1, 1}));
  EXPECT_EQ(tokens("1,\xc3\xa9t\xc3\xa9 \xc3\xa9t\xc3\xa9 42"), (Numbers{0, 3, 3, 4, 1}));
}

TEST_F(CsvTest, RareWordsAreOne) {
  EXPECT_EQ(tokens("1,c b c a", 4), (Numbers{0, 3, 2, 3, 2}));
  EXPECT_EQ(tokens("1,c b c a", 5), (Numbers{0, 3, 2, 3, 4})) << "equally frequent: by alphabet";
}

TEST_F(CsvTest, FieldsInQuotes) {
  EXPECT_EQ(tokens("\"1\",\"a, b\",\"b\"\n"), (Numbers{0, 4, 3, 3, 1}));
  EXPECT_EQ(tokens("1,\"a\"\"b\nb\"\n"), (Numbers{0, 4, 3, 3, 1}));
  EXPECT_EQ(tokens("1,a \"b\" b\n"), (Numbers{0, 4, 3, 3, 1})) << "a quote inside of a field";
}

TEST_F(CsvTest, ClassesInOrderAndFixedParts) {
  std::string file;
  for (int i = 0; i < 10; ++i) file += fmt::format("{},w{}\n\n", i % 2 == 0 ? 7 : -1, i);
  write("x.csv", file);
  const auto all = open(reader(2)), train = open(reader(2), Split::train),
             test = open(reader(2), Split::test);
  EXPECT_EQ(train->size(), 8);
  EXPECT_EQ(test->size(), 2);
  Numbers joined = labels(*train), of_all = labels(*all);
  for (const std::int64_t label : labels(*test)) joined.push_back(label);
  EXPECT_EQ(joined, of_all);
  EXPECT_EQ(std::count(of_all.begin(), of_all.end(), 0), 5);
  EXPECT_EQ(std::count(of_all.begin(), of_all.end(), 1), 5);
  // Words of the test part are not among the words that count.
  for (const std::int64_t i : {0, 1}) EXPECT_EQ(batch(*test, {i}).tokens[1], 2);
  for (std::int64_t i = 0; i < 8; ++i) EXPECT_GE(batch(*train, {i}).tokens[1], 3);
}

TEST_F(CsvTest, RefusesWhatItCannotTake) {
  write("x.csv", "1,a\n2,b\n");
  expect_error<UsageError>([&] { open(reader(3)); }, "classes must be 2, this architecture has 3");
  expect_error<UsageError>([&] { open(reader(2, 3)); },
                           "vocabulary must be at least 4, this architecture has 3");
  for (const char* text :
       {"label,text\n1,a\n", "1\n", "1 ,a\n", "99999999999999999999,a\n", ",a\n"}) {
    write("x.csv", text);
    expect_corrupt(
        Corruption::bad_entry, [&] { open(reader(1)); }, "record 1 is not a class");
  }
  write("x.csv", "1,\"a");
  expect_corrupt(
      Corruption::truncated, [&] { open(reader(1)); }, "ends inside of a quoted field");
  write("x.csv", "");
  expect_error<UsageError>([&] { open(reader(1)); }, "classes must be 0");
  write("x.csv", "1,a\n");
  expect_error<UsageError>([&] { open(reader(1), Split::test); }, "there are no examples");
}

}  // namespace
}  // namespace regauge::lab
