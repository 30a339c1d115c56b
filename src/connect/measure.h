#pragma once

#include "align_models.h"
#include "regauge/arch/parameters.h"
#include "regauge/lab/line.h"

namespace regauge::connect {

nlohmann::json to_json(const lab::Line& line);

// element . model, in memory. Instantiated for float and double.
template <class Scalar>
Parameters<Scalar> moved_parameters(const ParameterSource& model, const Symmetry& symmetry,
                                    const Element& element);

// |A - B| / |A| of every tensor that is not zero in A.
nlohmann::json residuals(const Parameters<float>& a, const Parameters<float>& b);

// For every layer whose heads two_stage may move: the losses in the middle of the line for all
// permutations of its heads (those that keep groups together), each with its own gauges and the
// other layers as `found` has them. {"layers.0": {"rank", "of", "loss", "best"}}: the place of the
// found one, 1 if none is lower; how many there are; its loss; the lowest.
nlohmann::json head_ranks(const ModelPair& pair, const AlignSettings& settings,
                          const Alignment& found, const lab::Data& data, std::int64_t examples,
                          Progress& progress);

// How far q and k, v and o of every head are from balanced, the mean over the heads of
// |Q^T Q - K^T K| / |Q^T Q + K^T K| by layer: "layers.0.attn.qk", "layers.0.attn.vo". 0: balanced,
// at most 1. A key counts once for each of its queries.
std::map<std::string, double> imbalance(const Architecture& architecture,
                                        const Parameters<float>& model);

}  // namespace regauge::connect
