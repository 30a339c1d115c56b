#include <gtest/gtest.h>

#include <cstdlib>

#include "files.h"
#include "regauge/base/error.h"
#include "regauge/io/checkpoint.h"

namespace regauge {
namespace {

using namespace testing;
namespace fs = std::filesystem;

// The path is refused, and the message says all of this.
void expect_refusal(const fs::path& path, const std::vector<std::string>& words) {
  try {
    Checkpoint::open(path);
    ADD_FAILURE() << path << " was opened";
  } catch (const Error& error) {
    for (const std::string& word : words) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  }
}

std::string one_byte_model() {
  return safetensors_bytes(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x");
}

void put(const fs::path& path, std::string_view bytes) {
  fs::create_directories(path.parent_path());
  write_bytes(path, bytes);
}

TEST(NotRead, PointerOfGitLfs) {
  const TemporaryFolder folder;
  const auto path = folder / "model.safetensors";
  write_bytes(path, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
  expect_refusal(path, {"git-lfs", "git lfs pull"});
  write_bytes(folder / "config.json", "{}");
  expect_refusal(folder.path(), {"git lfs pull"});
}

TEST(NotRead, NumPyArrays) {
  const TemporaryFolder folder;
  write_bytes(folder / "a.npz", "PK\x03\x04");
  write_bytes(folder / "b", "\x93NUMPY\x01");
  expect_refusal(folder / "a.npz", {"NumPy", "safetensors.numpy.save_file"});
  expect_refusal(folder / "b", {"NumPy"});
}

TEST(NotRead, OneShardOfSeveral) {
  const TemporaryFolder folder;
  write_bytes(folder / "model-00002-of-00003.safetensors", one_byte_model());
  expect_refusal(folder / "model-00002-of-00003.safetensors", {"one shard of 3", "index"});
  for (const char* name : {"model-00001-of-00001.safetensors", "model-0002-of-0003.safetensors"}) {
    write_bytes(folder / name, one_byte_model());
    EXPECT_EQ(Checkpoint::open(folder / name).tensors().size(), 1u);
  }
}

TEST(NotRead, Adapters) {
  const TemporaryFolder folder;
  write_bytes(folder / "adapter_config.json", "{}");
  write_bytes(folder / "adapter_model.safetensors", one_byte_model());
  expect_refusal(folder.path(), {"PEFT adapter", "BASE+ADAPTER"});
}

TEST(NotRead, DiffusersPipelines) {
  const TemporaryFolder folder;
  write_bytes(folder / "model_index.json", "{}");
  put(folder / "text_encoder/config.json", "{}");
  expect_refusal(folder.path(), {"diffusers", "text_encoder"});
}

TEST(NotRead, MistralsOwnNames) {
  const TemporaryFolder folder;
  write_bytes(folder / "params.json", "{}");
  write_bytes(folder / "consolidated.safetensors", one_byte_model());
  expect_refusal(folder.path(), {"Mistral", "config.json"});
}

TEST(NotRead, VariantsAreNamedAndOpen) {
  const TemporaryFolder folder;
  write_bytes(folder / "config.json", "{}");
  write_bytes(folder / "model.fp16.safetensors", one_byte_model());
  expect_refusal(folder.path(), {"model.fp16.safetensors"});
  EXPECT_EQ(Checkpoint::open(folder / "model.fp16.safetensors").tensors().size(), 1u);
}

TEST(HubCache, AnIdentifierIsFoundWhereItWasDownloaded) {
  const TemporaryFolder folder;
  const auto model = folder / "models--org--name";
  const std::string commit = "0123456789abcdef0123456789abcdef01234567";
  put(model / "refs/main", commit);
  put(model / "snapshots" / commit / "config.json", "{}");
  put(model / "snapshots" / commit / "model.safetensors", one_byte_model());
  ASSERT_EQ(setenv("HF_HUB_CACHE", folder.path().c_str(), 1), 0);
  EXPECT_EQ(Checkpoint::open("org/name").tensors().size(), 1u);
  expect_refusal("org/other", {"no such file", folder.path().string(), "hf download org/other"});
  write_bytes(model / "refs/main", "../../elsewhere");
  expect_refusal("org/name", {"no such file"});
  unsetenv("HF_HUB_CACHE");
}

}  // namespace
}  // namespace regauge
