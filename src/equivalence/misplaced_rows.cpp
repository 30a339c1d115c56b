// Rows or columns that stand elsewhere: a slice of another tensor, coordinates in the wrong head.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "explain.h"

namespace regauge {
namespace {

constexpr double kBeyondRounding = 12;

// Rows of a tensor, or its columns as rows.
Matrix<double> units(const Matrix<double>& value, int axis) {
  return axis == 0 ? value : Matrix<double>(value.transpose());
}

struct Place {
  std::string tensor;
  int axis = 0;
  std::int64_t index = 0;
};

// Rows and columns of one length, to be found by their numbers.
class Index {
 public:
  Index(std::int64_t length, double tolerance) : tolerance_(tolerance), probe_(length) {
    Random random(0, "rows");
    for (auto& entry : probe_) entry = random.normal();
  }
  void add(const std::string& tensor, int axis, const Matrix<double>& value) {
    const Matrix<double> rows = units(value, axis);
    const Eigen::VectorXd keys = rows * probe_;
    for (Eigen::Index i = 0; i < rows.rows(); ++i) {
      entries_.push_back({keys(i), {tensor, axis, i}});
    }
    sorted_ = false;
  }
  // A place whose row passes `same`, among those that look like it; not `here` itself.
  template <class Same>
  std::optional<Place> find(const Eigen::VectorXd& row, const Place& here, Same&& same) {
    if (!sorted_) {
      std::sort(entries_.begin(), entries_.end(),
                [](const Entry& a, const Entry& b) { return a.key < b.key; });
      sorted_ = true;
    }
    const double key = probe_.dot(row), width = tolerance_ * probe_.norm();
    auto at = std::lower_bound(entries_.begin(), entries_.end(), key - width,
                               [](const Entry& a, double value) { return a.key < value; });
    for (; at != entries_.end() && at->key <= key + width; ++at) {
      const Place& place = at->place;
      const bool itself =
          place.tensor == here.tensor && place.axis == here.axis && place.index == here.index;
      if (!itself && same(place)) return place;
    }
    return std::nullopt;
  }

 private:
  struct Entry {
    double key;
    Place place;
  };
  double tolerance_;
  Eigen::VectorXd probe_;
  std::vector<Entry> entries_;
  bool sorted_ = false;
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
std::int64_t head_width(const Architecture& a, const std::string& tensor, int axis) {
  if (axis == 1 && (tensor.ends_with("attn.q.weight") || tensor.ends_with("attn.k.weight"))) {
    return a.qk_width;
  }
  const bool v = axis == 1 && tensor.ends_with("attn.v.weight");
  const bool o = axis == 0 && tensor.ends_with("attn.o.weight");
  return v || o ? a.v_width : 0;
}

bool across_heads(const Architecture& a, const Place& here, const std::vector<Move>& moves) {
  const std::int64_t width = head_width(a, here.tensor, here.axis);
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
  for (const auto& name : unexplained()) {
    TensorResidual residual = residuals_.at(name);
    if (residual.single_row) continue;
    const Matrix<double> a = pair_.a(name), b = pair_.b(name);
    const double tolerance = loosely_ ? 0.3 * residual.size : kBeyondRounding * residual.rounding;
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
      Index index_a(length, off), index_b(length, off);
      for (const auto& spec : parameter_specs(pair_.architecture)) {
        if (spec.cols == length && spec.rows > 1) {
          index_a.add(spec.name, 0, pair_.a(spec.name));
          index_b.add(spec.name, 0, pair_.b(spec.name));
        }
        if (spec.rows == length) {
          index_a.add(spec.name, 1, pair_.a(spec.name));
          index_b.add(spec.name, 1, pair_.b(spec.name));
        }
      }
      Rows rows_a(pair_.a), rows_b(pair_.b), mine_a(pair_.a), mine_b(pair_.b);
      std::vector<Move> moves;
      for (const auto index : wrong[axis]) {
        const Place here{name, axis, index};
        const Eigen::VectorXd right = mine_a(here), found = mine_b(here);
        Move move{index, {}, {}};
        move.in_b = index_b.find(
            right, here, [&](const Place& place) { return (rows_b(place) - right).norm() <= off; });
        move.from_a = index_a.find(
            found, here, [&](const Place& place) { return (rows_a(place) - found).norm() <= off; });
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
      const std::string bias = name.substr(0, name.size() - 6) + "bias";
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
}

}  // namespace regauge
