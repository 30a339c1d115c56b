#pragma once

#include <filesystem>
#include <memory>

#include "align_settings.h"
#include "regauge/arch/parameter_source.h"
#include "regauge/lab/data.h"

namespace regauge::connect {

// Two models, read as one architecture.
struct ModelPair {
  const Symmetry& symmetry;
  const ParameterSource& a;
  const ParameterSource& b;
};

// By any method. `data` may be null for those that run no model; `state` is where learned keeps
// what it has done, until the caller removes it, and goes on from.
Alignment align_models(const ModelPair& pair, const AlignSettings& settings,
                       std::shared_ptr<const lab::Data> data, const std::filesystem::path& state,
                       Progress& progress);

}  // namespace regauge::connect
