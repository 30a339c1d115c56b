#include <regauge/action/rewrite.h>
#include <regauge/align/align.h>
#include <regauge/base/version.h>
#include <regauge/equivalence/diff.h>

#include <cstdio>
#include <filesystem>
#include <string_view>

// Opens a model, moves it by a random element, and asks whether the two are the same and how one
// is brought into the other's coordinates.
int main(int argc, char** argv) {
  if (argc != 4 || std::string_view(argv[1]) != regauge::version()) return 1;
  const std::filesystem::path moved = argv[3];
  std::filesystem::remove_all(moved);
  regauge::Progress& progress = regauge::Progress::silent();
  const regauge::Model a = regauge::Model::open(argv[2]);
  const regauge::Symmetry symmetry = regauge::symmetry_of(a.architecture);
  const regauge::Element element = regauge::random_element(symmetry, 1);
  const regauge::ParameterSource source(a, a.architecture);
  regauge::Rewrite(source, symmetry, element, regauge::Rewrite::same_as(a)).run(moved, progress);

  const regauge::Model b = regauge::Model::open(moved);
  const regauge::Diff diff = regauge::diff(a, b, progress);
  const regauge::Alignment found =
      regauge::align(a, b, regauge::AlignMethod::weights, {}, progress);
  std::printf("dimension %lld, verdict %d, %zu maps\n",
              static_cast<long long>(symmetry.dimension()), static_cast<int>(diff.verdict),
              found.a_from_b.maps.size());
  return diff.verdict == regauge::Verdict::same && !found.a_from_b.maps.empty() ? 0 : 1;
}
