// Manual pages in roff.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "help.h"
#include "print.h"
#include "regauge/base/error.h"
#include "verb.h"

namespace regauge::cli {
namespace {

// Text that roff takes as it stands.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '\\') {
      result += "\\e";
    } else if (letter == '-') {
      result += "\\-";
    } else if (letter == '\n') {
      result += '\n';
    } else {
      const bool control =
          (letter == '.' || letter == '\'') && (result.empty() || result.back() == '\n');
      result += control ? std::string("\\&") + letter : std::string(1, letter);
    }
  }
  return result;
}

// Lines that begin with two spaces stand as they are; others are filled.
std::string paragraphs(const std::string& text) {
  std::istringstream lines(text);
  std::string result, line;
  bool as_it_is = false;
  while (std::getline(lines, line)) {
    const bool indented = line.starts_with("  ");
    if (indented != as_it_is) result += indented ? ".PP\n.nf\n" : ".fi\n.PP\n";
    as_it_is = indented;
    result += line.empty() ? ".PP\n" : escaped(line) + "\n";
  }
  return as_it_is ? result + ".fi\n" : result;
}

std::string entry(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const auto& name : names_of(option)) names.push_back("\\fB" + escaped(name) + "\\fR");
  if (names.empty()) names.push_back("\\fI" + escaped(option.get_name(true, false)) + "\\fR");
  std::string heading = fmt::format("{}", fmt::join(names, ", "));
  if (takes_value(option) && option.nonpositional()) {
    heading += " \\fI" + escaped(value_of(option)) + "\\fR";
  }
  return fmt::format(".TP\n{}\n{}\n", heading, escaped(description_of(option)));
}

}  // namespace

std::string manual_page(const CLI::App& verb, const std::string& name) {
  std::string title = name;
  std::replace(title.begin(), title.end(), ' ', '-');
  std::string page = fmt::format(".TH \"{}\" 1 \"\" \"regauge {}\" \"User Commands\"\n",
                                 escaped(title), REGAUGE_VERSION);
  page += fmt::format(".SH NAME\n{} \\- {}\n", escaped(title), escaped(verb.get_description()));
  page += ".SH SYNOPSIS\n.B " + escaped(name) + "\n";
  const auto positionals =
      verb.get_options([](const CLI::Option* option) { return option->get_positional(); });
  for (const auto* one : positionals) page += escaped(one->get_name(true, false)) + "\n";
  page += "[options]\n";
  const auto verbs = verbs_of(verb);
  if (!verbs.empty()) page += "\\fIverb\\fR ...\n";
  if (!positionals.empty()) page += ".SH ARGUMENTS\n";
  for (const auto* one : positionals) page += entry(*one);
  for (const auto& group : verb.get_groups()) {
    std::string entries;
    for (const auto* option : named_options(verb)) {
      if (option->get_group() == group) entries += entry(*option);
    }
    if (entries.empty()) continue;
    page += fmt::format(".SH \"{}\"\n{}", escaped(group == "Options" ? "OPTIONS" : group), entries);
  }
  if (!verbs.empty()) page += ".SH VERBS\n";
  for (const auto* one : verbs) {
    page += fmt::format(".TP\n\\fB{}\\fR\n{}\n", escaped(one->get_name()),
                        escaped(one->get_description()));
  }
  if (const auto footer = verb.get_footer(); !footer.empty()) {
    page += ".SH NOTES\n" + paragraphs(footer);
  }
  return page;
}

void add_man(CLI::App& app, int& exit_code) {
  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* verb = app.add_subcommand("man", "Print a manual page for man(1)");
  verb->add_option("VERB", *words, "one of the verbs; without it, the page of the program");
  verb->callback([words, &app, &exit_code] {
    const CLI::App* about = &app;
    std::string name = "regauge";
    for (const auto& word : *words) {
      const CLI::App* found = nullptr;
      for (const auto* one : verbs_of(*about)) {
        if (one->get_name() == word) found = one;
      }
      if (found == nullptr) throw UsageError(fmt::format("man: there is no verb '{}'", word));
      about = found;
      name += " " + word;
    }
    write_out(manual_page(*about, name));
    exit_code = 0;
  });
}

}  // namespace regauge::cli
