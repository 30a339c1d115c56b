#pragma once

#include <vector>

#include "regauge/arch/parameters.h"

namespace regauge {

// What a model computes for sequences of a single token, all of them at once and without any data:
// a position that sees itself alone attends to itself, so that attention is values times outputs.
// Goes through the model a layer at a time. Only models that read tokens have one. An encoder reads
// the same token as the decoder behind it.
template <class Scalar>
class TokenStream {
 public:
  // `ends` holds embedding and head; `tokens` says which.
  TokenStream(const Architecture& architecture, const Parameters<Scalar>& ends,
              const std::vector<std::int64_t>& tokens);

  // One layer on. What its readers read, [tokens, D] each, goes to `attention` and `feed_forward`.
  void advance(std::int64_t layer, const Parameters<Scalar>& tensors);
  const Matrix<Scalar>& stream() const { return stream_; }
  const Matrix<Scalar>& read_by_attention() const { return attention_; }
  // What keys and values read: the same but for cross-attention.
  const Matrix<Scalar>& read_by_keys(std::int64_t layer) const {
    return shape_.layer(layer).attention.cross ? encoded_ : attention_;
  }
  const Matrix<Scalar>& read_by_feed_forward() const { return feed_forward_; }
  // What the head reads, and the probabilities of the next token, [tokens, V].
  Matrix<Scalar> read_by_head(const Parameters<Scalar>& ends) const;
  Matrix<Scalar> predictions(const Parameters<Scalar>& ends) const;

 private:
  // The input of the stack that begins with a layer. An encoder with a vocabulary of its own reads
  // the token of the same number, counted around.
  Matrix<Scalar> embedded(std::int64_t layer, const Parameters<Scalar>& ends,
                          const std::vector<std::int64_t>& tokens) const;
  Matrix<Scalar> normed(const Matrix<Scalar>& x, const std::string& norm,
                        const Parameters<Scalar>& tensors) const;
  Matrix<Scalar> attended(std::int64_t layer, const Parameters<Scalar>& tensors) const;
  Matrix<Scalar> through_delta_net(std::int64_t layer, const Parameters<Scalar>& tensors) const;
  // The branch with the norms that it reads by; feed_forward_ is what the first of them makes.
  Matrix<Scalar> fed_forward(std::int64_t layer, const Parameters<Scalar>& tensors) const;

  const Architecture& shape_;
  Matrix<Scalar> stream_, attention_, feed_forward_;
  Matrix<Scalar> embedded_, encoded_;  // of encoder-decoders
  Parameters<Scalar> encoder_norm_;
};

}  // namespace regauge
