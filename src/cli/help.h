#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace regauge::cli {

// Gives every declared verb its examples, sorts its options into groups, and breaks the lines of
// --help at the terminal's width (100 columns where there is none).
void arrange_help(CLI::App& app);

// What people and their shells read, made from what the verbs declare.
std::string manual_page(const CLI::App& verb, const std::string& name);  // roff, for man
std::string completion_script(const CLI::App& app, const std::string& shell);

// The options that a user may give, without positionals; the verbs of an app by name.
std::vector<const CLI::Option*> named_options(const CLI::App& verb);
std::vector<const CLI::App*> verbs_of(const CLI::App& app);
// "-o", "--output": all of an option's names.
std::vector<std::string> names_of(const CLI::Option& option);
bool takes_value(const CLI::Option& option);
// What stands for its value: "FILE". What it does, with its default and the options that it needs.
std::string value_of(const CLI::Option& option);
std::string description_of(const CLI::Option& option);

}  // namespace regauge::cli
