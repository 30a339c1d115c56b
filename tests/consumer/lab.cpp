#include <regauge/action/act.h>
#include <regauge/arch/layout.h>
#include <regauge/lab/forward.h>

#include <cstdio>

// Moves a model by a random element, and runs both: the same logits.
int main(int argc, char** argv) {
  if (argc != 2) return 1;
  const regauge::Model model = regauge::Model::open(argv[1]);
  const regauge::Symmetry symmetry = regauge::symmetry_of(model.architecture);
  const auto before = regauge::read_parameters<double>(model);
  auto after = before;
  regauge::act(symmetry, regauge::random_element(symmetry, 1), after);
  regauge::lab::Batch batch;
  batch.sequences = 1;
  batch.length = 3;
  batch.tokens = {1, 2, 3};
  const auto logits = regauge::lab::forward(model.architecture, before, batch);
  const double off = (logits - regauge::lab::forward(model.architecture, after, batch)).norm();
  std::printf("logits of norm %g, off by %g\n", logits.norm(), off);
  return logits.norm() > 0 && off < 1e-9 * logits.norm() ? 0 : 1;
}
