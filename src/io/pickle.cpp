#include "pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "corrupt.h"
#include "json.h"
#include "pickle_names.h"

namespace regauge::io {
namespace {

using Kind = PickleValue::Kind;

constexpr std::size_t kMostBytes = 200'000'000;
constexpr std::size_t kMostValues = std::size_t{1} << 25;
constexpr std::size_t kMostMarks = 100;  // open at once
constexpr int kOldestProtocol = 2, kNewestProtocol = 5;

// As Python's own, without what runs code: a stack, marks in it, and a memo.
class Machine {
 public:
  Machine(std::string_view text, std::deque<PickleValue>& values, const std::string& where)
      : text_(text), values_(values), where_(where) {}

  const PickleValue* run();

 private:
  [[noreturn]] void refuse(Corruption cause, const std::string& what) const {
    throw CorruptFile(cause, fmt::format("{}: byte {}: {}", where_, start_, what));
  }
  [[noreturn]] void refuse_opcode(std::uint8_t opcode) const;

  std::string_view take(std::uint64_t length);
  template <class T>
  T take_number();
  std::string_view take_line();

  PickleValue& push(Kind kind);
  void push_integer(std::int64_t integer, Kind kind = Kind::integer) {
    push(kind).integer = integer;
  }
  void push_text(Kind kind, std::uint64_t length);
  void push_long(std::uint64_t length);
  void push_global(std::string_view module, std::string_view name);

  PickleValue& top();
  PickleValue* pop();
  // What lies above the last mark, which goes too.
  std::vector<const PickleValue*> pop_mark();
  void push_tuple(std::size_t length);
  void append(std::span<const PickleValue* const> items);
  void set(std::span<const PickleValue* const> items);
  void put(std::uint64_t place);
  void get(std::uint64_t place);
  void call();
  void build();
  void step(std::uint8_t opcode);

  std::string_view text_;
  std::deque<PickleValue>& values_;
  const std::string& where_;
  std::size_t position_ = 0;
  std::size_t start_ = 0;  // of the opcode
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PickleValue*> memo_;
};

void Machine::refuse_opcode(std::uint8_t opcode) const {
  const auto* known = std::find_if(kRefusedOpcodes.begin(), kRefusedOpcodes.end(),
                                   [&](const auto& one) { return one.first == opcode; });
  const std::string name = known == kRefusedOpcodes.end()
                               ? fmt::format("{:#04x}, which no Python has,", opcode)
                               : std::string(known->second);
  refuse(Corruption::refused_opcode,
         fmt::format("the opcode {} is not one that weights are saved with. Nothing in a pickle is "
                     "ever run; save the weights as safetensors, or the state dict alone by "
                     "torch.save",
                     name));
}

std::string_view Machine::take(std::uint64_t length) {
  if (length > text_.size() - position_) {
    refuse(Corruption::header_truncated,
           fmt::format("{} bytes were expected, the pickle ends after {}; was the download cut "
                       "short?",
                       length, text_.size() - position_));
  }
  const std::string_view taken = text_.substr(position_, static_cast<std::size_t>(length));
  position_ += taken.size();
  return taken;
}

template <class T>
T Machine::take_number() {
  const std::string_view bytes = take(sizeof(T));
  T number = {};
  bytes.copy(reinterpret_cast<char*>(&number), sizeof number);
  return number;
}

std::string_view Machine::take_line() {
  const std::size_t end = text_.find('\n', position_);
  const std::string_view line = take((end == text_.npos ? text_.size() : end) - position_);
  take(1);
  return line;
}

PickleValue& Machine::push(Kind kind) {
  if (values_.size() >= kMostValues) {
    refuse(Corruption::header_too_large,
           fmt::format("the pickle has more than {} values", kMostValues));
  }
  PickleValue& value = values_.emplace_back();
  value.kind = kind;
  stack_.push_back(&value);
  return value;
}

void Machine::push_text(Kind kind, std::uint64_t length) {
  const std::string_view text = take(length);
  if (kind == Kind::text && !is_utf8(text)) refuse(Corruption::not_utf8, "a text is not UTF-8");
  push(kind).text = text;
}

// Little-endian, in two's complement.
void Machine::push_long(std::uint64_t length) {
  const std::string_view bytes = take(length);
  if (length > sizeof(std::int64_t)) {
    push(Kind::long_integer);
    return;
  }
  const bool negative = !bytes.empty() && (static_cast<unsigned char>(bytes.back()) & 0x80U) != 0;
  std::uint64_t number = negative ? ~std::uint64_t{0} : 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    number = number << 8U | static_cast<unsigned char>(bytes[i]);
  }
  push_integer(static_cast<std::int64_t>(number));
}

void Machine::push_global(std::string_view module, std::string_view name) {
  const auto* known =
      std::find_if(kAllowedGlobals.begin(), kAllowedGlobals.end(), [&](std::string_view allowed) {
        return allowed.size() == module.size() + 1 + name.size() && allowed.starts_with(module) &&
               allowed[module.size()] == '.' && allowed.ends_with(name);
      });
  if (known == kAllowedGlobals.end()) {
    constexpr std::size_t kMost = 100;  // of a name, in a message
    const bool utf8 = is_utf8(module) && is_utf8(name);
    refuse(Corruption::refused_global,
           fmt::format("it names {}.{}, which is not among the few that weights are saved with. "
                       "Nothing in a pickle is ever run; save the weights as safetensors, or the "
                       "state dict alone by torch.save",
                       utf8 ? module.substr(0, kMost) : "?", utf8 ? name.substr(0, kMost) : "?"));
  }
  push(Kind::global).text = *known;
}

PickleValue& Machine::top() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) {
    refuse(Corruption::bad_pickle, "an opcode finds nothing to work on");
  }
  return *stack_.back();
}

