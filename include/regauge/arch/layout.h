#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "regauge/arch/architecture.h"
#include "regauge/arch/parameters.h"
#include "regauge/io/checkpoint.h"

namespace regauge {

// How a family writes an architecture in a format: tensor names, orientation, fused tensors, which coordinates form a rotary
// pair, whether a gain is stored as w or as w - 1. Made from one data file of data/architectures/; nothing outside arch/ knows a
// family's name. The same architecture in two layouts is the same model.
class Layout {
 public:
  // One stored tensor and the canonical parameters that it holds (several for a fused one).
  struct Stored {
    std::string name;
    std::vector<std::int64_t> shape;
    std::vector<std::string> parameters;
  };

  // The tensors that a file of this layout holds for this architecture.
  const std::vector<Stored>& stored() const { return stored_; }
  // The stored tensor that holds a parameter; throws UsageError for a parameter that the architecture does not have.
  const Stored& holder(std::string_view parameter) const;

  // A parameter out of, or into, the values of its holder (in the holder's own order). extract and insert are inverse to each other.
  template <class Scalar>
  Matrix<Scalar> extract(std::string_view parameter, std::span<const Scalar> stored) const;
  template <class Scalar>
  void insert(std::string_view parameter, const Matrix<Scalar>& value, std::span<Scalar> stored) const;

  const std::string& family() const { return family_; }
  Format format() const { return format_; }

 private:
  friend class Family;
  struct Placement;  // how one parameter lies in its holder
  std::string family_;
  Format format_ = Format::safetensors;
  std::vector<Stored> stored_;
  std::map<std::string, Placement, std::less<>> placements_;
};

// A checkpoint that has been understood.
struct Model {
  Checkpoint checkpoint;
  Architecture architecture;
  Layout layout;

  // Opens a file or folder, recognises its family, reads the architecture from its config or metadata, and checks that every
  // tensor that the architecture needs is there with its shape; all problems are reported at once.
  static Model open(const std::filesystem::path& path);

  // One parameter, in the canonical form.
  template <class Scalar>
  Matrix<Scalar> read(std::string_view parameter) const;
};

Parameters<double> read_parameters(const Model& model);

// The layout in which `family` writes `architecture` in `format`; throws UsageError, saying what it cannot hold.
Layout layout_for(const std::string& family, Format format, const Architecture& architecture);

// The config.json (or GGUF metadata, or llama2.c header) that declares `architecture` in that family and format. Keys of `base` that
// the architecture does not determine are kept; `base` may be null.
nlohmann::json config_for(const std::string& family, Format format, const Architecture& architecture,
                          const nlohmann::json& base);

// Names of the known families.
std::vector<std::string> families();

}  // namespace regauge
