#include "mistakes_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "equivalence/recover/stream.h"

namespace regauge {
namespace {

constexpr double kNearly = 0.05;
constexpr double kRelated = 0.7;  // what two random tables of many tokens exceed

struct Reads {
  std::string norm, tensor;
};

// Which maps read the stream behind which norm.
std::vector<Reads> norm_readers(const Symmetry& symmetry) {
  std::vector<Reads> all;
  for (const auto& [tensor, axes] : symmetry.tensors) {
    for (const auto& part : axes.rows) {
      if (part.space == "residual" && !part.through.empty()) all.push_back({part.through, tensor});
    }
  }
  return all;
}

// diag(gain) W, or its inverse.
Matrix<double> with_gain(const Matrix<double>& weight, const Matrix<double>& gain) {
  return gain.row(0).asDiagonal() * weight;
}
Matrix<double> without_gain(const Matrix<double>& weight, const Matrix<double>& gain) {
  return gain.row(0).cwiseInverse().asDiagonal() * weight;
}

Matrix<double> folded_head(const ReadTensor& read) {
  return with_gain(read("head.weight"), read("head.norm.gain"));
}

// The stream's map from b to a, by one tensor of each; none if it does not determine one.
std::optional<Element> stream_map(const Symmetry& symmetry, const std::string& tensor,
                                  const Matrix<double>& a, const Matrix<double>& b) {
  if (symmetry.find_space("residual") == nullptr) return std::nullopt;
  StreamCorrelation sum(symmetry);
  sum.add<double>(symmetry, {{tensor, a}}, {{tensor, b}});
  const StreamFit fit = fit_stream(symmetry, sum, 0);
  if (!fit.known.is_all()) return std::nullopt;
  Element found;
  found.maps["residual"] = fit.map;
  return found;
}

// The same to a length: where norms forget it, the stream may be longer or shorter. Never where the
// shapes differ, as those of a table of tokens and a head of classes.
bool nearly(const Matrix<double>& a, const Matrix<double>& b, double share = kNearly) {
  if (a.rows() != b.rows() || a.cols() != b.cols()) return false;
  const double length = a.cwiseProduct(b).sum() / b.squaredNorm();
  return length > 0 && (a - length * b).norm() < share * a.norm();
}

// What of A and B is compared to see how B's stream lies: rows in the stream.
struct End {
  std::string tensor;
  Matrix<double> a, b;
};
std::vector<End> ends(const Pair& pair) {
  const Architecture& shape = pair.architecture;
  std::vector<End> all;
  if (shape.input != Input::tokens) return all;
  if (shape.head_reads_stream() && !shape.tied && shape.has_final_norm()) {
    all.push_back({"head.weight", folded_head(pair.a), folded_head(pair.b)});
  }
  all.push_back({"embed.tokens", pair.a("embed.tokens"), pair.b("embed.tokens")});
  return all;
}

bool may_turn(const Architecture& shape, const Symmetry& symmetry) {
  const Space* residual = symmetry.find_space("residual");
  return residual != nullptr && residual->is_orthogonal() && shape.norm == Norm::rms &&
         shape.plain_stream() && shape.input == Input::tokens && !shape.embedding_norm;
}

// W as it is in B is R^T W: the gains belong in between. `turn` is R^T.
Change unfolded(const Symmetry& symmetry, const Matrix<double>& turn) {
  Change change;
  change.mistake = Mistake::rotation_unfolded;
  change.what = "the stream was rotated without folding the gains of the norms";
  change.repair = "rotate these maps through the gains";
  for (const auto& [norm, tensor] : norm_readers(symmetry)) {
    change.undo[tensor] = mixing([turn, norm = norm, tensor = tensor](const ReadTensor& read) {
      const Matrix<double> gain = read(norm + ".gain");
      const Matrix<double> straight = turn.transpose() * read(tensor);
      return without_gain(turn * with_gain(straight, gain), gain);
    });
  }
  return change;
}

}  // namespace

std::vector<Change> stream_changes(const Pair& pair, const Symmetry& symmetry) {
  const Architecture& shape = pair.architecture;
  std::vector<Change> changes;
  if (!may_turn(shape, symmetry)) return changes;
  const Matrix<double> embed_a = pair.a("embed.tokens"), embed_b = pair.b("embed.tokens");
  const bool has_head = shape.head_reads_stream();
  const ReadTensor read_a = pair.a;
  const auto by_embedding = stream_map(symmetry, "embed.tokens", embed_a, embed_b);
  const Matrix<double> turn =
      by_embedding ? by_embedding->maps.at("residual").blocks() : Matrix<double>();
  if (by_embedding && nearly(embed_a, embed_b * turn)) {
    changes.push_back(unfolded(symmetry, turn));
    const Matrix<double> head_b = has_head ? pair.b("head.weight") : Matrix<double>();
    if (has_head &&
        (nearly(pair.a("head.weight"), head_b) || nearly(embed_b.transpose(), head_b))) {
      Change change;
      change.mistake = Mistake::rotation_incomplete;
      change.what = "the stream was rotated, the head was not (a tied head has to be untied first)";
      change.repair = "rotate A's head as the rest was, as a tensor of its own";
      change.undo["head.weight"] = mixing([turn, read_a](const ReadTensor& read) {
        return without_gain(turn * folded_head(read_a), read("head.norm.gain"));
      });
      changes.push_back(std::move(change));
    }
  }
  if (!has_head || !nearly(embed_a, embed_b)) return changes;
  if (const auto by_head =
          stream_map(symmetry, "head.weight", folded_head(pair.a), folded_head(pair.b))) {
    Change change;
    change.mistake = Mistake::rotation_incomplete;
    change.what = "the stream was rotated, the embedding was not";
    change.repair = "rotate A's embedding as the rest was";
    change.undo["embed.tokens"] = mixing([back = by_head->maps.at("residual").blocks(),
                                          read_a](const ReadTensor&) -> Matrix<double> {
      return read_a("embed.tokens") * back.transpose();
    });
    changes.push_back(std::move(change));
  }
  return changes;
}

std::vector<Element> b_streams_from_a(const Pair& pair, const Symmetry& symmetry) {
  std::vector<Element> all;
  for (const auto& end : ends(pair)) {
    if (const auto found = stream_map(symmetry, end.tensor, end.a, end.b)) {
      all.push_back(inverse(symmetry, *found));
    }
  }
  return all;
}

bool streams_are_related(const Pair& pair, const Symmetry& symmetry) {
  const Space* residual = symmetry.find_space("residual");
  const auto both = ends(pair);
  if (residual == nullptr || both.empty()) return true;
  return std::any_of(both.begin(), both.end(), [&](const End& end) {
    const auto found = stream_map(symmetry, end.tensor, end.a, end.b);
    if (!found) return true;
    Matrix<double> moved = end.tensor == "head.weight" ? end.b.transpose() : end.b;
    map_of(symmetry, *found, *residual).apply(moved, 1);
    return nearly(end.tensor == "head.weight" ? end.a.transpose() : end.a, moved, kRelated);
  });
}

}  // namespace regauge
