#include "latent_match.h"

#include <fmt/format.h>

#include "cross.h"
#include "gauge_fit.h"
#include "numerics/polar.h"

namespace regauge {

template <class Scalar>
Element match_latents(const Symmetry& symmetry, std::int64_t layer, const Scope& scope,
                      const Parameters<Scalar>& a, const Parameters<Scalar>& b,
                      const Element& known) {
  Element found;
  for (const char* latent : {"q_latent", "kv_latent"}) {
    const std::string at = fmt::format("layers.{}.attn.{}", layer, latent);
    const Space* space = symmetry.find_space(at);
    if (space == nullptr || !scope.contains(*space)) continue;
    const bool readers_too = known.maps.contains(at);
    Matrix<Scalar> cross = Matrix<Scalar>::Zero(space->size(), space->size());
    for_axes(symmetry, a, at, [&](const std::string& name, int axis, const AxisPart&) {
      if (readers_too || axis == 1) add_cross(b.at(name), a.at(name), axis, cross);
    });
    Matrix<double> sum = cross.template cast<double>();
    hold_unused(sum);
    found.maps[at] = BlockMap<double>(1, space->size(), {}, polar_factor(sum));
  }
  return found;
}

template Element match_latents(const Symmetry&, std::int64_t, const Scope&,
                               const Parameters<float>&, const Parameters<float>&, const Element&);
template Element match_latents(const Symmetry&, std::int64_t, const Scope&,
                               const Parameters<double>&, const Parameters<double>&,
                               const Element&);

}  // namespace regauge
