#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "regauge/arch/parameter_source.h"

namespace regauge {

// The tokens that a model's tokenizer knows.
struct Vocabulary {
  std::string source;               // the files or metadata that say so
  std::vector<std::string> tokens;  // by id; empty where an id stands for no token
  std::vector<std::string> merges;  // "left right" of byte-pair encoding, in order; may be empty
};

// From GGUF's tokenizer.ggml.tokens; from tokenizer.json, vocab.json or vocab.txt beside the
// weights, with added tokens; from tokenizer.bin beside a llama2.c file. Nothing where there is
// none. Throws CorruptFile, FileError or UsageError for one that cannot be read.
std::optional<Vocabulary> read_vocabulary(const Model& model);

struct VocabularyMatch {
  enum class Kind { equal, permuted, different };
  Kind kind = Kind::different;
  // equal and permuted: token i of B is token a_from_b[i] of A. A bijection.
  std::vector<std::int64_t> a_from_b;
  // different: the first tokens that differ, as whole sentences, with the number of all.
  std::vector<std::string> differences;
};

// Tokens count by their text; ids without a token match each other in order. Merges, where both
// have them, must be the same in the same order.
VocabularyMatch compare_vocabularies(const Vocabulary& a, const Vocabulary& b);

// Patches under which B, read as `target`, has its tokens in A's order: row a_from_b[i] of the
// token table, and that column of an untied head and of its bias, is B's own i. Rows beyond
// a_from_b stay; it must not be longer than the target's vocabulary (UsageError).
Patches permuted_vocabulary(const Architecture& target, std::vector<std::int64_t> a_from_b);

}  // namespace regauge
