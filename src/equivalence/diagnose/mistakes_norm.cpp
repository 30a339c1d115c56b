// Gains off by one, and means taken out that are seen.
#include "change.h"

namespace regauge {

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

void add_centring_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes) {
  if (pair.architecture.norm != Norm::rms) return;
  for (const auto& name : tensors_of(pair.architecture, layer)) {
    const bool table = name == "embed.tokens" || name == "embed.positions" ||
                       name == "embed.types" || name == "embed.class_token" ||
                       name == "embed.registers" || name.starts_with("embed.input.");
    const bool writes = table || name.find(".attn.o.") != std::string::npos ||
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
