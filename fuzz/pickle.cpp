#include "io/pickle.h"

#include <set>

#include "regauge/base/error.h"
#include "require.h"

// A pickle is refused with an Error, or its values are sound: what one holds is there, a dict has a
// value for each key, an object a global and a tuple.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace regauge;
  using Kind = io::PickleValue::Kind;
  try {
    const io::Pickle pickle({reinterpret_cast<const std::byte*>(data), size}, "input");
    std::set<const io::PickleValue*> seen;
    std::vector<const io::PickleValue*> left = {&pickle.root()};
    while (!left.empty()) {
      const io::PickleValue& value = *left.back();
      left.pop_back();
      if (!seen.insert(&value).second) continue;
      REGAUGE_REQUIRE(!value.is(Kind::dict) || value.items.size() % 2 == 0);
      REGAUGE_REQUIRE(!value.is(Kind::object) ||
                      (value.items.size() >= 2 && value.items[0]->is(Kind::global) &&
                       value.items[1]->is(Kind::tuple)));
      REGAUGE_REQUIRE(!value.is(Kind::persistent_id) || value.items.size() == 1);
      REGAUGE_REQUIRE(io::describe(value.kind) != "?");
      left.insert(left.end(), value.items.begin(), value.items.end());
    }
    REGAUGE_REQUIRE(seen.size() <= size);
  } catch (const Error&) {
  }
  return 0;
}
