#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "regauge/arch/architecture.h"
#include "regauge/arch/parameters.h"
#include "regauge/io/checkpoint.h"

namespace regauge {

struct Tower;

// How a family writes an architecture in a format: tensor names, orientation, fused tensors, which
// coordinates form a rotary pair, whether a gain is stored as w or as w - 1. Made from one data
// file of data/architectures/; nothing outside arch/ knows a family's name. The same architecture
// in two layouts is the same model.
class Layout {
 public:
  // One stored tensor and the canonical parameters that it holds, whole (several for a fused one)
  // or a piece of them (an expert's).
  struct Stored {
    std::string name;
    std::vector<std::int64_t> shape;
    std::vector<std::string> parameters;
    std::string copy_of = {};  // another tensor of which this one must be an exact copy
    std::int64_t slices = 1;   // equal shares of its numbers, one after another: an expert's each

    std::int64_t slice_elements() const;
  };

  // A tensor that holds no parameter but follows from the architecture (GGUF's divisors of rotary
  // frequencies).
  struct Constant {
    std::string name;
    std::vector<double> values;
  };

  // The tensors that a file of this layout holds for this architecture. A file may have exact
  // copies of a tensor besides (a tied head written out), which follow it in the list.
  const std::vector<Stored>& stored() const { return stored_; }
  // What a file made from nothing must hold besides. A file that was opened has these among
  // Model::unclaimed.
  const std::vector<Constant>& constants() const { return constants_; }
  // In how many slices a parameter lies, each of which can be read and written by itself: 1, or as
  // many as there are experts. Like all below, throws UsageError for a parameter that the
  // architecture does not have.
  std::int64_t slices(std::string_view parameter) const { return std::ssize(parts(parameter)); }
  // Where a slice lies: a tensor, and which of its slices.
  struct Home {
    const Stored& holder;
    std::int64_t slice;
  };
  Home home(std::string_view parameter, std::int64_t slice) const;
  const Stored& holder(std::string_view parameter) const { return home(parameter, 0).holder; }

  // Where the entries of a slice of a parameter lie in its holder: (i, j) at i * stride +
  // columns[j], or at columns[j] * stride + i if transposed, and `offset` is to be added to what
  // stands there.
  struct Place {
    bool transposed = false;
    std::int64_t stride = 0;
    double offset = 0;
    std::vector<std::int64_t> columns;
  };
  // The block of a parameter that is a slice, or all of it.
  struct Piece {
    std::string holder;
    std::int64_t row = 0, col = 0;  // where the block begins
    std::int64_t rows = 0, cols = 0;
    Place place;
  };
  // Nothing where numbers do not lie so: rows in another order, matrices of their own one after
  // another, or what is stored as another function of the parameter.
  std::vector<Piece> pieces(std::string_view parameter) const;
  // Stored is -exp of the parameter.
  bool is_minus_exp(std::string_view parameter) const { return parts(parameter).front().minus_exp; }

  // Writes the values of a slice of a holder, in its own order.
  template <class Scalar>
  using Values = std::function<void(const Home&, std::span<Scalar>)>;
  static constexpr std::int64_t kAll = -1;  // slices
  // A parameter, or a slice of it, out of or into the values of its holders. extract and insert are
  // inverse to each other: exactly in double for stored values of up to 32 bits, except that a gain
  // stored as w - 1 loses what lies below 2^-53. Instantiated for float and double.
  template <class Scalar>
  Matrix<Scalar> extract(std::string_view parameter, const Values<Scalar>& values,
                         std::int64_t slice = kAll) const;
  // What belongs to the stored values one by one (their rounding, say), in the parameter's order.
  template <class Scalar>
  Matrix<Scalar> arrange(std::string_view parameter, const Values<Scalar>& values,
                         std::int64_t slice = kAll) const;
  // The part of a parameter that one of its holders has.
  template <class Scalar>
  void insert(std::string_view parameter, const Matrix<Scalar>& value, const Stored& holder,
              std::span<Scalar> stored) const;
  // `value`: the slice, or all of the parameter. `stored`: of the slice's home.
  template <class Scalar>
  void insert_slice(std::string_view parameter, std::int64_t slice, const Matrix<Scalar>& value,
                    std::span<Scalar> stored) const;

  // The rotary pairs of this parameter's heads are stored as halves; otherwise adjacent, as in the
  // canonical form.
  bool has_halves(std::string_view parameter) const {
    return parts(parameter).front().head_width > 0;
  }

  const std::string& family() const { return family_; }
  Format format() const { return format_; }
  // What holds the parameters of one of the models that stand side by side, under their own names.
  Layout of_tower(const Tower& tower) const;

 private:
  friend class LayoutBuilder;

