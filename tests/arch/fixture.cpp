#include "fixture.h"

#include <algorithm>

namespace regauge::testing {

std::filesystem::path fixture(const std::string& name) {
  const std::filesystem::path folder = std::filesystem::path(REGAUGE_FIXTURES) / name;
  return name.ends_with("-gguf") ? folder / "model.gguf" : folder;
}

const std::vector<std::string>& fixture_names() {
  static const std::vector<std::string> names = {"llama",
                                                 "llama-tied-biased",
                                                 "llama-hidden",
                                                 "llama-sharded",
                                                 "llama-bf16",
                                                 "mistral",
                                                 "qwen2",
                                                 "qwen3",
                                                 "smollm3",
                                                 "gemma2",
                                                 "gemma3",
                                                 "olmo2",
                                                 "phi",
                                                 "olmo3",
                                                 "glm4",
                                                 "exaone4",
                                                 "exaone4-full",
                                                 "cohere2",
                                                 "vaultgemma",
                                                 "cohere",
                                                 "qwen3_moe",
                                                 "qwen3_moe-dense",
                                                 "qwen3_5_text",
                                                 "qwen3_5_moe_text",
                                                 "qwen3_next",
                                                 "glm4_moe",
                                                 "deepseek_v3",
                                                 "deepseek_v3-direct",
                                                 "deepseek_v3-yarn",
                                                 "deepseek_v2",
                                                 "deepseek_v2-direct",
                                                 "deepseek_v2-grouped",
                                                 "granitemoe",
                                                 "ernie4_5_moe",
                                                 "minimax_m2",
                                                 "mixtral",
                                                 "olmoe",
                                                 "qwen2_moe",
                                                 "t5",
                                                 "t5-tied",
                                                 "t5-encoder",
                                                 "mt5",
                                                 "bart",
                                                 "marian",
                                                 "marian-separate",
                                                 "mbart",
                                                 "pegasus",
                                                 "m2m_100",
                                                 "gpt_oss",
                                                 "gemma",
                                                 "phi3",
                                                 "starcoder2",
                                                 "stablelm",
                                                 "seed_oss",
                                                 "ernie4_5",
                                                 "helium",
                                                 "ministral",
                                                 "qwen2-sliding",
                                                 "qwen3-sliding",
                                                 "granite",
                                                 "glm",
                                                 "opt",
                                                 "bloom",
                                                 "mpt",
                                                 "gpt_bigcode",
                                                 "roberta",
                                                 "xlm-roberta",
                                                 "camembert",
                                                 "mpnet",
                                                 "roberta-prelayernorm",
                                                 "xlm-roberta-xl",
                                                 "megatron-bert",
                                                 "distilbert",
                                                 "electra",
                                                 "electra-discriminator",
                                                 "eurobert",
                                                 "nomic_bert",
                                                 "gte",
                                                 "gptj",
                                                 "codegen",
                                                 "falcon",
                                                 "falcon-grouped",
                                                 "falcon-grouped-one-norm",
                                                 "biogpt",
                                                 "openai-gpt",
                                                 "ernie",
                                                 "data2vec-text",
                                                 "jina_embeddings_v3",
                                                 "gpt2",
                                                 "gpt_neox",
                                                 "bert",
                                                 "gpt_neox-sequential",
                                                 "bert-mlm",
                                                 "bert-pretraining",
                                                 "bert-classes",
                                                 "bert-words",
                                                 "roberta-classes",
                                                 "distilbert-classes",
                                                 "vit",
                                                 "vit-hidden",
                                                 "llava",
                                                 "gemma3-vision",
                                                 "qwen2_5_vl",
                                                 "qwen3_5",
                                                 "qwen2_vl",
                                                 "mistral3",
                                                 "internvl",
                                                 "internvl-qwen3",
                                                 "clip_text_model",
                                                 "dinov2",
                                                 "dinov2-swiglu",
                                                 "dinov2_with_registers",
                                                 "dinov2_with_registers-swiglu",
                                                 "llama-gguf",
                                                 "llama-tied-biased-gguf",
                                                 "mistral-gguf",
                                                 "qwen2-gguf",
                                                 "qwen3-gguf",
                                                 "qwen3_moe-gguf",
                                                 "gemma-gguf",
                                                 "gpt2-gguf"};
  return names;
}

std::string test_name(const ::testing::TestParamInfo<std::string>& parameter) {
  std::string name = parameter.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::vector<double> values(const Checkpoint& checkpoint, const std::string& tensor) {
  const StoredTensor& stored = checkpoint.at(tensor);
  std::vector<double> result(static_cast<std::size_t>(stored.elements()));
  decode<double>(stored.dtype, checkpoint.bytes(stored), result);
  return result;
}

}  // namespace regauge::testing
