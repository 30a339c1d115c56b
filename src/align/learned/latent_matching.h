#pragma once

#include "adam.h"
#include "regauge/arch/parameters.h"
#include "regauge/symmetry/element.h"

namespace regauge {

// The permutation (and signs) of a space of single numbers, as what a latent matrix prefers. With
// Z (blocks of B by places in A) the assignment of largest sum Z acts; a loss's slope by a mixture
// of assignments moves Z as if the mixture acted (straight through).
//
// Parts of a block that carry its sign have a latent of their own, whose modulus counts and whose
// sign is the block's.
class LatentMatching {
 public:
  // Where B moved by `element` stands at the start.
  LatentMatching(const Symmetry& symmetry, const Space& space, const Parameters<double>& a,
                 const Parameters<double>& moved, const Element& element, double similarity,
                 double premium);

  // Gathers the slope of the loss by B's moved tensors.
  void add(const Parameters<double>& slopes);
  // Steps down what was gathered and changes the element's map of the space to the new assignment;
  // scales stay with their blocks. `moved` is B as the element moved it so far.
  void rematch(const Parameters<double>& moved, double rate, Element& element);

  // The numbers that make up its state, by name.
  template <class Visit>
  void each(const Visit& visit) {
    visit("even", even_);
    visit("odd", odd_);
    visit("even/mean", adam_even_.mean);
    visit("even/square", adam_even_.square);
    visit("odd/mean", adam_odd_.mean);
    visit("odd/square", adam_odd_.square);
    for (auto& [name, slope] : gathered_) visit("slope/" + name, slope);
  }
  void set_steps(std::int64_t steps) { adam_even_.steps = adam_odd_.steps = steps; }

 private:
  // One axis of one tensor that lives in the space.
  struct Place {
    std::string tensor;
    int axis;
    bool odd;
  };
  // <left's block i, right's block j> over all places, odd or even ones.
  Matrix<double> products(const Parameters<double>& left, const Parameters<double>& right,
                          bool odd) const;

  const Symmetry& symmetry_;
  const Space& space_;
  std::vector<Place> places_;
  bool signs_;
  Matrix<double> even_, odd_;  // blocks of B by places in A
  Adam adam_even_, adam_odd_;
  Parameters<double> gathered_;
};

}  // namespace regauge
