#include "diff_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "diff_page_style.h"
#include "diff_text.h"
#include "io/page.h"
#include "io/partial.h"

namespace regauge::cli {
namespace {

using io::escaped;

double relative(double value, const TensorResidual& r) { return value / (r.size > 0 ? r.size : 1); }

// The step of the colour scale.
int step_of(const TensorResidual& r) {
  if (r.relation == Relation::equal) return 0;
  const double excess = r.excess;
  if (r.relation == Relation::hidden) return 5;
  if (excess <= 1) return 1;
  return excess <= 10 ? 2 : excess <= 1000 ? 3 : 4;
}

constexpr const char* kSteps[] = {"equal",
                                  "within rounding",
                                  "up to 10 × what is accepted",
                                  "10 to 1000 × what is accepted",
                                  "more than 1000 × what is accepted",
                                  "rounding is too coarse to say"};

std::string cell(const TensorResidual& r) {
  const int step = step_of(r);
  const std::string off = r.residual == 0
                              ? "equal to the last bit"
                              : fmt::format("off by {:.2g} of its size; rounding explains {:.2g}",
                                            relative(r.residual, r), relative(r.rounding, r));
  const std::string units =
      r.residual > 0 && r.rounding > 0
          ? fmt::format(": {:.3g} times the rounding", r.residual / r.rounding)
          : "";
  return fmt::format(
      "<span class=\"cell s{}\" tabindex=\"0\" role=\"img\" aria-label=\"{}: {}\">"
      "<span class=\"tip\"><b>{}</b>{}{}</span></span>",
      step, escaped(r.tensor), kSteps[step], escaped(r.tensor), off, units);
}

// "layers.3.attn.q.weight" is "attn.q.weight" of layer 3; nothing for embedding and head.
std::string kind_in_layer(const std::string& tensor) {
  const auto begin = tensor.find('.');
  if (!tensor.starts_with("layers.")) return "";
  return tensor.substr(tensor.find('.', begin + 1) + 1);
}

class Page {
 public:
  Page(const Model& a, const Model& b, const Diff& result, const PageNotes& notes)
      : a_(a), b_(b), result_(result), notes_(notes) {}

