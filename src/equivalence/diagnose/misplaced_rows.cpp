// Rows or columns that stand elsewhere: a slice of another tensor, coordinates in the wrong head.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "arch/names.h"
#include "explain.h"

namespace regauge {
namespace {

// Rows of a tensor, or its columns as rows.
Matrix<double> units(const Matrix<double>& value, int axis) {
  return axis == 0 ? value : Matrix<double>(value.transpose());
}

struct Place {
  std::string tensor;
  int axis = 0;
  std::int64_t index = 0;

  bool operator==(const Place&) const = default;
};

// Rows and columns of one length of a whole model, to be found by their numbers: each by its
// products with the same few random vectors, the keys.
class Index {
 public:
  Index(const Architecture& architecture, const ReadTensor& read, std::int64_t length)
      : probes_(length, kKeys) {
    Random random(0, "rows");
    std::generate_n(probes_.data(), probes_.size(), [&] { return random.normal(); });
    for (const auto& spec : parameter_specs(architecture)) {
      const bool rows = spec.cols == length && spec.rows > 1, columns = spec.rows == length;
      if (!rows && !columns) continue;
      const Matrix<double> value = read(spec.name);
      if (rows) add(spec.name, 0, value * probes_);
      if (columns) add(spec.name, 1, value.transpose() * probes_);
    }
    std::sort(entries_.begin(), entries_.end(),
              [](const Entry& a, const Entry& b) { return a.keys[0] < b.keys[0]; });
  }
  // Of the places other than `here` whose row, by its keys, may be as near as `distance`, the
  // nearest.
  std::optional<Place> find(const Eigen::VectorXd& row, const Place& here, double distance) const {
    const Keys keys = (row.transpose() * probes_).cast<float>();
    const auto reach = static_cast<float>(std::max(distance, kFloats * row.norm()));
    const float width = kSure * reach;  // of one key
    auto at = std::lower_bound(entries_.begin(), entries_.end(), keys[0] - width,
                               [](const Entry& a, float value) { return a.keys[0] < value; });
    const Entry* nearest = nullptr;
    float least = kSureSquares * reach * reach;
    for (; at != entries_.end() && at->keys[0] <= keys[0] + width; ++at) {
      const float off = (at->keys - keys).squaredNorm();
      if (off >= least || place(*at) == here) continue;
      least = off;
      nearest = &*at;
    }
    if (nearest == nullptr) return std::nullopt;
    return place(*nearest);
  }

 private:
  static constexpr int kKeys = 24;
  // Probes are normal, so keys of rows at distance 1 differ by normal numbers. One is beyond kSure
  // once in 1e8, the sum of all squares beyond kSureSquares once in 1e7.
  static constexpr float kSure = 6;
  static constexpr float kSureSquares = 82;
  static constexpr double kFloats = 1e-6;  // digits of a key
  using Keys = Eigen::Matrix<float, 1, kKeys>;
  struct Entry {
    Keys keys;
    std::size_t tensor;
    int axis;
    std::int64_t index;
  };

  void add(const std::string& tensor, int axis, const Matrix<double>& keys) {
    for (Eigen::Index i = 0; i < keys.rows(); ++i) {
      if (!keys.row(i).allFinite()) continue;
      entries_.push_back({keys.row(i).cast<float>(), tensors_.size(), axis, i});
    }
    tensors_.push_back(tensor);
  }
  Place place(const Entry& entry) const {
    return {tensors_[entry.tensor], entry.axis, entry.index};
  }

  Matrix<double> probes_;
  std::vector<std::string> tensors_;
  std::vector<Entry> entries_;
};

// Keeps the tensor that was read last.
class Rows {
 public:
  explicit Rows(ReadTensor read) : read_(std::move(read)) {}
  Eigen::VectorXd operator()(const Place& place) {
    if (place.tensor != tensor_ || place.axis != axis_) {
      rows_ = units(read_(place.tensor), place.axis);
      tensor_ = place.tensor;
      axis_ = place.axis;
    }
    return rows_.row(place.index);
  }

 private:
  ReadTensor read_;
  std::string tensor_;
  int axis_ = -1;
  Matrix<double> rows_;
};

struct Move {
  std::int64_t index = 0;
  std::optional<Place> in_b;    // where A's row stands in B
  std::optional<Place> from_a;  // whose row of A stands here
};

// Of the heads' coordinates on this axis of an attention tensor; 0 elsewhere.
std::int64_t head_width(const Attention& a, const std::string& tensor, int axis) {
  if (axis == 1 && (tensor.ends_with("attn.q.weight") || tensor.ends_with("attn.k.weight"))) {
    return a.plain_width();
  }
  const bool v = axis == 1 && tensor.ends_with("attn.v.weight");
  const bool o = axis == 0 && tensor.ends_with("attn.o.weight");
  return v || o ? a.v_width : 0;
}

bool across_heads(const Architecture& a, const Place& here, const std::vector<Move>& moves) {
  const std::int64_t layer = layer_of(here.tensor);
  if (layer < 0) return false;
  const std::int64_t width = head_width(a.layer(layer).attention, here.tensor, here.axis);
  if (width == 0) return false;
  bool crossed = false;
  for (const auto& move : moves) {
    const auto& other = move.in_b ? move.in_b : move.from_a;
    if (other->tensor != here.tensor || other->axis != here.axis) return false;
    crossed = crossed || other->index / width != move.index / width;
  }
  return crossed;
}

const char* unit_name(int axis) { return axis == 0 ? "input" : "output"; }

// "outputs 3 to 7", or how many where they do not follow one another.
std::string listed(const std::vector<Place>& places) {
  const char* unit = unit_name(places.front().axis);
  const std::int64_t first = places.front().index, last = places.back().index;
  if (places.size() == 1) return fmt::format("{} {}", unit, first);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].index == first + static_cast<std::int64_t>(i)) continue;
    return fmt::format("{} {}s", places.size(), unit);
  }
  return fmt::format("{}s {} to {}", unit, first, last);
}

