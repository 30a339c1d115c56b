#include "not_read.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "regauge/base/error.h"

namespace regauge::io {
namespace {

namespace fs = std::filesystem;

bool begins(std::span<const std::byte> bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

bool is_present(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

[[noreturn]] void refuse(const fs::path& path, const std::string& what) {
  throw UsageError(fmt::format("[open] {}: {}", path.string(), what));
}

bool digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

// NAME-00002-of-00003.safetensors: how many there are; empty for other names and for one of one.
std::string_view shards_of(std::string_view name) {
  constexpr std::string_view kEnd = ".safetensors", kOf = "-of-";
  constexpr std::size_t kDigits = 5;
  if (!name.ends_with(kEnd)) return {};
  name.remove_suffix(kEnd.size());
  if (name.size() < 2 * kDigits + kOf.size() + 1) return {};
  const std::string_view count = name.substr(name.size() - kDigits);
  const std::string_view number = name.substr(name.size() - 2 * kDigits - kOf.size(), kDigits);
  const bool shard = digits(count) && digits(number) && count != "00001" &&
                     name.substr(name.size() - kDigits - kOf.size(), kOf.size()) == kOf;
  return shard ? count : std::string_view();
}

// Names of the entries of a folder, in order.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    names.push_back(i->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

void refuse_file(const fs::path& file, std::span<const std::byte> bytes) {
  if (begins(bytes, "version https://git-lfs")) {
    refuse(file, "a pointer of git-lfs, not the file itself; run `git lfs pull` in its folder");
  }
  const std::string extension = file.extension().string();
  if (begins(bytes, "\x93NUMPY") || extension == ".npz" || extension == ".npy") {
    refuse(file, "NumPy arrays are not read; save them with safetensors.numpy.save_file");
  }
  const std::string name = file.filename().string();
  if (const auto count = shards_of(name); !count.empty()) {
    refuse(file, fmt::format("one shard of {}; name the folder, or the index "
                             "(*.safetensors.index.json) beside it",
                             std::stoi(std::string(count))));
  }
}

void refuse_folder(const fs::path& folder) {
  if (is_present(folder / "adapter_config.json")) {
    refuse(folder,
           "a PEFT adapter, which changes the weights of another model; name both: BASE+ADAPTER");
  }
  const std::vector<std::string> names = names_in(folder);
  if (is_present(folder / "model_index.json")) {
    std::vector<std::string> parts;
    for (const std::string& name : names) {
      if (is_present(folder / name / "config.json")) parts.push_back((folder / name).string());
    }
    refuse(folder, fmt::format("a diffusers pipeline of several models; name one of them{}{}",
                               parts.empty() ? "" : ": ", fmt::join(parts, ", ")));
  }
  if (is_present(folder / "params.json") && is_present(folder / "consolidated.safetensors")) {
    refuse(folder,
           "weights under Mistral's own names (consolidated.safetensors with params.json), which "
           "are not read; take the folder with config.json and model*.safetensors, or convert it "
           "with transformers");
  }
  if (!is_present(folder / "config.json")) return;
  std::vector<std::string> variants;
  for (const std::string& name : names) {
    const bool variant =
        name.starts_with("model.") && name.ends_with(".safetensors") && shards_of(name).empty();
    if (variant) variants.push_back((folder / name).string());
  }
  if (!variants.empty()) {
    refuse(folder, fmt::format("holds no model.safetensors but a variant of it; name the file: {}",
                               fmt::join(variants, " or ")));
  }
}

}  // namespace regauge::io
