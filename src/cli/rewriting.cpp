#include "rewriting.h"

#include <fmt/format.h>

#include "base/blas.h"
#include "print.h"
#include "regauge/base/error.h"

namespace regauge::cli {

std::string lowercase(std::string text) {
  for (char& letter : text) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return text;
}

void RewriteOptions::declare(CLI::App& verb, bool may_untie, const std::string& name) {
  CLI::Option* positional = verb.add_option(name, model, "folder or file");
  if (dividing) {
    dividing->declare(verb);
  } else {
    positional->required();
  }
  verb.add_option("-o,--output", output, "where the result goes; must not exist yet");
  if (may_untie) {
    verb.add_flag("--untie", untie,
                  "write a tied head as a tensor of its own, which frees the residual stream");
  }
  verb.add_option("--dtype", dtype, "store matrices as F32, F16 or BF16 (default: as they are)");
  verb.add_option("--max-memory", max_memory,
                  "work on fewer layers at a time if more would be needed, and refuse to start if "
                  "one is too much: 1GB, ...");
  declare_jobs(verb, jobs);
  verb.add_flag("--dry-run", dry_run, "print the plan and the memory that it needs, write nothing");
  verb.add_flag("--json", json, "the summary as JSON");
}

Architecture RewriteOptions::target_architecture(const Model& opened) const {
  Architecture architecture = opened.architecture;
  if (untie && !architecture.tied) {
    throw UsageError(fmt::format("--untie: {} is not tied", opened.checkpoint.path().string()));
  }
  if (untie) architecture.tied = false;
  return architecture;
}

std::optional<DType> RewriteOptions::target_dtype() const {
  if (dtype.empty()) return std::nullopt;
  return writable_dtype(lowercase(dtype));
}

void RewriteOptions::declare_save_element(CLI::App& verb) {
  verb.add_option("--save-element", save_element,
                  "write the element that was applied to this file");
}

int RewriteOptions::jobs_within_memory(const Rewrite& rewrite) const {
  if (max_memory.empty()) return jobs;
  const std::int64_t most = parse_bytes(max_memory);
  int fitting = jobs;
  while (fitting > 1 && rewrite.peak_memory(fitting) > most) --fitting;
  return fitting;
}

void RewriteOptions::check(const Rewrite& rewrite) const {
  const auto peak = rewrite.peak_memory();
  if (!max_memory.empty() && peak > parse_bytes(max_memory)) {
    throw UsageError(fmt::format(
        "this needs up to {} of memory, more than --max-memory {}: the largest tensor is worked on "
        "as a whole",
        format_bytes(static_cast<double>(peak)), max_memory));
  }
  if (!dry_run && output.empty()) {
    throw UsageError("say where the result goes: -o OUT (or --dry-run)");
  }
}

void RewriteOptions::check(const ParameterSource& source, const Symmetry& symmetry,
                           const Element& element, Rewrite::Target target) const {
  target.dtype = target_dtype();
  const bool is_part = dividing && dividing->is_part();  // whose output is a folder
  if (!dry_run && !output.empty() && !is_part) {
    CheckpointWriter::check_path(output, target.format);
  }
  if (!save_element.empty()) check_element_path(save_element);
  check(Rewrite(source, symmetry, element, std::move(target)));
}

void RewriteOptions::carry_out(const ParameterSource& source, const Symmetry& symmetry,
                               const Element& element, Rewrite::Target target) const {
  target.dtype = target_dtype();
  const Rewrite rewrite(source, symmetry, element, std::move(target));
  check(rewrite);
  if (!dry_run) {
    if (const std::string warning = blas_info().warning; !warning.empty()) {
      say("regauge: {}\n", warning);
    }
    for (const auto& [key, value] : source.model().not_understood) {
      if (element.is_identity()) break;
      say("regauge: key '{}' is not understood; if it changes what the model computes, the result "
          "may compute something else\n",
          key);
    }
    if (!save_element.empty()) regauge::save_element(symmetry, element, save_element);
    const int fitting = jobs_within_memory(rewrite);
    if (fitting < jobs) {
      say("regauge: {} of {} jobs, for which --max-memory {} has room\n", fitting, jobs,
          max_memory);
    }
    write(rewrite, *make_progress_of(fitting));
    if (dividing && dividing->is_part()) return;
  }
  summarise(rewrite);
}

// What is divided are the shards, each of which is written by one part.
void RewriteOptions::write(const Rewrite& rewrite, Progress& progress) const {
  Parts* parts = dividing ? dividing->parts() : nullptr;
  if (parts == nullptr) return rewrite.run(output, progress);
  const Parts::Turn turn = parts->begin("write shards", rewrite.shard_bytes());
  const auto path_of = [&](const std::filesystem::path& part, std::int64_t shard) {
    return part / "shards" / rewrite.shard_name(shard);
  };
  if (dividing->is_part()) {
    dividing->make_part_folder(
        [&](const std::filesystem::path& folder) {
          if (turn.units.empty()) return;
          rewrite.run_shards({turn.units.begin(), turn.units.end()}, folder / "shards", progress);
          for (const auto shard : turn.units) {
            parts->record(turn, shard, mark_of_file(path_of(folder, shard)));
          }
        },
        output);
    return;
  }
  std::vector<std::filesystem::path> shards;
  for (std::size_t i = 0; i < turn.results.size(); ++i) {
    shards.push_back(path_of(turn.sources[i], static_cast<std::int64_t>(i)));
    if (mark_of_file(shards.back()) == turn.results[i]) continue;
    throw UsageError(fmt::format("act: {} is not what its part wrote; make the part again",
                                 shards.back().string()));
  }
  rewrite.join_shards(output, shards);
}

void RewriteOptions::summarise(const Rewrite& rewrite) const {
  const auto peak = rewrite.peak_memory(jobs_within_memory(rewrite));
  if (json) {
    const nlohmann::json summary = {{"output", output},
                                    {"written", !dry_run},
                                    {"bytes", rewrite.bytes()},
                                    {"peak_memory", peak},
                                    {"changed", rewrite.changed()},
                                    {"copied", rewrite.copied()},
                                    {"unadapted", rewrite.unadapted()},
                                    {"dropped", rewrite.dropped()},
                                    {"left_out", rewrite.left_out()}};
    answer_json(summary);
    return;
  }
  if (dry_run) {
    for (const auto& layer : rewrite.plan().layers) {
      for (const auto* list : {&layer.vectors, &layer.matrices}) {
        for (const auto& tensor : *list) {
          if (!tensor.touched()) continue;
          answer("{}\n", tensor.spec.name);
          for (const auto* steps : {&tensor.linear, &tensor.shifts}) {
            for (const auto& step : *steps) answer("  {}\n", describe(step));
          }
          if (tensor.receives) answer("  takes constants\n");
        }
      }
    }
  }
  answer("{} {} tensors rewritten, {} copied byte for byte; {}, at most {} of memory\n",
         dry_run ? "plan:" : output + ":", rewrite.changed().size(), rewrite.copied().size(),
         format_bytes(static_cast<double>(rewrite.bytes())),
         format_bytes(static_cast<double>(peak)));
  for (const auto& name : rewrite.unadapted()) {
    say("regauge: {} is not part of the model that config.json declares and was copied as it "
        "is; if it reads the residual stream, it now reads other coordinates\n",
        name);
  }
  for (const auto& name : rewrite.dropped()) {
    say("regauge: {} has no place in the new file and was left out\n", name);
  }
  for (const auto& name : rewrite.left_out()) {
    say("regauge: {} was not copied: it is not part of the model that was read\n", name);
  }
}

}  // namespace regauge::cli
