#include "run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "help.h"
#include "io/close_names.h"
#include "io/json.h"
#include "print.h"
#include "regauge/arch/layout.h"
#include "regauge/base/error.h"
#include "regauge/io/reading_mode.h"
#include "verb.h"

namespace regauge::cli {
namespace {

// 0 done or yes, 1 a negative answer, 2 bad usage or input, 3 internal error, 4 the answer could
// not be written, 130 cancelled.
constexpr int kBadInput = 2;
constexpr int kInternal = 3;
constexpr int kUnanswered = 4;
constexpr int kCancelled = 130;

// What nobody asked for, and what was perhaps meant.
std::string unknown_word(const CLI::App& app, std::vector<std::string> words) {
  // An option that is not known leaves its value behind, too.
  std::stable_partition(words.begin(), words.end(),
                        [](const std::string& word) { return word.starts_with('-'); });
  const std::string& word = words.front();
  const bool option = word.starts_with('-');
  std::vector<std::string> known;
  if (option) {
    for (const auto* one : app.get_options()) {
      for (const auto& name : one->get_lnames()) known.push_back("--" + name);
    }
  } else {
    for (const auto* verb : app.get_subcommands({})) known.push_back(verb->get_name());
  }
  std::string message = option ? fmt::format("there is no option {}", word)
                        : known.empty()
                            ? fmt::format("'{}' was not expected; an output goes behind -o", word)
                            : fmt::format("there is no verb '{}'", word);
  // Letters in another order are likelier than other letters.
  const auto distance = [&](const std::string& name) {
    const bool shuffled = std::is_permutation(word.begin(), word.end(), name.begin(), name.end());
    return 2 * io::edit_distance(word, name) - (shuffled ? 1 : 0);
  };
  const auto nearest =
      std::min_element(known.begin(), known.end(),
                       [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  if (nearest != known.end() && distance(*nearest) <= 4) {
    message += fmt::format("; did you mean {}?", *nearest);
  }
  return message;
}

// What was wrong, and where the verb's options stand.
std::string failure_message(const CLI::App* app, const CLI::Error& error) {
  std::string verb = "regauge";
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    verb += " " + app->get_name();
  }
  const auto words = app->remaining();
  return fmt::format("regauge: {}\nRun {} --help for usage.\n",
                     words.empty() ? error.what() : unknown_word(*app, words), verb);
}

// Every path and name that the program is given has to be text, since it is printed and stored.
void check_arguments(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (!io::is_utf8(argv[i])) {
      throw UsageError(fmt::format(
          "argument {}, '{}', is not UTF-8; give files and folders other names", i, argv[i]));
    }
  }
}

int carry_out(int argc, char** argv);

// `help VERB` is `VERB --help`, wherever the verb lives.
void add_help(CLI::App& app, char** argv, int& exit_code) {
  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* verb = app.add_subcommand("help", "Print the help of a verb");
  verb->add_option("VERB", *words, "one of the verbs; without it, the program's own help");
  verb->callback([words, argv, &app, &exit_code] {
    const CLI::App* about = &app;
    std::vector<char*> arguments = {argv[0]};
    for (auto& word : *words) {
      if (!about->get_prefix_command()) {
        const auto verbs = verbs_of(*about);
        const auto found = std::find_if(verbs.begin(), verbs.end(),
                                        [&](const auto* one) { return one->get_name() == word; });
        if (found == verbs.end()) throw UsageError("help: " + unknown_word(*about, {word}));
        about = *found;
      }
      arguments.push_back(word.data());
    }
    std::string flag = "--help";
    arguments.push_back(flag.data());
    arguments.push_back(nullptr);
    exit_code = carry_out(static_cast<int>(arguments.size()) - 1, arguments.data());
  });
}

void declare(CLI::App& app, char** argv, int& exit_code) {
  app.name("regauge");
  app.set_version_flag("--version", std::string("regauge ") + REGAUGE_VERSION);
  app.add_option_function<std::vector<std::string>>(
         "--family",
         [](const std::vector<std::string>& files) {
           for (const auto& file : files) register_family(file);
         },
         "a data file that describes a family of models; several times for several")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->trigger_on_parse();
  app.add_option_function<std::string>(
         "--io", [](const std::string& way) { choose_reading_mode(reading_mode_from_name(way)); },
         "how local files are read: mmap, read (by requests, several at a time) or auto (read on "
         "network file systems; default)")
      ->type_name("WAY")
      ->trigger_on_parse();
  app.require_subcommand(1);
  app.failure_message(failure_message);
  const std::string common =
      "Results go to standard output, everything else to standard error.\n"
      "A MODEL is a folder with config.json and weights (safetensors, or what torch saves), a "
      ".gguf\n"
      "file, a llama2.c .bin file, or one of these behind https:// or hf://org/name@revision.\n"
      "Exit: 0 done or yes, 1 a negative answer, 2 bad usage or input, 3 internal error, 4 the "
      "answer\n"
      "could not be written to standard output, 130 cancelled (Ctrl-C, SIGTERM, SIGHUP).";
  app.footer(common);  // verbs without one of their own take it
  add_demo(app, exit_code);
  add_inspect(app, exit_code);
  add_act(app, exit_code);
  add_fold(app, exit_code);
  add_convert(app, exit_code);
  add_canon(app, exit_code);
  add_diff(app, exit_code);
  add_verify(app, exit_code);
  add_align(app, argv, exit_code);
  add_report(app, exit_code);
  add_lab(app, argv, exit_code);
  add_help(app, argv, exit_code);
  add_completion(app, exit_code);
  add_man(app, exit_code);
  app.footer("Begin with: regauge demo demo, then regauge diff demo/original demo/converted\n" +
             common);
  arrange_help(app);
}

// What was asked for, up to the last byte of the answer.
int carry_out(int argc, char** argv) {
  int exit_code = 0;
  CLI::App app{"Regauge: are two checkpoints the same model, and if not, what broke?"};
  declare(app, argv, exit_code);
  check_arguments(argc, argv);
  if (argc == 1) {
    write_error(app.help());
    return kBadInput;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream help, failure;
    exit_code = app.exit(error, help, failure) == 0 ? 0 : kBadInput;
    write_out(help.str());
    write_error(printable_lines(failure.str()));
  }
  flush_out();
  return exit_code;
}

}  // namespace

int run(int argc, char** argv) {
  const CancelOnInterrupt cancel;
  keep_standard_streams();
  const auto fail = [](int code, const std::string& message) {
    write_error("regauge: " + message + "\n");
    return std::ferror(stdout) != 0 ? kUnanswered : code;
  };
  try {
    return carry_out(argc, argv);
  } catch (const Cancelled&) {
    return fail(kCancelled, "cancelled; nothing was written");
  } catch (const OutputError& error) {
    return fail(kUnanswered, error.what());
  } catch (const Error& error) {
    return fail(kBadInput, error.what());
  } catch (const std::exception& error) {
    return fail(kInternal, "internal error: " + printable_lines(error.what()));
  }
}

}  // namespace regauge::cli