  std::string text() {
    const std::string title = verdict_sentence(result_);
    line("<header class=\"{}\"><p class=\"kicker\">{}</p><h1>{}</h1><p>{}</p></header>",
         verdict_name(result_.verdict), kicker(), escaped(title), escaped(grounds(result_)));
    models();
    declarations();
    reasons();
    element();
    grid();
    list();
    certificate();
    line(
        "<footer class=\"small soft\"><p>Made by regauge {}. Two files are the same function if a "
        "change of coordinates that no input can notice carries one to the other, tensor by "
        "tensor, up to rounding. The page shows that comparison; it does not run the models.</p>"
        "</footer>",
        REGAUGE_VERSION);
    return io::html_page(title, kDiffPageStyle, out_);
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    out_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  const char* kicker() const {
    switch (result_.verdict) {
      case Verdict::same:
        return result_.declarations.empty() ? "Yes" : "Yes, up to declarations";
      case Verdict::perturbed:
      case Verdict::different:
        return "No";
      case Verdict::undecided:
        return "Undecided";
    }
    return "";
  }

  void model(const char* name, const Model& model) {
    std::set<std::string> types;
    for (const auto& stored : model.layout.stored()) {
      types.insert(model.checkpoint.at(stored.name).type_name());
    }
    std::string listed;
    for (const auto& type : types) listed += (listed.empty() ? "" : ", ") + type;
    const Architecture& shape = model.architecture;
    line(
        "<div class=\"model\"><b>{}</b><code>{}</code><div class=\"small soft\">{} {}, {}; {} "
        "layers of width {}, {} parameters</div></div>",
        name, escaped(model.checkpoint.path().string()), escaped(model.layout.family()),
        format_name(model.layout.format()), listed, shape.all_layers(), shape.width,
        parameter_count(shape));
  }

  void models() {
    out_ += "<section class=\"models\">\n";
    model("A", a_);
    model("B", b_);
    out_ += "</section>\n";
  }

  void declarations() {
    if (result_.declarations.empty()) return;
    out_ += "<section><h2>Declared differently</h2><ul>\n";
    for (const auto& difference : result_.declarations) line("<li>{}</li>", escaped(difference));
    out_ += "</ul></section>\n";
  }

  void reasons() {
    if (result_.verdict == Verdict::same) return;
    out_ += "<section><h2>Why</h2><div class=\"callout\">\n";
    // Those of a changed model are said above.
    if (result_.verdict != Verdict::perturbed) {
      for (const auto& reason : result_.reasons) line("<p>{}</p>", escaped(reason));
    }
    const Diagnosis& diagnosis = result_.diagnosis;
    if (diagnosis.causes.empty()) {
      line("<p>No mistake that converters are known for explains it.</p>");
    } else {
      line("<p>{}{}:</p>",
           diagnosis.certain ? "This explains it; with it undone B is the same function as A"
                             : "Probably, and not all of it",
           diagnosis.moved ? ", in other coordinates" : "");
    }
    for (const auto& cause : diagnosis.causes) {
      line("<p><b>{}</b> {}{}</p>", mistake_name(cause.mistake), escaped(cause.sentence),
           cause.repair.empty() ? ""
                                : fmt::format("<br /><span class=\"soft\">Repair: {}</span>",
                                              escaped(cause.repair)));
    }
    if (diagnosis.certain && diagnosis.repairable && !b_.checkpoint.files().empty()) {
      line("<p>Fix: <code>regauge diff {} {} --repair -o FIXED</code></p>",
           escaped(a_.checkpoint.path().string()), escaped(b_.checkpoint.path().string()));
    }
    out_ += "</div></section>\n";
  }

  void element() {
    if (result_.residuals.empty()) return;
    out_ += "<section><h2>The change of coordinates</h2>\n";
    if (result_.a_from_b.is_identity()) {
      line(
          "<p>None: the tensors are compared as they are, in the one layout of names and "
          "orientations that both files are read into.</p>");
    } else if (result_.verdict == Verdict::different || result_.verdict == Verdict::undecided) {
      line("<p>None was found that brings B near A.</p>");
    } else if (result_.movements.empty()) {
      line("<p>It moves nothing beyond rounding.</p>");
    } else {
      line("<p>{}</p><ul>", result_.verdict == Verdict::same
                                ? "What carries B to A:"
                                : "The nearest that was found, which carries B towards A:");
      for (const auto& movement : result_.movements) {
        line("<li>{} <span class=\"soft\">{}</span></li>", escaped(movement.what),
             escaped(movement.where));
      }
      out_ += "</ul>\n";
    }
    out_ += "</section>\n";
  }

  void grid() {
    if (result_.residuals.empty()) return;
    out_ += "<section><h2>Tensor by tensor</h2>\n<div class=\"legend\">";
    std::set<int> used;
    for (const auto& r : result_.residuals) used.insert(step_of(r));
    for (const int step : used) {
      out_ += fmt::format("<span><i class=\"s{}\"></i>{}</span>", step, kSteps[step]);
    }
    out_ += "</div>\n";
    std::vector<std::string> kinds;
    std::map<std::string, const TensorResidual*> by_name;
    for (const auto& r : result_.residuals) {
      by_name[r.tensor] = &r;
      const std::string kind = kind_in_layer(r.tensor);
      if (!kind.empty() && std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
        kinds.push_back(kind);
      }
    }
    ends("embed.");
    out_ += "<div class=\"scroll\"><table class=\"grid\"><thead><tr><th></th>";
    for (const auto& kind : kinds) {
      out_ += fmt::format("<th scope=\"col\"><span>{}</span></th>", escaped(kind));
    }
    out_ += "</tr></thead><tbody>\n";
    for (std::int64_t layer = 0; layer < result_.architecture.all_layers(); ++layer) {
      out_ += fmt::format("<tr><th scope=\"row\">layer {}</th>", layer);
      for (const auto& kind : kinds) {
        const auto found = by_name.find(fmt::format("layers.{}.{}", layer, kind));
        out_ += "<td>" + (found == by_name.end() ? "" : cell(*found->second)) + "</td>";
      }
      out_ += "</tr>\n";
    }
    out_ += "</tbody></table></div>\n";
    ends("head.");
    ends("beside.");
    line("<p class=\"small soft\">Point at a square, or tap it, for its numbers.</p></section>");
  }

  // Embedding or head: a square and a name each.
  void ends(const std::string& prefix) {
    out_ += "<div class=\"ends\">";
    for (const auto& r : result_.residuals) {
      if (!r.tensor.starts_with(prefix)) continue;
      out_ += fmt::format("<span>{}{}</span>", cell(r), escaped(r.tensor));
    }
    out_ += "</div>\n";
  }

  void list() {
    if (result_.residuals.empty()) return;
    std::vector<TensorResidual> sorted = result_.residuals;
    std::stable_sort(
        sorted.begin(), sorted.end(),
        [](const TensorResidual& a, const TensorResidual& b) { return a.excess > b.excess; });
    line("<section><h2>Numbers</h2><details><summary>All {} tensors, the farthest first</summary>",
         sorted.size());
    out_ +=
        "<div class=\"scroll\"><table class=\"list\"><thead><tr><th>tensor</th><th>off by</th>"
        "<th>rounding</th></tr></thead><tbody>\n";
    for (const auto& r : sorted) {
      line("<tr{}><td class=\"mono\">{}</td><td>{:.2g}</td><td>{:.2g}</td></tr>",
           r.agrees() ? "" : " class=\"off\"", escaped(r.tensor), relative(r.residual, r),
           relative(r.rounding, r));
    }
    out_ += "</tbody></table></div></details>\n";
    line(
        "<p class=\"small soft\">Root mean squares relative to A's tensor. Rounding is what "
        "storing "
        "both files in their number formats explains; a few times as much is accepted, as every "
        "step on the way rounds.</p></section>");
  }

  void certificate() {
    if (notes_.certificate.empty()) return;
    line(
        "<section><h2>Certificate</h2><p>The change of coordinates and the residuals are in "
        "<code>{}</code>; <code>regauge verify A B CERTIFICATE</code> applies it and compares "
        "again, for exactly these files (SHA-256):</p>",
        escaped(notes_.certificate));
    for (const auto& [name, files] : {std::pair{"A", &notes_.a}, {"B", &notes_.b}}) {
      for (const auto& [file, hash] : *files) {
        line("<p class=\"small hashes\"><b>{}</b> {} <code>{}</code></p>", name, escaped(file),
             escaped(hash));
      }
    }
    out_ += "</section>\n";
  }

  const Model& a_;
  const Model& b_;
  const Diff& result_;
  const PageNotes& notes_;
  std::string out_;
};

}  // namespace

void write_diff_page(const std::filesystem::path& path, const Model& a, const Model& b,
                     const Diff& result, const PageNotes& notes) {
  io::write_new(path, Page(a, b, result, notes).text());
}

}  // namespace regauge::cli
