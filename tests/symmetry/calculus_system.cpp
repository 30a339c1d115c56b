#include "calculus_system.h"

#include <Eigen/QR>
#include <Eigen/SVD>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace regauge::calculus_system {
namespace {

constexpr double kZero = 1e-9;    // singular values below it are zero
constexpr double kNoise = 1e-13;  // entries below it are not stored

void append(Form& form, const Form& other, double factor) {
  if (factor == 0) return;
  for (const auto& [unknown, coefficient] : other) {
    form.emplace_back(unknown, factor * coefficient);
  }
}

// Sorted by unknown, one term each.
void normalise(Form& form) {
  std::sort(form.begin(), form.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  Form sum;
  for (const auto& term : form) {
    if (!sum.empty() && sum.back().first == term.first) {
      sum.back().second += term.second;
    } else {
      sum.push_back(term);
    }
  }
  std::erase_if(sum, [](const auto& term) { return std::abs(term.second) < kNoise; });
  form = std::move(sum);
}

class DisjointSets {
 public:
  explicit DisjointSets(std::size_t size) : parent_(size) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  int find(int i) {
    auto& parent = parent_[static_cast<std::size_t>(i)];
    return parent == i ? i : parent = find(parent);
  }
  void join(int i, int j) { parent_[static_cast<std::size_t>(find(i))] = find(j); }

 private:
  std::vector<int> parent_;
};

// The rank of sparse equations, one group of columns after the other: rank [A B] = rank A + rank
// Q2^T B with Q2 orthonormal on the complement of A's range. Orthogonal maps only, so no decision
// spoils a later one.
class RankCounter {
 public:
  std::int64_t rank = 0;
  double smallest_kept = std::numeric_limits<double>::infinity();
  double largest_dropped = 0;

  // Eliminates the unknowns that are `chosen`; what remains has none of them.
  template <class Chosen>
  std::vector<Form> eliminate(std::vector<Form> rows, std::size_t unknowns, Chosen chosen) {
    std::vector<Form> rest;
    DisjointSets sets(unknowns);
    const auto first_chosen = [&](const Form& row) {
      return std::find_if(row.begin(), row.end(), [&](const auto& t) { return chosen(t.first); });
    };
    for (const auto& row : rows) {
      const auto first = first_chosen(row);
      for (auto term = first; term != row.end(); ++term) {
        if (chosen(term->first)) sets.join(first->first, term->first);
      }
    }
    std::map<int, std::vector<Form>> groups;
    for (auto& row : rows) {
      const auto first = first_chosen(row);
      auto& target = first == row.end() ? rest : groups[sets.find(first->first)];
      target.push_back(std::move(row));
    }
    for (const auto& [root, group] : groups) eliminate_group(group, chosen, rest);
    return rest;
  }

 private:
  template <class Chosen>
  void eliminate_group(const std::vector<Form>& group, Chosen chosen, std::vector<Form>& rest) {
    std::map<int, Index> inside, outside;
    for (const auto& row : group) {
      for (const auto& [unknown, coefficient] : row) {
        auto& columns = chosen(unknown) ? inside : outside;
        columns.emplace(unknown, static_cast<Index>(columns.size()));
      }
    }
    const auto height = static_cast<Index>(group.size());
    Dense a = Dense::Zero(height, static_cast<Index>(inside.size()));
    Dense b = Dense::Zero(height, static_cast<Index>(outside.size()));
    for (Index i = 0; i < height; ++i) {
      for (const auto& [unknown, coefficient] : group[static_cast<std::size_t>(i)]) {
        if (chosen(unknown)) {
          a(i, inside.at(unknown)) = coefficient;
        } else {
          b(i, outside.at(unknown)) = coefficient;
        }
      }
    }
    const Eigen::ColPivHouseholderQR<Dense> qr(a);
    const Index kept = decide(qr);
    rank += kept;
    if (outside.empty() || kept == height) return;
    b.applyOnTheLeft(qr.householderQ().adjoint());
    for (Index i = kept; i < height; ++i) {
      Form row;
      for (const auto& [unknown, column] : outside) {
        if (std::abs(b(i, column)) >= kNoise) row.emplace_back(unknown, b(i, column));
      }
      if (!row.empty()) rest.push_back(std::move(row));
    }
  }

  // Singular values of the triangular factor, which are those of the matrix. Not by BDCSVD: Eigen
  // 3.4.0 reads past the end of an array there when a block of the bidiagonal matrix is zero.
  Index decide(const Eigen::ColPivHouseholderQR<Dense>& qr) {
    const Index size = std::min(qr.rows(), qr.cols());
    const Dense triangle =
        qr.matrixQR().topRows(size).template triangularView<Eigen::Upper>().toDenseMatrix();
    const Eigen::VectorXd values = Eigen::JacobiSVD<Dense>(triangle).singularValues();
    Index kept = 0;
    for (const double value : values) {
      if (value > kZero) {
        ++kept;
        smallest_kept = std::min(smallest_kept, value);
      } else {
        largest_dropped = std::max(largest_dropped, value);
      }
    }
    return kept;
  }
};

}  // namespace

Forms Forms::block(Index row, Index col, Index rows, Index cols) const {
  Forms result(rows, cols);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; ++j) result(i, j) = (*this)(row + i, col + j);
  }
  return result;
}

