// q, k and v cut out of one tensor in the wrong places: in another order, or head by head where
// they lie one after the other.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "change.h"

namespace regauge {
namespace {

constexpr std::array<const char*, 3> kNames = {"q", "k", "v"};
using Turn = std::array<std::size_t, 3>;  // which of q, k, v comes first, second, third

struct FusedSizes {
  std::array<std::int64_t, 3> cols;  // of q, k, v
  std::int64_t groups;
  std::int64_t begin(std::size_t which) const {
    return std::accumulate(cols.begin(), cols.begin() + static_cast<std::ptrdiff_t>(which),
                           std::int64_t{0});
  }
};

// The columns of [q | k | v] as a fused tensor holds them: in `groups` equal groups, each with its
// share of the three in this turn.
Order fused(const FusedSizes& sizes, const Turn& turn, std::int64_t groups) {
  Order order;
  for (std::int64_t g = 0; g < groups; ++g) {
    for (const std::size_t which : turn) {
      const std::int64_t run = sizes.cols[which] / groups;
      for (std::int64_t i = 0; i < run; ++i) order.push_back(sizes.begin(which) + g * run + i);
    }
  }
  return order;
}

Matrix<double> joined(const ReadTensor& read, const std::string& at, const char* end) {
  const Matrix<double> q = read(at + "q." + end), k = read(at + "k." + end),
                       v = read(at + "v." + end);
  Matrix<double> all(q.rows(), q.cols() + k.cols() + v.cols());
  all << q, k, v;
  return all;
}

// Adds patches that read q, k, v out of [q | k | v] in this order.
void cut(Patches& patches, const FusedSizes& sizes, const std::string& at, const char* end,
         const Order& order) {
  for (std::size_t which = 0; which < 3; ++which) {
    patches[at + kNames[which] + "." + end] = [=](const ReadTensor& read) -> Matrix<double> {
      return reordered(joined(read, at, end), order)
          .middleCols(sizes.begin(which), sizes.cols[which]);
    };
  }
}

std::string name(const Turn& turn, bool grouped) {
  return fmt::format("{}, {}, {}{}", kNames[turn[0]], kNames[turn[1]], kNames[turn[2]],
                     grouped ? " head by head" : "");
}

}  // namespace

void add_qkv_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes) {
  if (layer < 0) return;
  const Attention& a = pair.architecture.layer(layer).attention;
  const bool has_no_qkv = a.has_latents() || a.keys_as_values || a.shares_keys;
  if (has_no_qkv || pair.architecture.layer(layer).has_delta()) return;
  const FusedSizes sizes{{a.heads * a.qk_width, a.kv_heads * a.qk_width, a.kv_heads * a.v_width},
                         a.kv_heads};
  const std::string at = fmt::format("layers.{}.attn.", layer);
  // The file's order of q and k inside their heads.
  Order stored = halves_order(sizes.cols[0], a.heads, pair.halves ? a.rotary_dims : 0);
  for (const auto c : halves_order(sizes.cols[1], a.kv_heads, pair.halves ? a.rotary_dims : 0)) {
    stored.push_back(sizes.cols[0] + c);
  }
  for (std::int64_t i = 0; i < sizes.cols[2]; ++i) stored.push_back(sizes.begin(2) + i);
  const bool biases = a.biases.q && a.biases.k && a.biases.v;
  const Turn right = {0, 1, 2};
  std::set<Order> seen;
  for (const std::int64_t read_groups : {std::int64_t{1}, a.kv_heads}) {
    for (const std::int64_t written_groups : {std::int64_t{1}, a.kv_heads}) {
      Turn turn = right;
      do {
        // Written in `turn`, read as q, k, v.
        const Order wrong =
            compose(fused(sizes, turn, written_groups), inverse(fused(sizes, right, read_groups)));
        const Order order = compose(compose(inverse(stored), wrong), stored);
        if (is_identity(order) || !seen.insert(order).second) continue;
        Change change;
        change.mistake = Mistake::qkv_order;
        change.what = fmt::format("rows in the order {} were taken as {}",
                                  name(turn, written_groups > 1), name(right, read_groups > 1));
        change.repair = "put the rows where they belong";
        for (const char* end : {"weight", "bias"}) {
          if (end[0] == 'b' && !biases) continue;
          cut(change.undo, sizes, at, end, inverse(order));
          cut(change.make, sizes, at, end, order);
        }
        changes.push_back(std::move(change));
      } while (std::next_permutation(turn.begin(), turn.end()));
    }
  }
}

}  // namespace regauge
