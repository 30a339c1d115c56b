#include "io/corrupt.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "files.h"
#include "regauge/io/checkpoint.h"

namespace regauge {
namespace {

using namespace testing;
using namespace std::string_literals;
namespace fs = std::filesystem;

// Makes a corrupt checkpoint in a folder and returns what to open.
using Build = std::function<fs::path(const TemporaryFolder&)>;

struct Case {
  Corruption cause;
  std::string what;
  Build build;
};

Build file(std::string name, std::string bytes) {
  return [=](const TemporaryFolder& folder) {
    write_bytes(folder / name, bytes);
    return folder / name;
  };
}
Build safetensors(const std::string& header, const std::string& data = "") {
  return file("x.safetensors", safetensors_bytes(header, data));
}
Build gguf(const std::string& bytes) { return file("x.gguf", bytes); }
Build llama2c(std::vector<std::int32_t> header, std::size_t floats = 100) {
  return file("x.bin", llama2c_bytes(header, floats));
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

// A folder of two shards, a in the first and `second` in the second, with this weight_map.
Build shards(const std::string& index, const std::string& second = "b") {
  return [=](const TemporaryFolder& folder) {
    const std::string byte = entry("U8", "[1]", "[0,1]");
    write_bytes(folder / "config.json", "{}");
    write_bytes(folder / "1.safetensors", safetensors_bytes(R"({"a":)" + byte + "}", "x"));
    write_bytes(folder / "2.safetensors",
                safetensors_bytes("{\"" + second + "\":" + byte + "}", "x"));
    write_bytes(folder / "model.safetensors.index.json", index);
    return folder.path();
  };
}

constexpr std::uint32_t kF32 = 0, kQ8_0 = 8;
constexpr std::uint32_t kU32Value = 4, kArrayValue = 9;

std::string nested_arrays(int depth) {
  std::string value;
  for (int i = 0; i < depth; ++i) value += raw(kArrayValue) + raw<std::uint64_t>(1);
  return value + raw<std::uint32_t>(0) + raw<std::uint64_t>(0);
}

void add_safetensors_cases(std::vector<Case>& cases) {
  using enum Corruption;
  const std::string byte = entry("U8", "[1]", "[0,1]");
  const auto one = [](const std::string& text) { return R"({"x":)" + text + "}"; };
  cases.insert(
      cases.end(),
      {{header_too_short, "empty file", file("x.safetensors", "")},
       {header_too_short, "seven bytes", file("x.safetensors", "1234567")},
       {header_too_large, "length of 2^64 - 1",
        file("x.safetensors", std::string(8, '\xff') + "{}")},
       {header_too_large, "length above the cap",
        file("x.safetensors", raw<std::uint64_t>(100'000'001) + "{}")},
       {header_truncated, "length above the file",
        file("x.safetensors", raw<std::uint64_t>(3) + "{}")},
       {not_utf8, "bad byte", safetensors("{\"\xff\":1}")},
       {not_utf8, "overlong slash", safetensors("{\"\xc0\xaf\":1}")},
       {not_utf8, "surrogate", safetensors("{\"\xed\xa0\x80\":1}")},
       {not_json, "empty header", safetensors("")},
       {not_json, "cut short", safetensors("{\"x\":")},
       {not_json, "text after it", safetensors("{} x")},
       {not_json, "an array", safetensors("[]")},
       {not_json, "a comment", safetensors("{/**/}")},
       {not_json, "deep nesting", safetensors(std::string(1000, '[') + std::string(1000, ']'))},
       {duplicate_key, "tensor twice",
        safetensors(R"({"x":)" + byte + R"(,"x":)" + byte + "}", "a")},
       {duplicate_key, "tensor twice, once escaped",
        safetensors(R"({"x":)" + byte + R"(,"\u0078":)" + byte + "}", "a")},
       {duplicate_key, "dtype twice",
        safetensors(R"({"x":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "a")},
       {bad_metadata, "a number", safetensors(R"({"__metadata__":{"a":1}})")},
       {bad_metadata, "a string", safetensors(R"({"__metadata__":"a"})")},
       {bad_entry, "a number", safetensors(R"({"x":1})")},
       {bad_entry, "no shape", safetensors(R"({"x":{"dtype":"U8","data_offsets":[0,1]}})", "a")},
       {bad_entry, "one key more",
        safetensors(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"y":0}})", "a")},
       {bad_entry, "dtype is a number",
        safetensors(R"({"x":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})", "a")},
       {unknown_dtype, "f7", safetensors(one(entry("f7", "[1]", "[0,1]")), "a")},
       {unknown_dtype, "a type of GGUF", safetensors(one(entry("Q8_0", "[32]", "[0,34]")))},
       {bad_shape, "negative", safetensors(one(entry("U8", "[-1]", "[0,1]")), "a")},
       {bad_shape, "a fraction", safetensors(one(entry("U8", "[1.0]", "[0,1]")), "a")},
       {bad_shape, "not a list", safetensors(one(entry("U8", "1", "[0,1]")), "a")},
       {bad_shape, "2^63", safetensors(one(entry("U8", "[9223372036854775808]", "[0,1]")), "a")},
       {bad_shape, "2^32 * 2^32 wraps to 0",
        safetensors(one(entry("U8", "[4294967296,4294967296]", "[0,0]")))},
       {bad_shape, "2^61 * 8 wraps to 0",
        safetensors(one(entry("F64", "[2305843009213693952]", "[0,0]")))},
       {bad_offsets, "backwards", safetensors(one(entry("U8", "[1]", "[1,0]")), "a")},
       {bad_offsets, "negative", safetensors(one(entry("U8", "[1]", "[-1,0]")), "a")},
       {bad_offsets, "three", safetensors(one(entry("U8", "[1]", "[0,1,2]")), "a")},
       {size_mismatch, "too few", safetensors(one(entry("F32", "[2,2]", "[0,8]")), "12345678")},
       {overlap, "same bytes", safetensors(R"({"x":)" + byte + R"(,"y":)" + byte + "}", "a")},
       {overlap, "one byte",
        safetensors(R"({"x":)" + entry("U8", "[2]", "[0,2]") + R"(,"y":)" +
                        entry("U8", "[2]", "[1,3]") + "}",
                    "abc")},
       {hole, "at the start", safetensors(one(entry("U8", "[1]", "[1,2]")), "ab")},
       {hole, "between",
        safetensors(R"({"x":)" + byte + R"(,"y":)" + entry("U8", "[1]", "[2,3]") + "}", "abc")},
       {truncated, "no data", safetensors(one(byte))},
       {trailing_bytes, "one byte more", safetensors(one(byte), "ab")}});
}

void add_index_cases(std::vector<Case>& cases) {
  using enum Corruption;
  const auto map = [](const std::string& text) { return R"({"weight_map":{)" + text + "}}"; };
  cases.insert(
      cases.end(),
      {{not_json, "index", shards("nonsense")},
       {duplicate_key, "index", shards(map(R"("a":"1.safetensors","a":"1.safetensors")"))},
       {bad_index, "no weight_map", shards("{}")},
       {bad_index, "weight_map is a list", shards(R"({"weight_map":[]})")},
       {bad_index, "file is a number", shards(map(R"("a":1)"))},
       {bad_shard_name, "parent", shards(map(R"("a":"../1.safetensors")"))},
       {bad_shard_name, "absolute", shards(map(R"("a":"/1.safetensors")"))},
       {bad_shard_name, "backslash", shards(map(R"("a":"x\\1.safetensors")"))},
       {bad_shard_name, "zero byte", shards(map(R"("a":"1\u0000.safetensors")"))},
       {bad_shard_name, "hidden", shards(map(R"("a":".safetensors")"))},
       {bad_shard_name, "other kind", shards(map(R"("a":"config.json")"))},
       {missing_shard, "third file", shards(map(R"("a":"3.safetensors")"))},
       {missing_tensor, "nowhere", shards(map(R"("c":"1.safetensors")"))},
       {missing_tensor, "in the other shard",
        shards(map(R"("a":"2.safetensors","b":"1.safetensors")"))},
       {tensor_in_two_shards, "a", shards(map(R"("a":"1.safetensors","b":"2.safetensors")"), "a")},
       {not_json, "config.json", [](const TemporaryFolder& folder) {
          write_bytes(folder / "config.json", "[1]");
          write_bytes(folder / "model.safetensors", safetensors_bytes("{}", ""));
          return folder.path();
        }}});
}

void add_gguf_cases(std::vector<Case>& cases) {
  using enum Corruption;
  const std::string one = raw<std::uint32_t>(1);
  const std::string data(32, 'x');
  cases.insert(
      cases.end(),
      {{header_too_short, "GGUF", gguf("GGUF")},
       {bad_magic, "GGML", gguf("GGML" + std::string(20, '\0'))},
       {unsupported_version, "1", gguf(gguf_bytes({}, {}, "", 1))},
       {unsupported_version, "big-endian 3", gguf(gguf_bytes({}, {}, "", 3u << 24))},
       {header_truncated, "2^64 - 1 tensors",
        gguf("GGUF" + raw<std::uint32_t>(3) + std::string(8, '\xff') + std::string(8, '\0'))},
       {header_truncated, "2^64 - 1 pairs",
        gguf("GGUF" + raw<std::uint32_t>(3) + std::string(8, '\0') + std::string(8, '\xff'))},
       {header_truncated, "a key of 2^64 - 1 bytes",
        gguf(gguf_bytes({std::string(8, '\xff') + std::string(8, 'a')}, {}, ""))},
       {header_truncated, "an array of 2^62 numbers",
        gguf(gguf_bytes({gguf_pair("a", kArrayValue, raw(kU32Value) + raw(std::uint64_t{1} << 62))},
                        {}, ""))},
       {not_utf8, "key", gguf(gguf_bytes({gguf_pair("\xff", kU32Value, one)}, {}, ""))},
       {not_utf8, "tensor", gguf(gguf_bytes({}, {gguf_tensor("\xff", {8}, kF32, 0)}, data))},
       {duplicate_key, "key twice",
        gguf(gguf_bytes({gguf_pair("a", kU32Value, one), gguf_pair("a", kU32Value, one)}, {}, ""))},
       {duplicate_key, "tensor twice",
        gguf(gguf_bytes({}, {gguf_tensor("a", {0}, kF32, 0), gguf_tensor("a", {0}, kF32, 0)}, ""))},
       {unknown_value_type, "13", gguf(gguf_bytes({gguf_pair("a", 13, one)}, {}, ""))},
       {unknown_value_type, "in an array",
        gguf(gguf_bytes(
            {gguf_pair("a", kArrayValue, raw<std::uint32_t>(99) + std::string(8, '\0'))}, {}, ""))},
       {nested_too_deeply, "100 arrays",
        gguf(gguf_bytes({gguf_pair("a", kArrayValue, nested_arrays(100))}, {}, ""))},
       {bad_alignment, "zero",
        gguf(gguf_bytes({gguf_pair("general.alignment", kU32Value, raw<std::uint32_t>(0))}, {},
                        ""))},
       {bad_alignment, "24",
        gguf(gguf_bytes({gguf_pair("general.alignment", kU32Value, raw<std::uint32_t>(24))}, {},
                        ""))},
       {unknown_dtype, "5", gguf(gguf_bytes({}, {gguf_tensor("a", {8}, 5, 0)}, data))},
       {bad_shape, "five dimensions",
        gguf(gguf_bytes({}, {gguf_tensor("a", {1, 1, 1, 1, 8}, kF32, 0)}, data))},
       {bad_shape, "2^63",
        gguf(gguf_bytes({}, {gguf_tensor("a", {std::uint64_t{1} << 63}, kF32, 0)}, data))},
       {bad_shape, "2^62 floats",
        gguf(gguf_bytes({}, {gguf_tensor("a", {std::uint64_t{1} << 62}, kF32, 0)}, data))},
       {bad_shape, "a part of a block",
        gguf(gguf_bytes({}, {gguf_tensor("a", {16, 2}, kQ8_0, 0)}, data))},
       {bad_offsets, "not aligned", gguf(gguf_bytes({}, {gguf_tensor("a", {8}, kF32, 4)}, data))},
       {bad_offsets, "2^63",
        gguf(gguf_bytes({}, {gguf_tensor("a", {8}, kF32, std::uint64_t{1} << 63)}, data))},
       {overlap, "same offset",
        gguf(gguf_bytes({}, {gguf_tensor("a", {8}, kF32, 0), gguf_tensor("b", {8}, kF32, 0)},
                        data))},
       {hole, "32 bytes", gguf(gguf_bytes({}, {gguf_tensor("a", {8}, kF32, 32)}, data + data))},
       {truncated, "one byte short",
        gguf(gguf_bytes({}, {gguf_tensor("a", {8}, kF32, 0)}, data.substr(1)))},
       {trailing_bytes, "one byte more",
        gguf(gguf_bytes({}, {gguf_tensor("a", {8}, kF32, 0)}, data + "x"))}});
}

void add_llama2c_cases(std::vector<Case>& cases) {
  using enum Corruption;
  constexpr std::int32_t kMax = 0x7fffffff, kMin = -kMax - 1;
  cases.insert(cases.end(),
               {{header_too_short, "27 bytes", file("x.bin", std::string(27, '\1'))},
                {unsupported_version, "1", llama2c({0x616b3432, 1, 2, 2, 1, 3, 5})},
                {bad_header, "no layers", llama2c({4, 6, 0, 2, 1, 3, 5})},
                {bad_header, "heads do not divide", llama2c({4, 6, 2, 3, 1, 3, 5})},
                {bad_header, "odd head", llama2c({6, 6, 2, 2, 1, 3, 5})},
                {bad_header, "kv heads do not divide", llama2c({4, 6, 2, 2, 3, 3, 5})},
                {bad_header, "negative", llama2c({-4, 6, 2, 2, 1, 3, 5})},
                {bad_shape, "overflow", llama2c({kMax - 1, kMax, kMax, 1, 1, kMin, kMax})},
                {truncated, "no data", llama2c({4, 6, 2, 2, 1, 3, 5}, 0)},
                {truncated, "many layers", llama2c({2, 1, kMax, 1, 1, 1, 1})},
                {trailing_bytes, "one float more",
                 llama2c({4, 6, 2, 2, 1, 3, 5}, 12 + 2 * 128 + 4 + 10 + 1)}});
}

void add_zip_cases(std::vector<Case>& cases) {
  using enum Corruption;
  const auto zip = [](const std::string& bytes) { return file("x.pt", bytes); };
  const std::string whole = torch_bytes("}", "");
  // With so many bytes from `at` on replaced; counted from the end if negative.
  const auto with = [&](std::ptrdiff_t at, const std::string& bytes) {
    std::string changed = whole;
    const auto from = at < 0 ? static_cast<std::ptrdiff_t>(whole.size()) + at : at;
    return changed.replace(static_cast<std::size_t>(from), bytes.size(), bytes);
  };
  const std::size_t directory = whole.find("PK\1\2");
  const auto entry = static_cast<std::ptrdiff_t>(directory);
  cases.insert(
      cases.end(),
      {{truncated, "no end", zip(whole.substr(0, whole.size() - 1))},
       {truncated, "a byte after the end", zip(whole + "x")},
       {truncated, "a file goes past the directory",
        zip(with(entry + 20, raw<std::uint32_t>(1000) + raw<std::uint32_t>(1000)))},
       {bad_archive, "several disks", zip(with(-18, "\1"))},
       {bad_archive, "a comment that is not there", zip(with(-2, "\1"))},
       {bad_archive, "no zip64 end", zip(with(-12, std::string(8, '\xff')))},
       {bad_archive, "directory past the end", zip(with(-6, raw<std::uint32_t>(0xfffffff)))},
       {bad_archive, "more entries than bytes", zip(with(-12, "\xff\xfe"))},
       {bad_archive, "fewer entries than bytes", zip(with(-12, "\1"))},
       {bad_archive, "no entry", zip(with(entry, "PK\0\0"s))},
       {bad_archive, "entry cut short", zip(with(entry + 32, "\xff\xff"))},
       {bad_archive, "no local header", zip(with(entry + 42, "\1"))},
       {bad_archive, "local header past the end", zip(with(entry + 42, "\xfe\xff\xff\xff"))},
       {bad_archive, "local header of another name", zip(with(30, "y"))},
       {not_utf8, "name", zip(zip_bytes({{"\xff", ""}}))},
       {duplicate_key, "a name twice", zip(zip_bytes({{"a", ""}, {"a", ""}}))},
       {overlap, "one file inside another", [&] {
          std::string bytes = zip_bytes({{"a", zip_bytes({{"b", "x"}})}, {"b", "x"}});
          const std::size_t inner = bytes.find("PK\3\4", 1);
          const std::size_t second = bytes.rfind("PK\1\2");
          bytes.replace(second + 42, 4, raw(static_cast<std::uint32_t>(inner)));
          return zip(bytes);
        }()}});
}

void add_pickle_cases(std::vector<Case>& cases) {
  using enum Corruption;
  const std::string numbers(16, 'x');
  const auto pickle = [&](const std::string& opcodes) {
    return file("x.pt", torch_bytes(opcodes, numbers));
  };
  const auto raw_pickle = [](const std::string& bytes) {
    return file("x.pt", zip_bytes({{"x/data.pkl", bytes}}));
  };
  const auto tensor = [&](const PickledTensor& one, const std::string& data = "0123456789abcdef") {
    return file("x.pt", torch_bytes("}" + pickled("a") + pickled(one) + "s", data));
  };
  const std::string call = "(" + pickled("echo no > no") + "tR";
  cases.insert(
      cases.end(),
      {{refused_global, "os.system", pickle("cos\nsystem\n" + call)},
       {refused_global, "posix.system", pickle("cposix\nsystem\n" + call)},
       {refused_global, "builtins.eval", pickle("cbuiltins\neval\n" + call)},
       {refused_global, "another name of torch", pickle("ctorch\nload\n" + call)},
       {refused_global, "a dot at another place", pickle("ctorch._utils._rebuild_tensor\nv2\n")},
       {refused_global, "empty", pickle("c\n\n")},
       {refused_global, "by the stack", pickle(pickled("os") + pickled("system") + "\x93" + call)},
       {refused_global, "not UTF-8", pickle("c\xff\n\xff\n")},
       {refused_opcode, "INST", pickle("(" + pickled("no") + "ios\nsystem\n")},
       {refused_opcode, "OBJ", pickle("(ctorch\nSize\no")},
       {refused_opcode, "EXT1", pickle("\x82\1")},
       {refused_opcode, "DUP", pickle("}2")},
       {refused_opcode, "none of Python", pickle("\xff")},
       {refused_opcode, "a second PROTO", pickle("\x80\x02}")},
       {bad_magic, "text", raw_pickle("nonsense")},
       {unsupported_version, "1", raw_pickle("\x80\1}.")},
       {unsupported_version, "6", raw_pickle("\x80\6}.")},
       {header_truncated, "empty", raw_pickle("")},
       {header_truncated, "no STOP", raw_pickle("\x80\2}")},
       {header_truncated, "text of 4 GB", raw_pickle("\x80\2X\xff\xff\xff\xff.")},
       {header_truncated, "text of 2^64 - 1", raw_pickle("\x80\4\x8d" + std::string(8, '\xff'))},
       {header_truncated, "frame of 2^64 - 1", raw_pickle("\x80\4\x95" + std::string(8, '\xff'))},
       {header_truncated, "name without an end", raw_pickle("\x80\2ctorch")},
       {trailing_bytes, "after STOP", raw_pickle("\x80\2}..")},
       {not_utf8, "text", pickle(pickled("\xff"))},
       {nested_too_deeply, "a million marks", pickle(std::string(1'000'000, '('))},
       {bad_pickle, "nothing at all", pickle("")},
       {bad_pickle, "no mark", pickle("t")},
       {bad_pickle, "a tuple reaches below a mark", pickle("N(\x85")},
       {bad_pickle, "no such memo", pickle("h\5")},
       {bad_pickle, "a far place of the memo", pickle("}r\xff\xff\xff\xff")},
       {bad_pickle, "a list called", pickle("])R")},
       {bad_pickle, "called with a list", pickle("ctorch\nSize\n]R")},
       {bad_pickle, "appended to a dict", pickle("}Na")},
       {bad_pickle, "keys of a list", pickle("](NNu")},
       {bad_pickle, "a key without a value", pickle("}(Nu")},
       {bad_pickle, "state of a list", pickle("]Nb")},
       {bad_pickle, "a second state", pickle("ctorch\nSize\n)RNbNb")},
       {bad_pickle, "a global named by numbers", pickle("K\1K\1\x93")},
       {bad_pickle, "something left", pickle("}}")},
       {bad_pickle, "a mark left", pickle("(}")},
       {duplicate_key, "in the state dict",
        pickle("}(" + pickled("a") + pickled(PickledTensor{}) + pickled("a") +
               pickled(PickledTensor{}) + "u")},
       {missing_tensor, "no storage", tensor({.key = "1"})},
       {missing_tensor, "a storage elsewhere", tensor({.key = "../data.pkl"})},
       {bad_entry, "a storage of an odd type", tensor({.type = "torch\nSize"})},
       {bad_entry, "no arguments",
        pickle("}" + pickled("a") + "ctorch._utils\n_rebuild_tensor_v2\n)Rs")},
       {unknown_dtype, "a size",
        pickle("}" + pickled("a") +
               [] {
                 std::string typed = pickled(PickledTensor{});
                 typed.replace(typed.find("v2"), 2, "v3");
                 return typed.insert(typed.size() - 2, "ctorch\nSize\n");
               }() +
               "s")},
       {size_mismatch, "a storage cut short", tensor({}, "0123456789abcde")},
       {size_mismatch, "another type", tensor({.type = "torch\nHalfStorage"})},
       {bad_shape, "more sizes than strides", tensor({.strides = {1}})},
       {bad_shape, "2^64",
        tensor({.sizes = std::vector<int>(16, 16), .strides = std::vector<int>(16, 0)})},
       {bad_view, "one row more", tensor({.sizes = {3, 2}})},
       {bad_view, "begins late", tensor({.first = 1})},
       {bad_view, "wide strides", tensor({.strides = {255, 255}})},
       {bad_view, "much of one number",
        tensor({.sizes = {255, 255, 255, 255}, .strides = {0, 0, 0, 0}})}});
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  add_safetensors_cases(cases);
  add_index_cases(cases);
  add_gguf_cases(cases);
  add_llama2c_cases(cases);
  add_zip_cases(cases);
  add_pickle_cases(cases);
  return cases;
}

TEST(CorruptFiles, AreRefusedForTheRightCause) {
  for (const Case& test : all_cases()) {
    SCOPED_TRACE(std::string(corruption_name(test.cause)) + ": " + test.what);
    const TemporaryFolder folder;
    const fs::path path = test.build(folder);
    try {
      Checkpoint::open(path);
      ADD_FAILURE() << "was opened";
    } catch (const CorruptFile& error) {
      EXPECT_EQ(corruption_name(error.cause()), corruption_name(test.cause)) << error.what();
      EXPECT_EQ(error.what()[0], '[');
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST(CorruptFiles, EveryCauseHasACase) {
  std::set<Corruption> tested;
  for (const Case& test : all_cases()) tested.insert(test.cause);
  for (int i = 0; i < kCorruptions; ++i) {
    const auto cause = static_cast<Corruption>(i);
    EXPECT_NE(corruption_name(cause), "?");
    EXPECT_TRUE(tested.contains(cause)) << corruption_name(cause) << " has no test";
  }
}

TEST(CorruptFiles, TheMessageSaysWhereWhatAndWhatToDo) {
  const TemporaryFolder folder;
  write_bytes(folder / "model.safetensors",
              safetensors_bytes(R"({"x":)" + entry("F32", "[2, 2]", "[0, 8]") + "}", "12345678"));
  try {
    Checkpoint::open(folder / "model.safetensors");
    FAIL();
  } catch (const CorruptFile& error) {
    EXPECT_STREQ(error.what(),
                 "[safetensors] model.safetensors: tensor 'x': bytes [0, 8) do not hold F32 [2, 2] "
                 "(16 bytes); was the download cut short?");
  }
}

}  // namespace
}  // namespace regauge
