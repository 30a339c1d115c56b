#include "blas_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>

#include "regauge/base/error.h"

#ifndef REGAUGE_BLAS_DEFAULT
#define REGAUGE_BLAS_DEFAULT ""
#endif

namespace regauge {
namespace {

constexpr const char* kCoreVariable = "OPENBLAS_CORETYPE";

// Tried in this order; a second name is where the LAPACK of a plain BLAS lives.
struct Candidate {
  const char* blas;
  const char* lapack;
};
#ifdef __APPLE__
constexpr std::array kCandidates = {
    Candidate{"libopenblas.dylib", nullptr},
    Candidate{"/System/Library/Frameworks/Accelerate.framework/Accelerate", nullptr}};
#else
constexpr std::array kCandidates = {
    Candidate{"libopenblasp.so.0", nullptr},  // with threads, where the next one has none (Fedora)
    Candidate{"libopenblas.so.0", nullptr}, Candidate{"libmkl_rt.so.3", nullptr},
    Candidate{"libmkl_rt.so.2", nullptr}, Candidate{"libblas.so.3", "liblapack.so.3"}};
#endif

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

// OpenBLAS's names for processors without AVX2.
bool is_ancient(std::string_view core) {
  constexpr std::array kAncient = {
      "generic",   "unknown",    "katmai",      "coppermine",   "northwood", "prescott",
      "banias",    "core2",      "penryn",      "dunnington",   "atom",      "nehalem",
      "athlon",    "opteron",    "bobcat",      "opteron_sse3", "barcelona", "nano",
      "bulldozer", "piledriver", "steamroller", "sandybridge"};
  return std::ranges::find(kAncient, lower(core)) != kAncient.end();
}

// The OpenBLAS core whose kernels this processor can run; empty if it has no AVX2.
std::string best_core() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512cd")) {
    return "SkylakeX";
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return {};
}

template <class Function>
Function symbol(void* handle, std::string_view name) {
  // dlsym gives a data pointer; POSIX promises that it converts to a function pointer.
  return reinterpret_cast<Function>(dlsym(handle, std::string(name).c_str()));
}

template <class S>
BlasFunctions<S> functions(void* blas, void* lapack, std::string_view prefix, char letter) {
  BlasFunctions<S> found;
  found.gemm = symbol<GemmFunction<S>>(blas, fmt::format("{}{}gemm_", prefix, letter));
  if (lapack == nullptr) return found;
  found.gelqf = symbol<GelqfFunction<S>>(lapack, fmt::format("{}{}gelqf_", prefix, letter));
  found.orglq = symbol<OrglqFunction<S>>(lapack, fmt::format("{}{}orglq_", prefix, letter));
  found.syevd = symbol<SyevdFunction<S>>(lapack, fmt::format("{}{}syevd_", prefix, letter));
  return found;
}

void* open(const char* name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }

bool is_loaded(const char* name) {
  void* handle = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

std::string prefix_of(void* handle) {
  for (const char* prefix : {"", "scipy_"}) {
    if (dlsym(handle, fmt::format("{}sgemm_", prefix).c_str()) != nullptr) return prefix;
  }
  return "?";
}

std::string core_of(void* handle, const std::string& prefix) {
  const auto name = symbol<const char* (*)()>(handle, prefix + "openblas_get_corename");
  return name == nullptr ? std::string() : name();
}

bool has_user_core() {
  const char* value = std::getenv(kCoreVariable);
  return value != nullptr && *value != '\0';
}

// OpenBLAS picks its kernels while it loads. If it took this processor for an ancient one, loads it
// again under the right name. The environment is as before afterwards.
void* reload_for_this_processor(void* handle, const char* name, const std::string& prefix,
                                std::string& note) {
  const std::string wrong = core_of(handle, prefix);
  const std::string right = best_core();
  if (!is_ancient(wrong) || right.empty() || has_user_core()) return handle;
  dlclose(handle);
  if (is_loaded(name)) return open(name);  // another part of the process holds it
  setenv(kCoreVariable, right.c_str(), 1);
  handle = open(name);
  unsetenv(kCoreVariable);
  if (handle != nullptr && core_of(handle, prefix) == right) {
    note = fmt::format("OpenBLAS took this processor for a {}; loaded again with {}={}", wrong,
                       kCoreVariable, right);
  }
  return handle;
}

std::string warning_of(const std::string& core) {
  const std::string right = best_core();
  if (!is_ancient(core) || right.empty()) return {};
  return fmt::format(
      "[blas] OpenBLAS takes this processor for a {} and is several times slower than it could be; "
      "set {}={}, or install a newer OpenBLAS",
      core, kCoreVariable, right);
}

// Loads one candidate; false if it is not there or lacks the matrix product.
bool load(const Candidate& candidate, BlasLibrary& library) {
  void* blas = open(candidate.blas);
  if (blas == nullptr) return false;
  const std::string prefix = prefix_of(blas);
  if (prefix == "?") {
    dlclose(blas);
    return false;
  }
  blas = reload_for_this_processor(blas, candidate.blas, prefix, library.info.note);
  if (blas == nullptr) return false;
  void* lapack = candidate.lapack == nullptr ? blas : open(candidate.lapack);
  library.single_precision = functions<float>(blas, lapack, prefix, 's');
  library.double_precision = functions<double>(blas, lapack, prefix, 'd');
  library.info.library = candidate.blas;
  library.info.core = core_of(blas, prefix);
  if (const auto config = symbol<const char* (*)()>(blas, prefix + "openblas_get_config")) {
    library.info.config = config();
  }
  library.threads = symbol<int (*)()>(blas, prefix + "openblas_get_num_threads");
  library.set_threads = symbol<void (*)(int)>(blas, prefix + "openblas_set_num_threads");
  constexpr int kOpenMp = 2;
  const auto parallel = symbol<int (*)()>(blas, prefix + "openblas_get_parallel");
  library.per_thread = parallel != nullptr && parallel() == kOpenMp;
  library.info.threads = library.threads == nullptr ? 0 : library.threads();
  library.info.warning = warning_of(library.info.core);
  return true;
}

// "$ORIGIN/" at the beginning is the folder of the library or program that this code is in.
std::string resolved(const std::string& path) {
  constexpr std::string_view kOrigin = "$ORIGIN/";
  Dl_info self;
  if (!path.starts_with(kOrigin) || dladdr(reinterpret_cast<void*>(&resolved), &self) == 0) {
    return path;
  }
  return std::filesystem::path(self.dli_fname).parent_path() / path.substr(kOrigin.size());
}

BlasLibrary load_library() {
  BlasLibrary library;
  const char* variable = std::getenv("REGAUGE_BLAS");
  const std::string wanted = resolved(variable != nullptr ? variable : REGAUGE_BLAS_DEFAULT);
  if (!wanted.empty() && wanted != "eigen") {
    if (load({wanted.c_str(), nullptr}, library)) return library;
    const char* cause = dlerror();
    throw Error(fmt::format(
        "[blas] '{}' cannot be used as a BLAS: {}; set REGAUGE_BLAS to the name or path of a BLAS "
        "with 32-bit integers, or to 'eigen'",
        wanted, cause != nullptr ? cause : "it has no sgemm_"));
  }
  if (wanted.empty()) {
    for (const Candidate& candidate : kCandidates) {
      if (load(candidate, library)) return library;
    }
    library.info.warning =
        "[blas] no BLAS found, large products run on one core with Eigen's kernels; install "
        "OpenBLAS (Debian: libopenblas0) or set REGAUGE_BLAS to the path of one";
  }
  library.info.library = "eigen";
  return library;
}

}  // namespace

const BlasLibrary& blas_library() {
  static const BlasLibrary library = load_library();
  return library;
}

}  // namespace regauge
