#pragma once

#include <vector>

#include "regauge/arch/parameters.h"

namespace regauge {

// What a model computes for sequences of a single token, all of them at once and without any data:
// a position that sees itself alone attends to itself, so that attention is values times outputs.
// Goes through the model a layer at a time.
class TokenStream {
 public:
  // Only models that read tokens have one.
  static bool exists(const Architecture& architecture) {
    return architecture.input == Input::tokens;
  }

  // `ends` holds embedding and head; `tokens` says which.
  TokenStream(const Architecture& architecture, const Parameters<double>& ends,
              const std::vector<std::int64_t>& tokens);

  // One layer on. What its readers read, [tokens, D] each, goes to `attention` and `feed_forward`.
  void advance(std::int64_t layer, const Parameters<double>& tensors);
  const Matrix<double>& stream() const { return stream_; }
  const Matrix<double>& read_by_attention() const { return attention_; }
  const Matrix<double>& read_by_feed_forward() const { return feed_forward_; }
  // What the head reads, and the probabilities of the next token, [tokens, V].
  Matrix<double> read_by_head(const Parameters<double>& ends) const;
  Matrix<double> predictions(const Parameters<double>& ends) const;

 private:
  Matrix<double> normed(const Matrix<double>& x, const std::string& norm,
                        const Parameters<double>& tensors) const;
  Matrix<double> attended(const Matrix<double>& x, const std::string& at,
                          const Parameters<double>& tensors) const;
  Matrix<double> fed_forward(const Matrix<double>& x, const std::string& at,
                             const Parameters<double>& tensors) const;

  const Architecture& shape_;
  Matrix<double> stream_, attention_, feed_forward_;
};

}  // namespace regauge
