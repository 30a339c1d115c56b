#include "change.h"

#include <algorithm>
#include <numeric>

namespace regauge {

void add_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes) {
  for (const auto add :
       {add_adapter_changes, add_rotary_changes, add_gain_changes, add_centring_changes,
        add_layer_scale_changes, add_post_gain_changes, add_gate_changes, add_qkv_changes,
        add_transpose_changes, add_expert_changes, add_scale_changes}) {
    add(pair, layer, changes);
  }
}

std::vector<std::string> tensors_of(const Architecture& architecture, std::int64_t layer) {
  std::vector<std::string> names;
  for (const auto& spec : parameter_specs(architecture, layer)) names.push_back(spec.name);
  return names;
}

bool has_tensor(const Architecture& architecture, const std::string& name) {
  const auto names = tensors_of(architecture, layer_of(name));
  return std::find(names.begin(), names.end(), name) != names.end();
}

Matrix<double> reordered(const Matrix<double>& value, const Order& order) {
  Matrix<double> result(value.rows(), value.cols());
  for (Eigen::Index c = 0; c < value.cols(); ++c) {
    result.col(c) = value.col(order[static_cast<std::size_t>(c)]);
  }
  return result;
}

Order inverse(const Order& order) {
  Order result(order.size());
  for (std::size_t c = 0; c < order.size(); ++c) {
    result[static_cast<std::size_t>(order[c])] = static_cast<std::int64_t>(c);
  }
  return result;
}

Order compose(const Order& first, const Order& then) {
  Order result(then.size());
  for (std::size_t c = 0; c < then.size(); ++c) {
    result[c] = first[static_cast<std::size_t>(then[c])];
  }
  return result;
}

bool is_identity(const Order& order) {
  Order same(order.size());
  std::iota(same.begin(), same.end(), 0);
  return order == same;
}

Order halves_order(std::int64_t cols, std::int64_t heads, std::int64_t dims) {
  Order order(static_cast<std::size_t>(cols));
  const std::int64_t width = cols / heads;
  for (std::int64_t c = 0; c < cols; ++c) {
    const std::int64_t at = c % width;
    const bool turns = at < dims;
    order[static_cast<std::size_t>(c)] = turns ? c - at + at / 2 + at % 2 * (dims / 2) : c;
  }
  return order;
}

Matrix<double> sideways(const Matrix<double>& value, bool back) {
  using Turned = Eigen::Map<const Matrix<double>>;
  if (back) return Turned(value.data(), value.cols(), value.rows()).transpose();
  const Matrix<double> flat = value.transpose();
  return Turned(flat.data(), value.rows(), value.cols());
}

Patch changed(const std::string& name, std::function<Matrix<double>(const Matrix<double>&)> how) {
  return [name, how = std::move(how)](const ReadTensor& read) { return how(read(name)); };
}

Patch changing_each(Patch patch) {
  patch.does = Patch::Does::change_each;
  return patch;
}

Patch mixing(Patch patch) {
  patch.does = Patch::Does::mix;
  return patch;
}

Patches stacked(const Patches& first, const Patches& then) {
  Patches result = first;
  for (const auto& [name, patch] : then) {
    result[name] = mixing([first, patch = patch](const ReadTensor& read) {
      return patch([&](std::string_view tensor) {
        const auto before = first.find(tensor);
        return before == first.end() ? read(tensor) : before->second(read);
      });
    });
  }
  return result;
}

}  // namespace regauge
