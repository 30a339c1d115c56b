#include "adapted.h"

#include <algorithm>
#include <memory>

namespace regauge {
namespace {

using io::LowRank;
using Form = LowRank::Form;

const LowRank* low_rank(const StoredTensor* tensor) {
  return tensor == nullptr ? nullptr : dynamic_cast<const LowRank*>(tensor->packing.get());
}

// B A on its side, where it still fits.
Form transposed(Form form) {
  if (form.rows == form.cols) std::swap(form.left, form.right);
  return form;
}

// lora_B of several experts is out x [rank, expert], lora_A [expert, rank] x in; here with the
// ranks of each expert next to each other in lora_B, or with the experts of each rank in lora_A.
Form regrouped(Form form, std::size_t part) {
  if (form.experts == 1) return form;
  for (LowRank::Factor* factor : {&form.left, &form.right}) {
    if (factor->part != part) continue;
    const bool of_b = part == 2;
    // Where the factor's numbers of the first expert begin, and which expert is meant.
    const std::int64_t of_one = of_b ? 1 : form.rank * factor->step;
    const std::int64_t expert = of_b ? factor->first % factor->side : factor->first / of_one;
    if (of_b) {
      factor->first += expert * (form.rank - 1);
      factor->matrix = factor->matrix == 0 ? 0 : form.rank;
      factor->step = 1;
    } else {
      factor->first = expert * factor->step + factor->first % of_one;
      factor->matrix = factor->matrix == 0 ? 0 : factor->step;
      factor->step *= form.experts;
    }
  }
  return form;
}

ReadTensor read_with(const Model& model, const Architecture& shape,
                     const std::function<Form(Form)>& change) {
  const auto changed = std::make_shared<Model>(model);
  changed->checkpoint =
      model.checkpoint.repacked([&](const StoredTensor& tensor) -> std::shared_ptr<const Packing> {
        const LowRank* packing = low_rank(&tensor);
        return packing == nullptr ? nullptr : packing->with(change(packing->form()));
      });
  const auto source = std::make_shared<ParameterSource>(*changed, shape);
  return ReadTensor(
      [changed, source](std::string_view name) { return source->read<double>(name); });
}

}  // namespace

std::optional<Adapted> adapted_of(const Model& model, const Architecture& shape) {
  const auto& tensors = model.checkpoint.tensors();
  const auto any = [&](auto holds) {
    return std::ranges::any_of(tensors, [&](const StoredTensor& tensor) {
      const LowRank* packing = low_rank(&tensor);
      return packing != nullptr && holds(packing->form());
    });
  };
  if (!any([](const Form&) { return true; })) return std::nullopt;
  Adapted adapted;
  adapted.whole = read_with(model, shape, [](const Form& form) { return form; });
  adapted.base = read_with(model, shape, [](Form form) {
    form.rank = 0;
    return form;
  });
  const auto add = [&](Mistake mistake, const char* what, const std::function<Form(Form)>& change) {
    if (!any([&](const Form& form) { return form != change(form); })) return;
    adapted.variants.push_back({mistake, what, read_with(model, shape, change)});
  };
  add(Mistake::adapter_transposed, "what the adapter adds was added transposed", transposed);
  add(Mistake::adapter_experts, "lora_B was taken with the ranks of each expert together",
      [](const Form& form) { return regrouped(form, 2); });
  add(Mistake::adapter_experts, "lora_A was taken with the experts of each rank together",
      [](const Form& form) { return regrouped(form, 1); });
  add(Mistake::adapter_scale, "the magnitudes of the DoRA adapter were left out", [](Form form) {
    form.magnitudes.reset();
    return form;
  });
  const auto source = std::make_shared<ParameterSource>(model, shape);
  adapted.packing = [source](std::string_view name) { return low_rank(source->stored(name)); };
  return adapted;
}

}  // namespace regauge
