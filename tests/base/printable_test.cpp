#include "regauge/base/printable.h"

#include <gtest/gtest.h>

#include "regauge/base/error.h"

namespace regauge {
namespace {

TEST(Printable, LeavesTextAlone) {
  for (const char* text : {"", "model.layers.0.weight", "größe 漢字 🙂", "a\\b 'c' \"d\""}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, SpellsOutWhatATerminalObeysOrCannotShow) {
  EXPECT_EQ(printable("x\r\x1b[4A\n\ty\x7f"), "x\\r\\u{1b}[4A\\n\\ty\\u{7f}");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\u{0}b");
  EXPECT_EQ(printable("\u0085\u009b31m"), "\\u{85}\\u{9b}31m");
  EXPECT_EQ(printable("a\u202eb\u2066c\u200fd\u2028e\u061cf\ufeffg"),
            "a\\u{202e}b\\u{2066}c\\u{200f}d\\u{2028}e\\u{61c}f\\u{feff}g");
  EXPECT_EQ(printable("\U000E0041"), "\\u{e0041}");
}

TEST(Printable, SpellsOutBytesThatAreNoText) {
  EXPECT_EQ(printable("a\xff\xfe"), "a\\xff\\xfe");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");           // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");           // cut off
}

TEST(PrintableLines, KeepsLinesAndIndentsThem) {
  EXPECT_EQ(printable_lines("one\n  two\nthe same function\x1b[8m\n"),
            "one\n  two\n  the same function\\u{1b}[8m\n");
}

TEST(Error, HasAPrintableMessage) {
  EXPECT_STREQ(UsageError("tensor '\x1b[2Jx\nregauge: done'").what(),
               "tensor '\\u{1b}[2Jx\n  regauge: done'");
}

}  // namespace
}  // namespace regauge