Forms Forms::transposed() const {
  Forms result(cols_, rows_);
  for (Index i = 0; i < rows_; ++i) {
    for (Index j = 0; j < cols_; ++j) result(j, i) = (*this)(i, j);
  }
  return result;
}

Forms& Forms::operator+=(const Forms& other) {
  eigen_assert(rows_ == other.rows_ && cols_ == other.cols_);
  for (std::size_t i = 0; i < entries_.size(); ++i) append(entries_[i], other.entries_[i], 1);
  return *this;
}

Forms& Forms::operator-=(const Forms& other) {
  eigen_assert(rows_ == other.rows_ && cols_ == other.cols_);
  for (std::size_t i = 0; i < entries_.size(); ++i) append(entries_[i], other.entries_[i], -1);
  return *this;
}

Forms operator*(const Dense& a, const Forms& b) {
  eigen_assert(a.cols() == b.rows());
  Forms result(a.rows(), b.cols());
  for (Index i = 0; i < a.rows(); ++i) {
    for (Index j = 0; j < b.cols(); ++j) {
      for (Index k = 0; k < a.cols(); ++k) append(result(i, j), b(k, j), a(i, k));
      normalise(result(i, j));
    }
  }
  return result;
}

Forms operator*(const Forms& a, const Dense& b) {
  return (b.transpose() * a.transposed()).transposed();
}

Forms operator*(double a, const Forms& b) {
  Forms result(b.rows(), b.cols());
  for (std::size_t i = 0; i < b.entries_.size(); ++i) append(result.entries_[i], b.entries_[i], a);
  return result;
}

Forms stack(const Forms& top, const Forms& bottom) {
  eigen_assert(top.cols() == bottom.cols());
  Forms result(top.rows() + bottom.rows(), top.cols());
  for (Index i = 0; i < result.rows(); ++i) {
    for (Index j = 0; j < result.cols(); ++j) {
      result(i, j) = i < top.rows() ? top(i, j) : bottom(i - top.rows(), j);
    }
  }
  return result;
}

Forms diagonal(const Forms& row) {
  Forms result(row.cols(), row.cols());
  for (Index i = 0; i < row.cols(); ++i) result(i, i) = row(0, i);
  return result;
}

Forms System::add(Index rows, Index cols, Unknown unknown) {
  Forms result(rows, cols);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; ++j) {
      result(i, j) = {{static_cast<int>(unknowns_.size()), 1.0}};
      unknowns_.push_back(unknown);
    }
  }
  return result;
}

Forms System::parameter(Index rows, Index cols, Stage stage) {
  return add(rows, cols, {true, stage});
}

Forms System::wire(Index rows, Index cols, Stage stage) { return add(rows, cols, {false, stage}); }

Forms System::skew(Index n, Stage stage) {
  Forms result(n, n);
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < i; ++j) {
      result(i, j) = wire(1, 1, stage)(0, 0);
      append(result(j, i), result(i, j), -1);
    }
  }
  return result;
}

void System::require(const Forms& forms) {
  for (Index i = 0; i < forms.rows(); ++i) {
    for (Index j = 0; j < forms.cols(); ++j) {
      Form form = forms(i, j);
      normalise(form);
      if (!form.empty()) equations_.push_back(std::move(form));
    }
  }
}

// dim of the parameter part of ker F = dim ker F - dim {z in ker F : no parameter changes}
//                                    = parameters - rank F + rank (F on the wires' columns).
System::Solution System::solve() const {
  const auto unknown = [this](int i) { return unknowns_[static_cast<std::size_t>(i)]; };
  std::vector<Form> on_wires = equations_;
  for (auto& form : on_wires) {
    std::erase_if(form, [&](const auto& term) { return unknown(term.first).parameter; });
  }
  RankCounter all, wires;
  const auto count = [&](RankCounter& counter, std::vector<Form> rows) {
    for (int stage = local; stage < kStages; ++stage) {
      rows = counter.eliminate(std::move(rows), unknowns_.size(),
                               [&](int i) { return unknown(i).stage == stage; });
    }
  };
  count(all, equations_);
  count(wires, std::move(on_wires));
  const auto parameters = std::count_if(unknowns_.begin(), unknowns_.end(),
                                        [](const Unknown& u) { return u.parameter; });
  const double dropped = std::max({all.largest_dropped, wires.largest_dropped, 1e-17});
  return {parameters - all.rank + wires.rank,
          std::min(all.smallest_kept, wires.smallest_kept) / dropped};
}

Dense row_basis(const Dense& rows) {
  if (rows.rows() == 0) return Dense(0, rows.cols());
  const Eigen::JacobiSVD<Dense> svd(rows, Eigen::ComputeThinV);
  const Index rank = (svd.singularValues().array() > kZero).count();
  if (rank == rows.cols()) return Dense::Identity(rank, rank);
  return svd.matrixV().leftCols(rank).transpose();
}

}  // namespace regauge::calculus_system
