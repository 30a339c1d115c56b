#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

#include "print.h"
#include "regauge/base/error.h"
#include "rewriting.h"

namespace regauge::cli {
namespace {

// Where the model's own family is not written in the format, says which families could hold it.
void require_own_layout(const Architecture& architecture, const Rewrite::Target& target) {
  const auto able = families_for(target.format, architecture);
  if (std::find(able.begin(), able.end(), target.family) != able.end() || able.empty()) return;
  throw UsageError(fmt::format("convert: {} does not hold this model in {}; try --family {}",
                               target.family, format_name(target.format),
                               fmt::join(able, " or --family ")));
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
    target.format = format_from_name(lowercase(options->format));
    target.family = options->family.empty() ? model.layout.family() : options->family;
    if (options->family.empty() && target.format != model.layout.format()) {
      require_own_layout(source.architecture(), target);
    }
    options->carry_out(source, symmetry, Element{}, target);
    const bool translated = target.format != model.layout.format() ||
                            (!options->family.empty() && target.family != model.layout.family());
    for (const auto& [key, value] : model.not_understood) {
      if (!translated) break;
      say("regauge: key '{}' is not understood and is not carried over\n", key);
    }
    const bool into_gguf = target.format == Format::gguf && model.layout.format() != Format::gguf;
    if (into_gguf && !options->dry_run) {
      say("regauge: {} has no tokenizer; programs that turn text into tokens need one "
          "added\n",
          options->output);
    }
    exit_code = 0;
  });
}

}  // namespace regauge::cli
