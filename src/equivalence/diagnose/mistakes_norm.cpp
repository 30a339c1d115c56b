// Gains off by one, means taken out that are seen, and layer scales that count twice or not at all.
#include <fmt/format.h>

#include "change.h"

namespace regauge {
namespace {

// What a map writes, coordinate by coordinate, times a gain.
Patch multiplied(const std::string& name, const std::string& gain) {
  return changing_each([name, gain](const ReadTensor& read) -> Matrix<double> {
    return read(name) * read(gain).row(0).asDiagonal();
  });
}

}  // namespace

void add_gain_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes) {
  for (const auto& name : tensors_of(pair.architecture, layer)) {
    if (!name.ends_with(".gain")) continue;
    for (const double offset : {1.0, -1.0}) {
      Change change;
      change.mistake = Mistake::gain_offset;
      change.what = offset > 0 ? "gains are 1 too small: w where 1 + w was meant"
                               : "gains are 1 too large: 1 + w where w was meant";
      change.repair = offset > 0 ? "add 1" : "subtract 1";
      const bool head = name.ends_with("q_norm.gain") || name.ends_with("k_norm.gain");
      change.parts = {head ? "heads" : "stream"};
      const auto plus = [&](double number) {
        return changing_each(changed(name, [number](const Matrix<double>& m) -> Matrix<double> {
          return m.array() + number;
        }));
      };
      change.undo[name] = plus(offset);
      change.make[name] = plus(-offset);
      changes.push_back(std::move(change));
    }
  }
}

void add_layer_scale_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes) {
  if (layer < 0 || !pair.architecture.layer(layer).layer_scale) return;
  for (const auto& [branch, map] : {std::pair("attn", "o"), {"ffn", "down"}}) {
    const std::string gain = fmt::format("layers.{}.{}.layer_scale.gain", layer, branch);
    if (!has_tensor(pair.architecture, gain)) continue;
    Change twice;
    twice.mistake = Mistake::layer_scale;
    twice.what = "the layer scale is folded in, and multiplies once more";
    twice.repair = "divide by the layer scale";
    twice.parts = {branch};
    for (const char* end : {"weight", "bias"}) {
      const std::string name = fmt::format("layers.{}.{}.{}.{}", layer, branch, map, end);
      if (!has_tensor(pair.architecture, name)) continue;
      twice.undo[name] = changing_each([name, gain](const ReadTensor& read) -> Matrix<double> {
        return read(name) * read(gain).row(0).cwiseInverse().asDiagonal();
      });
      twice.make[name] = multiplied(name, gain);
    }
    changes.push_back(std::move(twice));
    Change lost;
    lost.mistake = Mistake::layer_scale;
    lost.what = "the layer scale is lost: 1 in its place";
    lost.repair = "take A's layer scale, as B has lost it";
    lost.parts = {branch};
    lost.undo[gain] = [gain, read_a = pair.a](const ReadTensor&) { return read_a(gain); };
    lost.make[gain] = changed(gain, [](const Matrix<double>& m) -> Matrix<double> {
      return Matrix<double>::Ones(m.rows(), m.cols());
    });
    if (pair.b(gain).isOnes(0)) changes.push_back(std::move(lost));
  }
}

// The gain of a norm that a branch ends with, multiplied into the map in front of the norm, which
// sees it.
void add_post_gain_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes) {
  for (const auto& [branch, map] : {std::pair{"attn", "o"}, {"ffn", "down"}}) {
    const std::string gain = fmt::format("layers.{}.{}.post_norm.gain", layer, branch);
    if (!has_tensor(pair.architecture, gain)) continue;
    Change change;
    change.mistake = Mistake::post_gain_folded;
    change.what = "the gain behind the branch was folded into its last map, in front of the norm";
    change.repair = "divide by A's gain and put it back, as B has lost it";
    change.parts = {branch};
    const auto gain_of_a = [gain, read_a = pair.a] { return read_a(gain); };
    change.undo[gain] = [gain_of_a](const ReadTensor&) { return gain_of_a(); };
    change.make[gain] = changed(gain, [](const Matrix<double>& m) -> Matrix<double> {
      return Matrix<double>::Ones(m.rows(), m.cols());
    });
    for (const char* end : {"weight", "bias"}) {
      const std::string name = fmt::format("layers.{}.{}.{}.{}", layer, branch, map, end);
      if (!has_tensor(pair.architecture, name)) continue;
      change.undo[name] = changing_each(changed(name, [gain_of_a](const Matrix<double>& m) {
        return Matrix<double>(m * gain_of_a().row(0).cwiseInverse().asDiagonal());
      }));
      change.make[name] = multiplied(name, gain);
    }
    changes.push_back(std::move(change));
  }
}

void add_centring_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes) {
  if (pair.architecture.norm != Norm::rms) return;
  for (const auto& name : tensors_of(pair.architecture, layer)) {
    const bool table = name == "embed.tokens" || name == "embed.positions" ||
                       name == "embed.types" || name == "embed.class_token" ||
                       name == "embed.registers" || name.starts_with("embed.input.");
    const bool writes = table || name.find(".attn.o.") != std::string::npos ||
                        name.find(".delta.o.") != std::string::npos ||
                        name.find(".ffn.down.") != std::string::npos;
    if (!writes) continue;
    Change change;
    change.mistake = Mistake::centred;
    change.what = "every row was made to sum to 0, which an rms norm sees";
    change.repair = "add A's row means back, as B has lost them";
    change.parts = {table ? "embedding" : "layers"};
    if (table) change.parts.push_back(name);
    if (!name.ends_with(".bias")) change.parts.emplace_back("matrices");
    change.undo[name] = changing_each([name, read_a = pair.a](const ReadTensor& read) {
      Matrix<double> value = read(name);
      value.colwise() += read_a(name).rowwise().mean();
      return value;
    });
    change.make[name] = changing_each(changed(name, [](const Matrix<double>& m) -> Matrix<double> {
      return m.colwise() - m.rowwise().mean();
    }));
    changes.push_back(std::move(change));
  }
}

}  // namespace regauge
