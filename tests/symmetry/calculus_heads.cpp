#include "calculus_heads.h"

namespace regauge::calculus_system {

Wire linear(const Tensors& tensors, const Wire& x, const std::string& name, Index first,
            Index count) {
  Wire y = product(x, tensors.at(name + ".weight"), first, count);
  if (const auto bias = tensors.find(name + ".bias"); bias != tensors.end()) {
    add_to_base(y, {bias->second.value.middleCols(first, count),
                    bias->second.change.block(0, first, 1, count)});
  }
  return y;
}

std::vector<Wire> HeadWires::queries_or_keys(const Wire& x, const std::string& name,
                                             Index count) const {
  const Index dk = a_.qk_width;
  const std::string gain = name + "_norm.gain";
  std::vector<Wire> heads;
  Wire all;
  if (a_.qk_norm == QkNorm::joint) {
    all = normed(system_, linear(tensors_, x, name, 0, count * dk), tensors_.at(gain),
                 forgets_length_);
  }
  for (Index head = 0; head < count; ++head) {
    if (a_.qk_norm == QkNorm::joint) {
      heads.push_back({all.value.middleCols(head * dk, dk),
                       all.change.block(0, head * dk, all.value.rows(), dk)});
      continue;
    }
    const Wire own = linear(tensors_, x, name, head * dk, dk);
    heads.push_back(a_.has_qk_norm() ? normed(system_, own, tensors_.at(gain), forgets_length_)
                                     : affine(system_, own));
  }
  return heads;
}

std::vector<Wire> HeadWires::values(const Wire& source, const std::string& at,
                                    bool norm_forgotten) const {
  std::vector<Wire> heads;
  for (Index head = 0; head < a_.kv_heads; ++head) {
    const Wire v = linear(tensors_, source, at + a_.value_map(), head * a_.v_width, a_.v_width);
    if (!a_.value_norm || norm_forgotten) {
      heads.push_back(affine(system_, v));
      continue;
    }
    const Tensor ones{Dense::Ones(1, a_.v_width), Forms(1, a_.v_width)};
    heads.push_back(normed(system_, v, ones, forgets_length_));
  }
  return heads;
}

}  // namespace regauge::calculus_system
