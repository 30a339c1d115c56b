#pragma once

#include "config.h"
#include "family.h"
#include "regauge/arch/towers.h"

namespace regauge {

// Makes the layout of an architecture from a family's data.
class LayoutBuilder {
 public:
  // `file`: the tensors of an existing file, which settle prefixes, alternative names and copies;
  // may be null.
  LayoutBuilder(const Family& family, const Architecture& architecture, const Variables& variables,
                const TensorSource* file);

  // Throws UsageError with everything that the family cannot hold.
  Layout build(std::vector<Layout::Constant> constants) &&;
  // Of a model and the one beside it, each with its variables.
  static Layout build_all(const Family& family, const Architecture& architecture,
                          const std::vector<Variables>& variables, const TensorSource* file,
                          std::vector<Layout::Constant> constants);

 private:
  // The entries of a family by the parameters that live there. One that experts have, too, may have
  // an entry for theirs besides.
  struct Homes {
    std::map<std::string, const TensorEntry*> others, of_experts;
    std::map<std::string, std::vector<const TensorEntry*>> pieces;  // by the rows that they hold
  };
  // The entry where a parameter lives, or null.
  const TensorEntry* home_of(const std::string& pattern, std::int64_t layer, bool of_experts) const;
  std::size_t kind_of(std::int64_t layer) const;  // of embedding and head: the first
  std::string instance(const std::string& pattern, std::int64_t layer) const;
  void choose_prefix();
  void find_homes();
  void add_canonical(const ParameterSpec& spec);
  std::vector<std::string> held_by(const TensorEntry& entry, std::int64_t layer) const;
  void add_tensors(const TensorEntry& entry, const ParameterSpec& spec);
  // `expert`: what stands for the expert in its name; empty for a tensor of all.
  void add_tensor(const TensorEntry& entry, std::int64_t layer, const std::string& expert);
  bool is_turned(const TensorEntry& entry, const std::string& name, std::int64_t layer) const;
  static void join(Layout& all, const Layout& beside, const Tower& tower);
  static void add_stacked(Layout::Part part, const ParameterSpec& spec,
                          std::vector<Layout::Part>& slices);
  void add_copies(const TensorEntry& entry, std::int64_t layer, std::size_t holder);
  void add_tied_copy();
  void add_problem(std::string problem);
  double number(const std::string& name, std::int64_t layer) const;
  std::int64_t size(const nlohmann::json& number_or_formula, std::int64_t layer) const;
  std::vector<std::int64_t> shape_of(const TensorEntry& entry, std::int64_t layer,
                                     const Layout::Part& part, bool vector) const;

  const Family& family_;
  const Architecture& architecture_;
  const Variables& variables_;
  const TensorSource* file_;
  // By the kind of layer.
  std::vector<nlohmann::json> fields_;
  std::vector<const Family*> families_;
  std::vector<Homes> homes_;
  std::map<std::string, ParameterSpec> specs_;
  std::string prefix_;
  std::vector<std::string> problems_;
  Layout layout_;
};

}  // namespace regauge