PickleValue* Machine::pop() {
  PickleValue* value = &top();
  stack_.pop_back();
  return value;
}

std::vector<const PickleValue*> Machine::pop_mark() {
  if (marks_.empty()) refuse(Corruption::bad_pickle, "an opcode finds no mark");
  const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<const PickleValue*> items(first, stack_.end());
  stack_.erase(first, stack_.end());
  marks_.pop_back();
  return items;
}

void Machine::push_tuple(std::size_t length) {
  std::vector<const PickleValue*> items(length);
  for (std::size_t i = length; i-- > 0;) items[i] = pop();
  push(Kind::tuple).items = std::move(items);
}

void Machine::append(std::span<const PickleValue* const> items) {
  PickleValue& list = top();
  if (!list.is(Kind::list)) {
    refuse(Corruption::bad_pickle, fmt::format("{} is appended to", describe(list.kind)));
  }
  list.items.insert(list.items.end(), items.begin(), items.end());
}

void Machine::set(std::span<const PickleValue* const> items) {
  PickleValue& dict = top();
  if (!dict.is(Kind::dict)) {
    refuse(Corruption::bad_pickle, fmt::format("{} is given keys", describe(dict.kind)));
  }
  if (items.size() % 2 != 0) refuse(Corruption::bad_pickle, "a key has no value");
  dict.items.insert(dict.items.end(), items.begin(), items.end());
}

// Python takes the places of its memo one after the other.
void Machine::put(std::uint64_t place) {
  PickleValue* value = &top();
  if (place > memo_.size()) {
    refuse(Corruption::bad_pickle,
           fmt::format("place {} of the memo is taken before place {}", place, memo_.size()));
  }
  if (place == memo_.size()) {
    memo_.push_back(value);
  } else {
    memo_[static_cast<std::size_t>(place)] = value;
  }
}

void Machine::get(std::uint64_t place) {
  if (place >= memo_.size()) {
    refuse(Corruption::bad_pickle, fmt::format("place {} of the memo is empty", place));
  }
  stack_.push_back(memo_[static_cast<std::size_t>(place)]);
}

// A dict of Python's other types is one where nothing but a factory of defaults is given.
void Machine::call() {
  const PickleValue* arguments = pop();
  const PickleValue* global = pop();
  if (!global->is(Kind::global) || !arguments->is(Kind::tuple)) {
    refuse(Corruption::bad_pickle,
           fmt::format("{} is called with {}", describe(global->kind), describe(arguments->kind)));
  }
  const bool dict = global->text == "collections.defaultdict" ||
                    (global->text.starts_with("collections.") && arguments->items.empty());
  PickleValue& made = push(dict ? Kind::dict : Kind::object);
  if (!dict) made.items = {global, arguments};
}

// Attributes: of a dict they are no entries (the versions of a state dict).
void Machine::build() {
  const PickleValue* state = pop();
  PickleValue& value = top();
  if (value.is(Kind::dict)) return;
  if (!value.is(Kind::object) || value.items.size() != 2) {
    refuse(Corruption::bad_pickle, fmt::format("{} is given a state", describe(value.kind)));
  }
  value.items.push_back(state);
}