// What stands at these places of the tensor, or where it stands now.
std::string where_they_are(const Place& here, const std::vector<Move>& moves) {
  std::vector<Place> wrong, others;
  const bool known = moves.front().from_a.has_value();
  for (const auto& move : moves) {
    wrong.push_back({here.tensor, here.axis, move.index});
    const auto& other = known ? move.from_a : move.in_b;
    if (other && other->tensor == (known ? moves.front().from_a : moves.front().in_b)->tensor) {
      others.push_back(*other);
    }
  }
  return fmt::format("{} {} {} of {}", listed(wrong), known ? "hold" : "stand at", listed(others),
                     others.front().tensor);
}

Patch moved_back(const Place& here, const std::vector<Move>& moves, const ReadTensor& read_a) {
  return [=](const ReadTensor& read_b) {
    Matrix<double> rows = units(read_b(here.tensor), here.axis);
    Rows in_b(read_b), in_a(read_a);
    for (const auto& move : moves) {
      rows.row(move.index) =
          move.in_b ? in_b(*move.in_b) : in_a({here.tensor, here.axis, move.index});
    }
    return units(rows, here.axis);
  };
}

}  // namespace

void Explainer::find_misplaced_rows() {
  const auto names = unexplained();
  std::map<std::int64_t, Index> indices_a, indices_b;  // by length, each made once
  const auto index = [&](auto& indices, const ReadTensor& read, std::int64_t length) -> Index& {
    const auto at = indices.find(length);
    if (at != indices.end()) return at->second;
    return indices.try_emplace(length, pair_.architecture, read, length).first->second;
  };
  progress_.start("looking for rows elsewhere", static_cast<std::int64_t>(names.size()));
  for (const auto& name : names) {
    progress_.advance(1);
    const TensorResidual& residual = residuals_.at(name);
    if (residual.single_row) continue;
    const Matrix<double> a = pair_.a(name), b = pair_.b(name);
    const double related = 0.3 * residual.size, rounded = kBeyondRounding * residual.rounding;
    const double tolerance = loosely_ ? related : std::min(related, rounded);
    std::vector<std::int64_t> wrong[2];
    for (const int axis : {0, 1}) {
      const Matrix<double> off = units(a - b, axis);
      const double length = std::sqrt(static_cast<double>(off.cols()));
      for (Eigen::Index i = 0; i < off.rows(); ++i) {
        if (off.row(i).norm() > tolerance * length) wrong[axis].push_back(i);
      }
    }
    const auto share = [&](int axis) {
      return static_cast<double>(wrong[axis].size()) /
             static_cast<double>(axis == 0 ? a.rows() : a.cols());
    };
    for (const int axis : share(0) < share(1) ? std::vector{0, 1} : std::vector{1, 0}) {
      const std::int64_t length = axis == 0 ? a.cols() : a.rows();
      const double off = tolerance * std::sqrt(static_cast<double>(length));
      if (length < 4 || wrong[axis].empty()) continue;
      const Index& index_a = index(indices_a, pair_.a, length);
      const Index& index_b = index(indices_b, pair_.b, length);
      Rows rows_a(pair_.a), rows_b(pair_.b);
      const Matrix<double> own_a = units(a, axis), own_b = units(b, axis);
      std::vector<Move> moves;
      for (const auto i : wrong[axis]) {
        const Place here{name, axis, i};
        const Eigen::VectorXd right = own_a.row(i), found = own_b.row(i);
        Move move{i, index_b.find(right, here, off), index_a.find(found, here, off)};
        if (move.in_b && (rows_b(*move.in_b) - right).norm() > off) move.in_b.reset();
        if (move.from_a && (rows_a(*move.from_a) - found).norm() > off) move.from_a.reset();
        if (!move.in_b && !move.from_a) break;
        moves.push_back(std::move(move));
      }
      if (moves.size() != wrong[axis].size()) continue;
      const Place here{name, axis, 0};
      Change change;
      if (across_heads(pair_.architecture, here, moves)) {
        change.mistake = Mistake::across_heads;
        change.what = "coordinates of one head stand in another";
      } else {
        change.mistake = Mistake::rows_elsewhere;
        change.what = where_they_are(here, moves);
      }
      const bool all_in_b = std::all_of(moves.begin(), moves.end(),
                                        [](const Move& move) { return move.in_b.has_value(); });
      change.repair = all_in_b ? "move them back" : "take those of A, as B has lost them";
      change.undo[name] = moved_back(here, moves, pair_.a);
      if (!matches_all(change.undo)) continue;
      // A bias whose entries moved with the columns.
      const std::string bias = sibling_of(name, "bias");
      if (axis == 1 && name.ends_with(".weight") && is_open(bias) && all_in_b) {
        const Patch with_columns = [moves, bias](const ReadTensor& read) {
          const Matrix<double> before = read(bias);
          Matrix<double> value = before;
          for (const auto& move : moves) value(0, move.index) = before(0, move.in_b->index);
          return value;
        };
        const bool same_tensor = std::all_of(moves.begin(), moves.end(), [&](const Move& move) {
          return move.in_b->tensor == name && move.in_b->axis == axis;
        });
        if (same_tensor && matches(bias, with_columns(pair_.b))) change.undo[bias] = with_columns;
      }
      accept(std::move(change));
      break;
    }
  }
  progress_.finish();
}

}  // namespace regauge
