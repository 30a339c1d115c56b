#include "regauge/symmetry/symmetry.h"

#include <fmt/format.h>

#include "builder.h"
#include "index.h"
#include "side_by_side.h"

namespace regauge {

std::int64_t Symmetry::dimension() const {
  std::int64_t sum = 0;
  for (const auto& space : spaces) sum += space.dimension();
  for (const auto& shift : shifts) sum += shift.dimension;
  return sum;
}

double Symmetry::log2_components() const {
  double sum = 0;
  for (const auto& space : spaces) sum += space.log2_components();
  // Half a turn of all heads is one of the exchange of gains, too.
  for (const auto& space : spaces) {
    if (!space.exchanged_by.empty())
      sum -= space.log2_components() / static_cast<double>(space.count);
  }
  return sum;
}

const Space* Symmetry::find_space(std::string_view name) const {
  const auto found = index->spaces.find(name);
  return found == index->spaces.end() ? nullptr : &spaces[found->second];
}

const Shift* Symmetry::find_shift(std::string_view name) const {
  const auto found = index->shifts.find(name);
  return found == index->shifts.end() ? nullptr : &shifts[found->second];
}

SymmetryBuilder::SymmetryBuilder(const Architecture& architecture)
    : a_(architecture), lengths_free_(architecture.norm_eps == 0) {
  symmetry_.architecture = architecture;
  for (const auto& spec : parameter_specs(architecture)) {
    symmetry_.tensors[spec.name];
    shapes_[spec.name] = {spec.rows, spec.cols};
  }
}

Symmetry SymmetryBuilder::build() {
  add_stream();
  add_embedding();
  if (a_.has_tables()) add_tables();
  for (std::int64_t layer = 0; layer < a_.layers; ++layer) {
    if (plain() && layer > 0 && layer == a_.encoder_layers) {
      add_gain_space("encoder.norm", stream_of(0));
      add_pre_norm("encoder.norm", stream_of(0));
    }
    a_.layer(layer).has_delta() ? add_delta_net(layer) : add_attention(layer);
    if (a_.layer(layer).has_ffn()) add_feed_forward(layer);
    if (a_.has_tables()) add_table(layer);
    if (a_.layer(layer).stream_scale) add_stream_scale(layer);
    if (layer < a_.deep_inputs) add_deep_input(layer);
  }
  // Its readers are known by now.
  if (a_.encoder_layers > 0 && constant_behind(a_.encoder_norm())) {
    add_norm_shift(a_.encoder_norm(), stream_axis(stream_of(0)), {});
  }
  add_head();
  symmetry_.index = std::make_shared<const SymmetryIndex>(index_of(symmetry_));
  return std::move(symmetry_);
}

void SymmetryBuilder::add_shift(Shift shift) {
  if (shift.dimension > 0) symmetry_.shifts.push_back(std::move(shift));
}

void SymmetryBuilder::add_counted_shift(std::string name, std::int64_t dimension) {
  Shift shift;
  shift.name = std::move(name);
  shift.dimension = dimension;
  shift.depends_on_values = true;
  add_shift(std::move(shift));
}

void SymmetryBuilder::append_scalar(Axis& axis, const std::string& space, std::int64_t length,
                                    bool dual) const {
  if (!has_space(space)) return;
  AxisPart part;
  part.space = space;
  part.dual = dual;
  part.repeat = length;
  axis.push_back(part);
}

bool is_stream(std::string_view space) {
  return space == "residual" || space == "encoder.residual";
}

Symmetry symmetry_of(const Architecture& architecture) {
  validate(architecture);
  if (architecture.beside.empty()) return SymmetryBuilder(architecture).build();
  std::vector<Symmetry> parts;
  for (const Tower& tower : towers_of(architecture)) {
    parts.push_back(SymmetryBuilder(tower.architecture).build());
  }
  return side_by_side(architecture, std::move(parts));
}

}  // namespace regauge