void Machine::step(std::uint8_t opcode) {
  using enum PickleOpcode;
  switch (static_cast<PickleOpcode>(opcode)) {
    case frame:
      if (take_number<std::uint64_t>() > text_.size() - position_) {
        refuse(Corruption::header_truncated,
               "a frame goes past the end of the pickle; was the download cut short?");
      }
      return;
    case mark:
      if (marks_.size() >= kMostMarks) {
        refuse(Corruption::nested_too_deeply,
               fmt::format("values nested more than {} deep", kMostMarks));
      }
      marks_.push_back(stack_.size());
      return;
    case none:
      push(Kind::none);
      return;
    case new_true:
      return push_integer(1, Kind::boolean);
    case new_false:
      return push_integer(0, Kind::boolean);
    case binint:
      return push_integer(take_number<std::int32_t>());
    case binint1:
      return push_integer(take_number<std::uint8_t>());
    case binint2:
      return push_integer(take_number<std::uint16_t>());
    case long1:
      return push_long(take_number<std::uint8_t>());
    case binfloat: {
      const auto bits = __builtin_bswap64(take_number<std::uint64_t>());
      push(Kind::real).real = std::bit_cast<double>(bits);
      return;
    }
    case short_binunicode:
      return push_text(Kind::text, take_number<std::uint8_t>());
    case binunicode:
      return push_text(Kind::text, take_number<std::uint32_t>());
    case binunicode8:
      return push_text(Kind::text, take_number<std::uint64_t>());
    case short_binbytes:
      return push_text(Kind::bytes, take_number<std::uint8_t>());
    case binbytes:
      return push_text(Kind::bytes, take_number<std::uint32_t>());
    case binbytes8:
      return push_text(Kind::bytes, take_number<std::uint64_t>());
    case empty_tuple:
      return push_tuple(0);
    case tuple1:
      return push_tuple(1);
    case tuple2:
      return push_tuple(2);
    case tuple3:
      return push_tuple(3);
    case tuple: {
      auto items = pop_mark();
      push(Kind::tuple).items = std::move(items);
      return;
    }
    case empty_list:
      push(Kind::list);
      return;
    case append: {
      const PickleValue* item = pop();
      return this->append({&item, 1});
    }
    case appends:
      return this->append(pop_mark());
    case empty_dict:
      push(Kind::dict);
      return;
    case setitem: {
      const PickleValue* value = pop();
      const PickleValue* key = pop();
      const PickleValue* const pair[] = {key, value};
      return set(pair);
    }
    case setitems:
      return set(pop_mark());
    case binput:
      return put(take_number<std::uint8_t>());
    case long_binput:
      return put(take_number<std::uint32_t>());
    case memoize:
      return put(memo_.size());
    case binget:
      return get(take_number<std::uint8_t>());
    case long_binget:
      return get(take_number<std::uint32_t>());
    case global: {
      const std::string_view module = take_line();
      return push_global(module, take_line());
    }
    case stack_global: {
      const PickleValue* name = pop();
      const PickleValue* module = pop();
      if (!name->is(Kind::text) || !module->is(Kind::text)) {
        refuse(Corruption::bad_pickle, "a global is not named by two texts");
      }
      return push_global(module->text, name->text);
    }
    case reduce:
    case newobj:
      return call();
    case PickleOpcode::build:
      return this->build();
    case binpersid: {
      const PickleValue* id = pop();
      push(Kind::persistent_id).items = {id};
      return;
    }
    case proto:
    case stop:
      break;
  }
  refuse_opcode(opcode);
}

const PickleValue* Machine::run() {
  if (take_number<std::uint8_t>() != static_cast<std::uint8_t>(PickleOpcode::proto)) {
    refuse(Corruption::bad_magic, "this is no pickle of protocol 2 or later");
  }
  const int protocol = take_number<std::uint8_t>();
  if (protocol < kOldestProtocol || protocol > kNewestProtocol) {
    refuse(Corruption::unsupported_version,
           fmt::format("a pickle of protocol {}; {} to {} are read", protocol, kOldestProtocol,
                       kNewestProtocol));
  }
  for (;;) {
    start_ = position_;
    const auto opcode = take_number<std::uint8_t>();
    if (opcode == static_cast<std::uint8_t>(PickleOpcode::stop)) break;
    step(opcode);
  }
  const PickleValue* result = pop();
  if (!stack_.empty() || !marks_.empty()) {
    refuse(Corruption::bad_pickle, "the pickle ends while something is still to be put together");
  }
  if (position_ < text_.size()) {
    refuse(Corruption::trailing_bytes,
           fmt::format("{} bytes follow the end of the pickle", text_.size() - position_));
  }
  return result;
}

}  // namespace

std::string_view describe(PickleValue::Kind kind) {
  switch (kind) {
    case Kind::none:
      return "None";
    case Kind::boolean:
      return "a bool";
    case Kind::integer:
    case Kind::long_integer:
      return "an integer";
    case Kind::real:
      return "a float";
    case Kind::text:
      return "a text";
    case Kind::bytes:
      return "bytes";
    case Kind::tuple:
      return "a tuple";
    case Kind::list:
      return "a list";
    case Kind::dict:
      return "a dict";
    case Kind::global:
      return "a name";
    case Kind::object:
      return "an object";
    case Kind::persistent_id:
      return "a storage";
  }
  return "?";
}

Pickle::Pickle(std::span<const std::byte> bytes, const std::string& where) {
  if (bytes.size() > kMostBytes) {
    throw CorruptFile(
        Corruption::header_too_large,
        fmt::format("{}: a pickle of {} bytes is more than {}", where, bytes.size(), kMostBytes));
  }
  bytes_.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  root_ = Machine(bytes_, values_, where).run();
}

bool begins_as_pickle(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x80} &&
         bytes[1] >= std::byte{kOldestProtocol} && bytes[1] <= std::byte{kNewestProtocol};
}

}  // namespace regauge::io
