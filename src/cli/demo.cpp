#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "demo_files.h"
#include "print.h"
#include "regauge/action/rewrite.h"
#include "regauge/arch/parameter_source.h"
#include "regauge/base/error.h"
#include "regauge/symmetry/symmetry.h"
#include "verb.h"

namespace regauge::cli {
namespace {

namespace fs = std::filesystem;

// A folder that is made here, and removed again unless it was kept.
class NewFolder {
 public:
  explicit NewFolder(fs::path path) : path_(std::move(path)) {
    std::error_code error;
    if (fs::exists(fs::symlink_status(path_, error))) {
      throw UsageError(fmt::format("demo: {} exists; choose a new folder", path_.string()));
    }
    if (!fs::create_directory(path_, error)) {
      throw FileError(
          fmt::format("demo: cannot make the folder {}: {}", path_.string(), error.message()));
    }
  }
  ~NewFolder() {
    std::error_code ignored;
    if (!kept_) fs::remove_all(path_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  void keep() { kept_ = true; }

 private:
  fs::path path_;
  bool kept_ = false;
};

void write(const DemoFile& file, const fs::path& path) {
  std::ofstream out(path, std::ios::binary);
  for (const auto piece : file.pieces) {
    out.write(piece.data(), static_cast<std::streamsize>(piece.size()));
  }
  if (!out.flush()) throw FileError(fmt::format("demo: cannot write {}", path.string()));
}

// What a converter makes that takes rows in the order of adjacent rotary pairs for rows in the
// order of halves.
Patch without_rotary_permutation(const std::string& name, std::int64_t heads) {
  return Patch([name, heads](const ReadTensor& read) {
    const Matrix<double> right = read(name);
    Matrix<double> wrong(right.rows(), right.cols());
    const std::int64_t width = right.cols() / heads;
    for (std::int64_t col = 0; col < right.cols(); ++col) {
      const std::int64_t in_head = col % width;
      wrong.col(col) = right.col(col - in_head + in_head / 2 + in_head % 2 * (width / 2));
    }
    return wrong;
  });
}

void write_converted(const Model& original, const fs::path& path, Progress& progress) {
  const Architecture& shape = original.architecture;
  Patches patches;
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const auto& attention = shape.layer(layer).attention;
    for (const auto& [map, heads] :
         {std::pair{"q", attention.heads}, std::pair{"k", attention.kv_heads}}) {
      const std::string name = fmt::format("layers.{}.attn.{}.weight", layer, map);
      patches[name] = without_rotary_permutation(name, heads);
    }
  }
  const ParameterSource source(original, shape, patches);
  const Symmetry symmetry = symmetry_of(shape);
  const Element nothing;
  Rewrite(source, symmetry, nothing, Rewrite::same_as(original)).run(path, progress);
}

void write_rotated(const Model& original, const fs::path& path, Progress& progress) {
  Architecture shape = original.architecture;
  shape.tied = false;
  const ParameterSource source(original, shape);
  const Symmetry symmetry = symmetry_of(shape);
  const Element rotation = random_element(symmetry, 1, {Category::residual}, Blocks::random);
  Rewrite::Target target = Rewrite::same_as(original);
  target.dtype = DType::f32;  // so that rounding hides nothing
  Rewrite(source, symmetry, rotation, target).run(path, progress);
}

}  // namespace

void add_demo(CLI::App& app, int& exit_code) {
  auto folder = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand(
      "demo", "Write a small trained model, a broken conversion of it and a rotated copy");
  verb->add_option("DIR", *folder, "a new folder (about 2 MB)")->required();
  verb->callback([folder, &exit_code] {
    const fs::path path(*folder), original = path / "original";
    NewFolder made(path);
    fs::create_directory(original);
    for (const auto& file : demo_files()) {
      write(file, (file.name == "README.txt" ? path : original) / file.name);
    }
    const Model model = Model::open(original);
    const auto progress = make_progress();
    write_converted(model, path / "converted", *progress);
    write_rotated(model, path / "rotated", *progress);
    made.keep();
    answer(
        "{0}/original   a Llama trained on TinyStories, 260,032 parameters\n"
        "{0}/converted  the same, converted with a mistake\n"
        "{0}/rotated    the same function in other numbers: rotated, as before quantising\n"
        "Try:\n"
        "  regauge diff {0}/original {0}/converted\n"
        "  regauge diff {0}/original {0}/rotated\n",
        path.string());
    exit_code = 0;
  });
}

}  // namespace regauge::cli