  // How a block of a parameter lies in its holder, or in a slice of it. That is a matrix of `rows`
  // x `width` (or its transpose, row-major); the block has those rows and some of the columns: in
  // each of `groups` equal groups of columns, a run of them from `begin`.
  struct Part {
    std::size_t holder = 0;         // index into stored_
    std::int64_t slice = 0;         // of the holder
    std::int64_t row = 0, col = 0;  // of the parameter, where the block begins
    std::int64_t rows = 0, cols = 0;
    std::int64_t width = 0;
    std::int64_t groups = 1;
    std::int64_t begin = 0;
    bool transposed = false;
    std::int64_t head_width =
        0;  // of heads whose rotary pairs are stored as halves; 0: pairs are adjacent
    std::int64_t rotary_dims = 0;
    bool heads_in_rows = false;  // these heads are runs of rows, or else of columns
    double offset = 0;           // parameter = stored + offset
    // A delta net's value heads, `tile_group` to each of `tile_heads` key heads, each of
    // `tile_width`: stored is the first one of every key head, then the second ones. 0: as they
    // are. Of columns, or of rows.
    std::int64_t tile_heads = 0, tile_group = 0, tile_width = 0;
    bool tiles_rows = false;
    std::int64_t matrices = 1;  // equal shares of the columns, each a matrix of its own
    bool minus_exp = false;     // stored = -exp(parameter)

    // Each number is at its row and column of a matrix.
    bool is_regular() const {
      return matrices == 1 && !minus_exp && !heads_in_rows && (tile_heads == 0 || !tiles_rows);
    }
    // The holder is the block, value by value.
    bool is_plain() const {
      return width == cols && (!transposed || rows == 1) && head_width == 0 && offset == 0 &&
             is_regular() && tile_heads == 0;
    }
  };
  const std::vector<Part>& parts(std::string_view parameter) const;
  // The column, in the slice of its holder, of each column of the block.
  static std::vector<std::int64_t> columns(const Part& part);
  // The row there, of each of its rows.
  static std::vector<std::int64_t> rows(const Part& part);
  // Into `value` from (row, col) on.
  template <class Scalar>
  static void take(const Part& part, std::span<const Scalar> stored, std::int64_t row,
                   std::int64_t col, Matrix<Scalar>& value);

  std::string family_;
  Format format_ = Format::safetensors;
  std::vector<Stored> stored_;
  std::vector<Constant> constants_;
  std::map<std::string, std::vector<Part>, std::less<>> parts_;
};

// A checkpoint that has been understood.
struct Model {
  Checkpoint checkpoint;
  Architecture architecture;
  Layout layout;
  // Tensors that hold no parameter (poolers, rotary tables, masks), in file order; to be copied
  // byte for byte.
  std::vector<std::string> unclaimed;
  // Those of `unclaimed` that may change the function: neither settings that the architecture took
  // in (divisors of rotary frequencies) nor known to be dead (masks, tables that are made anew).
  std::vector<std::string> unread;
  // Keys of the config or metadata that are neither read nor known to be harmless with the value
  // that they have, as paths such as "rope_parameters/factor", each with its value as ASCII JSON.
  std::map<std::string, std::string> not_understood;

  // Opens a file or folder, recognises its family, reads the architecture from its config or
  // metadata, and checks that every tensor that the architecture needs is there with its shape; all
  // problems are reported at once. A tied model may hold its head all the same, if it is a copy of
  // the token table byte for byte.
  static Model open(const std::filesystem::path& path);
  static Model open(Checkpoint checkpoint);

  // One parameter, or a slice of it, in the canonical form. Instantiated for float and double.
  template <class Scalar>
  Matrix<Scalar> read(std::string_view parameter, std::int64_t slice = Layout::kAll) const;
  // The numbers of a slice of a stored tensor.
  Numbers numbers(const Layout::Home& home) const;
};

// Instantiated for float and double, as is write_parameters.
template <class Scalar = double>
Parameters<Scalar> read_parameters(const Model& model);

// The layout in which `family` writes `architecture` in `format`; throws UsageError, saying what it
// cannot hold. `base` is a config that settles what the architecture leaves open (a patch's shape);
// null for the family's defaults. `like` is a file whose variant of the names (a prefix) is kept.
Layout layout_for(const std::string& family, Format format, const Architecture& architecture,
                  const nlohmann::json& base, const Checkpoint* like = nullptr);
Layout layout_for(const std::string& family, Format format, const Architecture& architecture);

// The config.json (or GGUF metadata, or llama2.c header) that declares `architecture` in that
// family and format. Keys of `base` that the architecture does not determine are kept; `base` may
// be null. Throws UsageError, listing what the family cannot say.
nlohmann::json config_for(const std::string& family, Format format,
                          const Architecture& architecture, const nlohmann::json& base);
// Whether it does not throw.
bool can_say(const std::string& family, Format format, const Architecture& architecture,
             const nlohmann::json& base);

// Makes a config.json that says what type its numbers have say this one.
void declare_dtype(nlohmann::json& config, DType dtype);

// A model in memory as a checkpoint of that family and format, made from nothing: no tokenizer, no
// companions. Whole or not at all; `path` must not exist.
template <class Scalar>
void write_parameters(const std::filesystem::path& path, const std::string& family, Format format,
                      const Architecture& architecture, const Parameters<Scalar>& parameters,
                      DType dtype);

// A data file of docs/adding-an-architecture.md, read while the program runs: its family is known
// from now on, and goes before others that describe the same models. Throws UsageError that names
// the file. Not to be called while models are opened elsewhere.
void register_family(const std::filesystem::path& file);
// The same from the text of one, which inherits only from those that are compiled in.
void register_family_text(std::string_view text);

// Names of the known families; of those that can hold an architecture in a format.
std::vector<std::string> families();
std::vector<std::string> families_for(Format format, const Architecture& architecture);

}  // namespace regauge
