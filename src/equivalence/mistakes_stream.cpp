#include "mistakes_stream.h"

#include <fmt/format.h>

#include "stream.h"

namespace regauge {
namespace {

constexpr double kNearly = 0.05;

struct Reads {
  std::string norm, tensor;
};

// Which maps read which norm.
std::vector<Reads> norm_readers(const Architecture& a) {
  std::vector<Reads> all;
  for (std::int64_t layer = 0; layer < a.layers; ++layer) {
    const std::string at = fmt::format("layers.{}.", layer);
    for (const char* name : {"q", "k", "v"}) {
      all.push_back({at + "attn.norm", at + "attn." + name + ".weight"});
    }
    if (a.gated) all.push_back({at + "ffn.norm", at + "ffn.gate.weight"});
    all.push_back({at + "ffn.norm", at + "ffn.up.weight"});
  }
  if (a.output != Output::hidden) all.push_back({"head.norm", "head.weight"});
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

// R with a = b R for rows of the stream, orthogonal; empty if these rows do not determine it.
Matrix<double> turn(const Symmetry& symmetry, const std::string& tensor, const Matrix<double>& a,
                    const Matrix<double>& b) {
  StreamCorrelation sum(symmetry);
  sum.add<double>(symmetry, {{tensor, a}}, {{tensor, b}});
  const StreamFit fit = fit_stream(symmetry, sum, 0);
  return fit.known.is_all() ? fit.map.blocks() : Matrix<double>();
}

}  // namespace

std::vector<Change> stream_changes(const Pair& pair, const Symmetry& symmetry) {
  const Architecture& shape = pair.architecture;
  const Space* residual = symmetry.find_space("residual");
  const bool turns = residual != nullptr && residual->is_orthogonal() && shape.norm == Norm::rms &&
                     shape.placement == Placement::pre && shape.input == Input::tokens &&
                     !shape.embedding_norm;
  std::vector<Change> changes;
  if (!turns) return changes;
  const Matrix<double> embed_a = pair.a("embed.tokens"), embed_b = pair.b("embed.tokens");
  const ReadTensor read_a = pair.a;
  const Matrix<double> by_embedding = turn(symmetry, "embed.tokens", embed_a, embed_b);
  if (by_embedding.size() > 0 &&
      (embed_a - embed_b * by_embedding).norm() < kNearly * embed_a.norm()) {
    // W as it is in B is R^T W: the gains belong in between.
    Change unfolded{Mistake::rotation_unfolded,
                    "the stream was turned without folding the gains of the norms",
                    "turn these maps through the gains",
                    {},
                    {},
                    {}};
    for (const auto& [norm, tensor] : norm_readers(shape)) {
      unfolded.undo[tensor] = [=, norm = norm, tensor = tensor](const ReadTensor& read) {
        const Matrix<double> gain = read(norm + ".gain");
        const Matrix<double> straight = by_embedding.transpose() * read(tensor);
        return without_gain(by_embedding * with_gain(straight, gain), gain);
      };
    }
    changes.push_back(std::move(unfolded));
    if (shape.output != Output::hidden) {
      Change head{Mistake::rotation_incomplete,
                  "the stream was turned, the head was not (a tied head has to be untied first)",
                  "turn A's head as the rest was, as a tensor of its own",
                  {},
                  {},
                  {}};
      head.undo["head.weight"] = [=](const ReadTensor& read) {
        return without_gain(by_embedding * folded_head(read_a), read("head.norm.gain"));
      };
      changes.push_back(std::move(head));
    }
  }
  if (shape.output == Output::hidden) return changes;
  const Matrix<double> head_a = folded_head(pair.a), head_b = folded_head(pair.b);
  const Matrix<double> by_head = turn(symmetry, "head.weight", head_a, head_b);
  if (by_head.size() > 0 &&
      (head_a - by_head.transpose() * head_b).norm() < kNearly * head_a.norm()) {
    const Matrix<double> turned = embed_a * by_head.transpose();
    const Matrix<double> centred = turned.colwise() - turned.rowwise().mean();
    const bool is_centred = (centred - embed_b).norm() < kNearly * centred.norm();
    Change embedding{is_centred ? Mistake::centred : Mistake::rotation_incomplete,
                     is_centred ? "every row was made to sum to 0, which an rms norm sees"
                                : "the stream was turned, the embedding was not",
                     "turn A's embedding as the rest was",
                     {},
                     {},
                     {}};
    embedding.undo["embed.tokens"] = [=](const ReadTensor&) -> Matrix<double> {
      return read_a("embed.tokens") * by_head.transpose();
    };
    changes.push_back(std::move(embedding));
  }
  return changes;
}

}  // namespace regauge
