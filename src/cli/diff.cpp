#include "regauge/equivalence/diff.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "diff_card.h"
#include "diff_page.h"
#include "diff_text.h"
#include "dividing.h"
#include "equivalence/beside/tokenizer.h"
#include "io/partial.h"
#include "print.h"
#include "regauge/arch/joint_architecture.h"
#include "regauge/base/error.h"
#include "regauge/equivalence/in_toto.h"
#include "residual_table.h"
#include "verb.h"

namespace regauge::cli {
namespace {

nlohmann::json as_json(const Diagnosis& diagnosis) {
  nlohmann::json causes = nlohmann::json::array();
  for (const auto& cause : diagnosis.causes) {
    causes.push_back({{"mistake", mistake_name(cause.mistake)},
                      {"sentence", cause.sentence},
                      {"repair", cause.repair},
                      {"tensors", cause.tensors}});
  }
  return {{"causes", causes},
          {"certain", diagnosis.certain},
          {"moved", diagnosis.moved},
          {"repairable", diagnosis.repairable}};
}

std::vector<std::string_view> mistakes(const Diagnosis& diagnosis) {
  std::vector<std::string_view> names;
  for (const auto& cause : diagnosis.causes) names.push_back(mistake_name(cause.mistake));
  return names;
}

Colour colour_of(Verdict verdict) {
  return verdict == Verdict::same        ? Colour::green
         : verdict == Verdict::undecided ? Colour::yellow
                                         : Colour::red;
}

void print(const Diff& result, bool all_tensors) {
  write_out(coloured(printable_lines(verdict_sentence(result)), colour_of(result.verdict)) + "\n");
  if (!result.movements.empty()) answer("  {}\n", movements_line(result));
  for (const auto& line : result.declarations) answer("  {}\n", line);
  for (const auto& reason : result.reasons) answer("  {}\n", reason);
  for (const auto& line : result.not_compared) answer("  {}\n", line);
  if (result.verdict != Verdict::same) {
    for (const auto& line : diagnosis_lines(result.diagnosis)) answer("{}\n", line);
  }
  if (result.residuals.empty()) return;
  if (result.verdict == Verdict::same && !all_tensors) {
    answer("{}\n", grounds(result));
  } else {
    print_residuals(result.residuals, all_tensors ? 0 : 8);
  }
}

// With the tokenizers: tokens that only stand in another order are brought into A's.
Diff diff_with_tokenizers(const Model& a, const Model& b, Progress& progress) {
  const auto known_a = read_vocabulary(a), known_b = read_vocabulary(b);
  if (!known_a || !known_b) {
    throw UsageError(fmt::format("[diff] --tokenizer: no tokenizer was found beside {}",
                                 (known_a ? b : a).checkpoint.path().string()));
  }
  const VocabularyMatch match = compare_vocabularies(*known_a, *known_b);
  if (match.kind == VocabularyMatch::Kind::equal) {
    Diff result = diff(a, b, progress);
    result.reasons.push_back("the vocabularies of the tokenizers are equal");
    return result;
  }
  if (match.kind == VocabularyMatch::Kind::different) {
    Diff result = diff(a, b, progress);
    if (result.verdict == Verdict::same) {
      result.verdict = Verdict::different;
      result.statement = Statement::not_the_same;
    }
    result.reasons.insert(result.reasons.end(), match.differences.begin(), match.differences.end());
    return result;
  }
  const Architecture joint = joint_architecture(a.architecture, b.architecture);
  Diff result = diff(a, b, progress, permuted_vocabulary(joint, match.a_from_b));
  result.declarations.push_back(
      "B's tokenizer has A's tokens in another order; B was compared in A's order");
  if (result.verdict == Verdict::same) result.statement = Statement::other_coordinates;
  return result;
}

// The plain comparison of what was written; where it refuses, so does the answer, and the
// certificate goes.
bool confirm(const Model& a, const Model& b, const std::string& certificate, Diff& result,
             Progress& progress) {
  const Verification verification = verify(a, b, certificate, progress);
  if (verification.holds()) return true;
  std::filesystem::remove(certificate);
  result.verdict = Verdict::undecided;
  result.statement = Statement::undecided;
  result.residuals = verification.residuals;
  result.reasons.insert(result.reasons.end(), verification.problems.begin(),
                        verification.problems.end());
  return false;
}

struct DiffOptions {
  std::string a, b, certificate, in_toto, output, html, card;
  bool json = false;
  bool all = false;
  bool repair = false;
  bool tokenizer = false;
  int jobs = 1;
  Dividing dividing{"diff"};
};

// A part only finds; what is made of the answer is the join's.
void check_outputs(const DiffOptions& options) {
  if (!options.dividing.is_part()) {
    if (options.output.empty()) return;
    if (!options.repair) throw UsageError("diff: -o is for --repair and for --part");
    io::check_new(options.output);
    return;
  }
  if (options.repair || options.all || options.json || !options.certificate.empty() ||
      !options.html.empty() || !options.card.empty()) {
    throw UsageError("diff: a part gives no answer; say with --join what is made of it");
  }
}

}  // namespace

void add_diff(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* verb = app.add_subcommand(
      "diff", "Find out whether two models are the same function; if not, what differs and why");
  verb->add_option("A", options->a, "the original: a folder or file");
  verb->add_option("B", options->b, "the model to check: a folder or file");
  const auto add_new_path = [&](const char* names, std::string& path, const char* help) {
    return verb->add_option(names, path, help)->check(CLI::NonexistentPath)->type_name("PATH");
  };
  CLI::Option* certificate =
      add_new_path("--certificate", options->certificate,
                   "if they are the same, write what `regauge verify` needs to this new file");
  add_new_path(
      "--in-toto", options->in_toto,
      "with --certificate: write the answer to this new file as a statement that in-toto's "
      "and sigstore's tools sign; `regauge verify` takes it, too")
      ->needs(certificate);
  CLI::Option* output =
      verb->add_option("-o,--output", options->output,
                       "where the repaired B goes, which must not exist yet, or a part's record");
  verb->add_flag("--repair", options->repair,
                 "if B differs from A by a known mistake, write B with the mistake undone")
      ->needs(output);
  add_new_path("--html", options->html, "write a page for people to this new file");
  add_new_path("--card", options->card,
               "write the answer as Markdown for a pull request to this new file");
  verb->add_flag("--all", options->all, "the residual of every tensor, not only of the worst");
  verb->add_flag("--tokenizer", options->tokenizer,
                 "compare the tokenizers' vocabularies, too; tokens may stand in another order");
  declare_jobs(*verb, options->jobs);
  options->dividing.declare(*verb);
  verb->add_flag("--json", options->json, "everything as JSON");
  verb->footer(
      "A is taken as right: where B differs, known mistakes of converters are tried as causes.\n"
      "Exit: 0 identical, the same numbers stored otherwise, or the same function in other\n"
      "coordinates; 1 not the same or not decided (also if B was repaired).");
  verb->callback([options, &exit_code] {
    Dividing& dividing = options->dividing;
    check_outputs(*options);
    dividing.find_arguments({&options->a, &options->b});
    const Model a = Model::open(options->a);
    const Model b = Model::open(options->b);
    const auto undivided = make_progress_of(options->jobs);
    dividing.begin({{"tokenizer", options->tokenizer}},
                   {{options->a, &a.checkpoint}, {options->b, &b.checkpoint}}, *undivided);
    Progress* const progress = &dividing.progress();
    const auto find = [&] {
      return options->tokenizer ? diff_with_tokenizers(a, b, *progress) : diff(a, b, *progress);
    };
    if (dividing.is_part()) {
      dividing.make_part(find, options->output);
      exit_code = 0;
      return;
    }
    Diff result = find();
    bool same = result.verdict == Verdict::same;
    if (!same) result.diagnosis = diagnose(a, b, result, *progress);
    const bool repaired =
        options->repair && result.diagnosis.repairable && result.diagnosis.certain;
    const std::string written =
        repaired ? repair(a, b, result.diagnosis, options->output, *progress) : "";
    PageNotes notes;
    const bool certify = same && !options->certificate.empty() && result.no_certificate.empty();
    if (certify) {
      notes = {options->certificate, fingerprint(a, *progress), fingerprint(b, *progress)};
      const Certificate proof{result.a_from_b, notes.a, notes.b, result.residuals};
      save_certificate(symmetry_of(result.architecture), proof, options->certificate);
      same = confirm(a, b, options->certificate, result, *progress);
      if (same && !options->in_toto.empty()) {
        save_in_toto(result, proof, options->certificate, options->in_toto);
      }
    }
    exit_code = same ? 0 : 1;
    if (!options->html.empty()) write_diff_page(options->html, a, b, result, notes);
    if (!options->card.empty()) write_diff_card(options->card, a, b, result);
    if (options->json) {
      const nlohmann::json summary = {{"verdict", verdict_name(result.verdict)},
                                      {"statement", statement_name(result.statement)},
                                      {"kind", kind_name(result)},
                                      {"identity", result.a_from_b.is_identity()},
                                      {"declarations", result.declarations},
                                      {"reasons", result.reasons},
                                      {"not_compared", result.not_compared},
                                      {"movements", movements_as_json(result)},
                                      {"tensors", residuals_as_json(result.residuals)},
                                      {"diagnosis", as_json(result.diagnosis)}};
      answer_json(summary);
    } else {
      print(result, options->all);
    }
    flush_out();  // what follows refers to it
    if (repaired) {
      say("Wrote {0}: B with {1} undone; {2}. Check: regauge diff {3} {0}\n", options->output,
          fmt::format("{}", fmt::join(mistakes(result.diagnosis), ", ")), written, options->a);
    } else if (!options->json && result.diagnosis.repairable && result.diagnosis.certain) {
      say("Fix: regauge diff {} {} --repair -o FIXED\n", options->a, options->b);
    }
    if (options->repair && !repaired) {
      const bool partly = !result.diagnosis.causes.empty() && !result.diagnosis.certain;
      say("not repaired: {}\n", same     ? "B is the same function as A"
                                : partly ? "with the known causes undone B still differs from A"
                                         : "the difference is no known mistake that can be undone");
    }
    if (!options->certificate.empty() && !certify) {
      say("no certificate: {}\n", same ? result.no_certificate : "there is nothing to certify");
    }
  });
}

}  // namespace regauge::cli
