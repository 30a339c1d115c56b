#include "contour.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace regauge::connect {
namespace {

struct Node {
  double x, y, loss;
};

// The grid with its border once more around it, there at minus infinity: every loop closes, along
// the border if need be. Nodes are corners, then the middles of squares.
class Mesh {
 public:
  Mesh(const RecordedPlane& plane, double above)
      : columns_(plane.x.size() + 2), rows_(plane.y.size() + 2) {
    constexpr double kBelow = -std::numeric_limits<double>::infinity();
    const auto inside = [](std::size_t i, std::size_t size) {
      return std::clamp<std::size_t>(i, 1, size) - 1;
    };
    for (std::size_t row = 0; row < rows_; ++row) {
      for (std::size_t column = 0; column < columns_; ++column) {
        const std::size_t i = inside(row, plane.y.size()), j = inside(column, plane.x.size());
        const bool border = row == 0 || column == 0 || row + 1 == rows_ || column + 1 == columns_;
        const double loss = std::isfinite(plane.loss[i][j]) ? plane.loss[i][j] : above;
        nodes_.push_back({plane.x[j], plane.y[i], border ? kBelow : loss});
      }
    }
    for (std::size_t row = 0; row + 1 < rows_; ++row) {
      for (std::size_t column = 0; column + 1 < columns_; ++column) {
        Node middle = {0, 0, 0};
        for (const std::size_t corner : corners(row, column)) {
          middle.x += nodes_[corner].x / 4;
          middle.y += nodes_[corner].y / 4;
          middle.loss += nodes_[corner].loss / 4;
        }
        nodes_.push_back(middle);
      }
    }
  }

  const Node& operator[](std::size_t node) const { return nodes_[node]; }

  // Calls `visit` with the three nodes of each triangle.
  template <class Visit>
  void each_triangle(Visit visit) const {
    for (std::size_t row = 0; row + 1 < rows_; ++row) {
      for (std::size_t column = 0; column + 1 < columns_; ++column) {
        const auto around = corners(row, column);
        const std::size_t middle = rows_ * columns_ + row * (columns_ - 1) + column;
        for (std::size_t i = 0; i < 4; ++i) {
          visit(std::array<std::size_t, 3>{around[i], around[(i + 1) % 4], middle});
        }
      }
    }
  }

 private:
  std::array<std::size_t, 4> corners(std::size_t row, std::size_t column) const {
    const std::size_t first = row * columns_ + column;
    return {first, first + 1, first + columns_ + 1, first + columns_};
  }

  std::size_t columns_, rows_;
  std::vector<Node> nodes_;
};

using Edge = std::pair<std::size_t, std::size_t>;  // from the node below the level to that above

// Where the loss is `level` on an edge.
Node crossing(const Mesh& mesh, const Edge& edge, double level) {
  const Node &below = mesh[edge.first], &above = mesh[edge.second];
  if (std::isinf(below.loss)) return above;
  const double part = (level - below.loss) / (above.loss - below.loss);
  return {below.x + part * (above.x - below.x), below.y + part * (above.y - below.y), level};
}

}  // namespace

std::string contour_path(const RecordedPlane& plane, double level, double above,
                         const std::function<double(double)>& x,
                         const std::function<double(double)>& y) {
  const Mesh mesh(plane, above);
  // The two edges that follow each crossed edge, one in each of its two triangles.
  std::map<Edge, std::vector<Edge>> next;
  mesh.each_triangle([&](const std::array<std::size_t, 3>& triangle) {
    std::vector<Edge> crossed;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t from = triangle[i], to = triangle[(i + 1) % 3];
      const bool rises = mesh[to].loss >= level;
      if ((mesh[from].loss >= level) == rises) continue;
      crossed.push_back(rises ? Edge{from, to} : Edge{to, from});
    }
    if (crossed.empty()) return;
    next[crossed[0]].push_back(crossed[1]);
    next[crossed[1]].push_back(crossed[0]);
  });
  std::string path;
  while (!next.empty()) {
    std::string last, loop;
    for (auto here = next.begin(); here != next.end();) {
      const Node at = crossing(mesh, here->first, level);
      std::string point = fmt::format("{:.1f} {:.1f}", x(at.x), y(at.y));
      if (point != last) loop += (loop.empty() ? "M" : "L") + point;
      last = std::move(point);
      const std::vector<Edge> onward = std::move(here->second);
      next.erase(here);
      here = next.find(onward[0]);
      if (here == next.end()) here = next.find(onward[1]);
    }
    path += loop + "Z";
  }
  return path;
}

}  // namespace regauge::connect
