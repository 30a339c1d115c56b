// What a shell completes after `regauge`: verbs, their options, and files.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "help.h"
#include "print.h"
#include "verb.h"

namespace regauge::cli {
namespace {

// A verb under the words that lead to it: "lab train".
struct Completed {
  std::string words;
  const CLI::App* verb;
};

void collect(const CLI::App& app, const std::string& words, std::vector<Completed>& all) {
  all.push_back({words, &app});
  for (const auto* verb : verbs_of(app)) {
    collect(*verb, words.empty() ? verb->get_name() : words + " " + verb->get_name(), all);
  }
}

// The verbs and options that may come next.
std::vector<std::string> candidates(const CLI::App& verb) {
  std::vector<std::string> words;
  for (const auto* one : verbs_of(verb)) words.push_back(one->get_name());
  for (const auto* option : named_options(verb)) {
    for (auto& name : names_of(*option)) words.push_back(std::move(name));
  }
  return words;
}

// In single quotes, as bash, zsh and fish read them.
std::string in_quotes(const std::string& text) {
  std::string result = "'";
  for (const char letter : text) {
    if (letter == '\'') {
      result += "'\\''";
    } else {
      result += letter == '\n' ? ' ' : letter;
    }
  }
  return result + "'";
}

std::string bash(const std::vector<Completed>& all) {
  std::string script =
      "# bash completion for regauge, made by `regauge completion bash`\n"
      "_regauge() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} words='' known='' i\n"
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    case \"$words${words:+ }${COMP_WORDS[i]}\" in\n";
  for (const auto& [words, verb] : all) {
    if (!words.empty()) script += fmt::format("      '{0}') words='{0}' ;;\n", words);
  }
  script += "    esac\n  done\n  case \"$words\" in\n";
  for (const auto& [words, verb] : all) {
    script += fmt::format("    '{}') known='{}' ;;\n", words, fmt::join(candidates(*verb), " "));
  }
  script +=
      "  esac\n"
      "  mapfile -t COMPREPLY < <(compgen -W \"$known\" -- \"$current\")\n"
      "  if [[ $current != -* && -n $words ]]; then\n"
      "    mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -f -- \"$current\")\n"
      "  fi\n"
      "}\n"
      "complete -o filenames -F _regauge regauge\n";
  return script;
}

std::string zsh(const std::vector<Completed>& all) {
  std::string script =
      "#compdef regauge\n"
      "# zsh completion for regauge, made by `regauge completion zsh`\n"
      "_regauge() {\n"
      "  local verb='' word\n"
      "  for word in ${words[2,CURRENT-1]}; do\n"
      "    case \"$verb${verb:+ }$word\" in\n";
  for (const auto& [words, verb] : all) {
    if (!words.empty()) script += fmt::format("      '{0}') verb='{0}' ;;\n", words);
  }
  script += "    esac\n  done\n  local -a known\n  case \"$verb\" in\n";
  for (const auto& [words, verb] : all) {
    script += fmt::format("    '{}') known=(", words);
    const auto add = [&](const std::string& name, const std::string& what) {
      std::string escaped;  // _describe ends a name at its first colon
      for (const char letter : name) escaped += letter == ':' ? "\\:" : std::string(1, letter);
      escaped.append(":").append(what);
      script.append("\n      ").append(in_quotes(escaped));
    };
    for (const auto* one : verbs_of(*verb)) add(one->get_name(), one->get_description());
    for (const auto* option : named_options(*verb)) {
      for (const auto& name : names_of(*option)) add(name, option->get_description());
    }
    script += ") ;;\n";
  }
  script +=
      "  esac\n"
      "  _describe 'regauge' known\n"
      "  if [[ -n $verb ]]; then _files; fi\n"
      "}\n"
      "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _regauge \"$@\"; "
      "else compdef _regauge regauge; fi\n";
  return script;
}

std::string fish(const std::vector<Completed>& all) {
  std::string script =
      "# fish completion for regauge, made by `regauge completion fish`\n"
      "complete -c regauge -e\n";
  for (const auto& [words, verb] : all) {
    std::vector<std::string> deeper;
    for (const auto* one : verbs_of(*verb)) deeper.push_back(one->get_name());
    std::string condition =
        words.empty() ? "" : "__fish_seen_subcommand_from " + words.substr(words.rfind(' ') + 1);
    if (!deeper.empty()) {
      condition += fmt::format("{}not __fish_seen_subcommand_from {}",
                               condition.empty() ? "" : "; and ", fmt::join(deeper, " "));
    }
    for (const auto* one : verbs_of(*verb)) {
      script += fmt::format("complete -c regauge -f -n {} -a {} -d {}\n", in_quotes(condition),
                            one->get_name(), in_quotes(one->get_description()));
    }
    for (const auto* option : named_options(*verb)) {
      std::string names;
      for (const auto& name : option->get_snames()) names += " -s " + name;
      for (const auto& name : option->get_lnames()) names += " -l " + name;
      script +=
          fmt::format("complete -c regauge -n {}{}{} -d {}\n", in_quotes(condition), names,
                      takes_value(*option) ? " -r" : "", in_quotes(option->get_description()));
    }
  }
  return script;
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  std::vector<Completed> all;
  collect(app, "", all);
  return shell == "bash" ? bash(all) : shell == "zsh" ? zsh(all) : fish(all);
}

void add_completion(CLI::App& app, int& exit_code) {
  auto shell = std::make_shared<std::string>();
  CLI::App* verb =
      app.add_subcommand("completion", "Print what makes a shell complete verbs and options");
  verb->add_option("SHELL", *shell, "bash, fish or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "fish", "zsh"}));
  verb->footer("zsh: a file _regauge in a folder of $fpath.");
  verb->callback([shell, &app, &exit_code] {
    write_out(completion_script(app, *shell));
    exit_code = 0;
  });
}

}  // namespace regauge::cli
