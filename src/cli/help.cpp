#include "help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace regauge::cli {
namespace {

using Words = std::vector<std::string>;

// By verb; each runs as it stands, in this order, where there is a folder `study` with records.
const std::map<std::string, Words, std::less<>>& examples() {
  static const std::map<std::string, Words, std::less<>> all = {
      {"demo", {"regauge demo demo", "regauge demo another"}},
      {"inspect", {"regauge inspect demo/original", "regauge inspect demo/original --json"}},
      {"act",
       {"regauge act demo/original --random 1 --save-element element.safetensors -o moved",
        "regauge act moved --element element.safetensors --inverse -o back"}},
      {"fold",
       {"regauge fold demo/original --untie -o folded",
        "regauge fold demo/original --gains-only --dry-run"}},
      {"convert",
       {"regauge convert demo/original --to gguf -o demo.gguf",
        "regauge convert demo.gguf --to safetensors --dtype F32 -o from-gguf"}},
      {"canon",
       {"regauge canon demo/original -o canonical",
        "regauge canon demo/rotated --save-element to-canonical.safetensors -o same-canonical"}},
      {"diff",
       {"regauge diff demo/original demo/rotated --certificate rotation.safetensors",
        "regauge diff demo/original demo/converted --repair -o fixed --html answer.html"}},
      {"verify",
       {"regauge verify demo/original demo/rotated rotation.safetensors",
        "regauge verify demo/original demo/rotated rotation.safetensors --json"}},
      {"align",
       {"regauge align demo/original moved -o aligned",
        "regauge align demo/original moved --scope attention --starts 1 -o aligned-attention"}},
      {"report", {"regauge report study -o study.html", "regauge report study --json"}},
      {"barrier",
       {"regauge barrier demo/original moved --data self --length 32 --points 5",
        "regauge barrier demo/original moved --data self --length 32 --picture line.svg"}},
      {"eval",
       {"regauge lab eval demo/original --data self --length 64",
        "regauge lab eval demo/original --data text:stories.txt --tokenizer tok512.bin"}},
      {"forward",
       {"regauge lab forward demo/original --input tokens.safetensors -o logits.safetensors",
        "regauge lab forward demo/original --input tokens.safetensors --taps -o all.safetensors"}},
      {"train",
       {"regauge lab train small.json -o model --set seed=1",
        "regauge lab train small.json -o other --from model --reinit attention"}},
      {"sweep",
       {"regauge lab sweep experiment.json -o study --jobs 2",
        "regauge lab sweep experiment.json -o study --dry-run"}},
      {"nullity",
       {"regauge lab nullity small.json", "regauge lab nullity small-model --seed 2 --json"}},
      {"lab", {"regauge lab eval --help", "regauge lab nullity small.json"}},
      {"help", {"regauge help diff", "regauge help"}},
      {"man", {"regauge man diff > regauge-diff.1", "regauge man > regauge.1"}},
      {"completion",
       {"regauge completion bash > ~/.local/share/bash-completion/completions/regauge",
        "regauge completion fish > ~/.config/fish/completions/regauge.fish"}},
  };
  return all;
}

const char* group_of(const std::string& option) {
  static const std::map<std::string, const char*, std::less<>> groups = [] {
    std::map<std::string, const char*, std::less<>> result;
    const auto add = [&](const char* group, const Words& names) {
      for (const auto& name : names) result["--" + name] = group;
    };
    add("What is written", {"output", "a-out", "dtype", "untie", "certificate", "in-toto", "repair",
                            "html", "card", "save-element", "report", "picture", "to"});
    add("What is printed", {"json", "all", "dry-run"});
    add("Which element", {"element", "random", "only", "inverse"});
    add("How it is aligned", {"method", "scope", "stream", "neurons", "compact", "starts",
                              "iterations", "seed", "align", "set"});
    add("Time and memory", {"max-memory", "threads", "jobs", "double"});
    add("Many machines", {"part", "join", "after"});
    return result;
  }();
  const auto found = groups.find(option);
  return found == groups.end() ? nullptr : found->second;
}

std::size_t terminal_width() {
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 100;
  return std::clamp<std::size_t>(size.ws_col, 50, 120);
}

// Breaks at spaces, after at most `width` bytes where words allow.
std::string wrapped(const std::string& text, std::size_t width) {
  std::istringstream words(text);
  std::string result, word;
  std::size_t column = 0;
  while (words >> word) {
    if (column > 0 && column + 1 + word.size() > width) {
      result += '\n';
      column = 0;
    }
    if (column > 0) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result;
}

class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::size_t width) : width_(width) {
    column_width(28);
    label("Positionals", "Arguments");
    label("SUBCOMMAND", "VERB");
    label("OPTIONS", "options");
  }

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    return CLI::detail::find_and_replace(Formatter::make_help(app, std::move(name), mode), "\n\n\n",
                                         "\n\n");
  }
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    return is_positional ? option->get_name(true, false)
                         : fmt::format("{}", fmt::join(names_of(*option), ", "));
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    return takes_value(*option) && option->nonpositional() ? " " + value_of(*option) : "";
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    return fitted(description_of(*option));
  }
  std::string make_subcommand(const CLI::App* verb) const override {
    std::stringstream out;
    CLI::detail::format_help(out, verb->get_display_name(true), fitted(verb->get_description()),
                             get_column_width());
    return out.str();
  }

 private:
  std::string fitted(const std::string& text) const {
    return wrapped(text, width_ - get_column_width());
  }

  std::size_t width_;
};

void arrange(CLI::App& verb, const std::shared_ptr<CLI::FormatterBase>& formatter) {
  verb.formatter(formatter);
  if (verb.get_parent() != nullptr) verb.group("Verbs");
  for (const auto* one : verbs_of(verb)) arrange(*verb.get_subcommand(one->get_name()), formatter);
  for (CLI::Option* option : verb.get_options()) {
    if (option->get_lnames().empty() || option->get_group() != "Options") continue;
    if (const char* group = group_of("--" + option->get_lnames().front())) option->group(group);
  }
  const auto found = examples().find(verb.get_name());
  if (found == examples().end()) return;
  std::string footer = verb.get_footer();
  footer += footer.empty() ? "Examples:" : "\n\nExamples:";
  for (const auto& line : found->second) footer += "\n  " + line;
  verb.footer(footer);
}

}  // namespace

void arrange_help(CLI::App& app) {
  arrange(app, std::make_shared<HelpFormatter>(terminal_width()));
}

std::vector<const CLI::Option*> named_options(const CLI::App& verb) {
  return verb.get_options([](const CLI::Option* option) { return option->nonpositional(); });
}

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* verb) { return !verb->get_name().empty(); });
}

std::vector<std::string> names_of(const CLI::Option& option) {
  Words names;
  for (const auto& name : option.get_snames()) names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

bool takes_value(const CLI::Option& option) { return option.get_type_size() != 0; }

std::string value_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();  // with what checks it: "PATH:PATH(...)"
  return type.substr(0, type.find(':'));
}

std::string description_of(const CLI::Option& option) {
  std::string text = option.get_description();
  if (!option.get_default_str().empty()) text += " (default " + option.get_default_str() + ")";
  for (const auto* needed : option.get_needs()) text += " (needs " + needed->get_name() + ")";
  for (const auto* excluded : option.get_excludes()) {
    text += " (not with " + excluded->get_name() + ")";
  }
  return text;
}

}  // namespace regauge::cli
