#include <fmt/format.h>

#include <cstdio>

#include "regauge/base/error.h"
#include "rewriting.h"

namespace regauge::cli {
namespace {

Format format_from_name(const std::string& name) {
  for (const Format format : {Format::safetensors, Format::gguf, Format::llama2c}) {
    if (name == format_name(format)) return format;
  }
  throw UsageError(fmt::format("--to: '{}' is not one of safetensors, gguf, llama2c", name));
}

}  // namespace

void add_convert(CLI::App& app, int& exit_code) {
  struct Options : RewriteOptions {
    std::string format;
    std::string family;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb =
      app.add_subcommand("convert", "Write a model in another format, or another family's layout");
  options->declare(*verb, true);
  verb->add_option("--to", options->format, "safetensors (a folder), gguf or llama2c")->required();
  verb->add_option("--family", options->family,
                   "the layout to write, where it is not the model's own: llama, regauge, ...");
  verb->footer("Tokenizers are not converted.");
  verb->callback([options, &exit_code] {
    const Model model = Model::open(options->model);
    const ParameterSource source(model, options->target_architecture(model));
    const Symmetry symmetry = symmetry_of(source.architecture());
    Rewrite::Target target;
    target.format = format_from_name(options->format);
    target.family = options->family.empty() ? model.layout.family() : options->family;
    options->carry_out(source, symmetry, Element{}, target);
    exit_code = 0;
  });
}

}  // namespace regauge::cli
