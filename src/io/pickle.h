#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace regauge::io {

// What a pickle says, as plain values. A Python object is no more than the name of its class and
// what that would be given: nothing is imported, made or called.
struct PickleValue {
  enum class Kind {
    none,
    boolean,
    integer,
    long_integer,  // beyond 64 bits; its value is not kept
    real,
    text,
    bytes,
    tuple,
    list,
    dict,          // of which type, and with which attributes, is not kept
    global,        // an allowed name, "torch.FloatStorage"
    object,        // items: global, tuple of arguments, and the state that it is given, if any
    persistent_id  // items: what stands for something outside of the pickle
  };
  Kind kind = Kind::none;
  std::int64_t integer = 0;  // of boolean and integer
  double real = 0;
  std::string_view text;                  // of text (UTF-8), bytes and global
  std::vector<const PickleValue*> items;  // of a dict: key, value, key, value, ...

  bool is(Kind expected) const { return kind == expected; }
  // An object of this class, or the result of this function.
  bool is_object(std::string_view global) const {
    return kind == Kind::object && items[0]->text == global;
  }
  bool is_global(std::string_view name) const { return kind == Kind::global && text == name; }
};

// "a list", for messages.
std::string_view describe(PickleValue::Kind kind);

// A pickle of protocol 2 to 5, interpreted as far as weights need it. Each opcode and each global
// that is not on a short list is refused by name. Work and memory grow with the length of the
// pickle alone, whatever it shares or nests: values lie side by side, and one may lie in several
// others, or in itself.
class Pickle {
 public:
  // `where` begins messages: "[torch] pytorch_model.bin: data.pkl". The bytes are copied. Throws
  // CorruptFile.
  Pickle(std::span<const std::byte> bytes, const std::string& where);
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  const PickleValue& root() const { return *root_; }

 private:
  std::string bytes_;
  std::deque<PickleValue> values_;
  const PickleValue* root_ = nullptr;
};

// The bytes that torch.save writes: two bytes of protocol 2 begin each of its pickles.
bool begins_as_pickle(std::span<const std::byte> bytes);

}  // namespace regauge::io
