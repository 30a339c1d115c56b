#include "curl_library.h"

#include <dlfcn.h>

#include "regauge/base/error.h"

namespace regauge::io {
namespace {

void* open_curl() {
#ifdef __APPLE__
  constexpr const char* kNames[] = {"libcurl.4.dylib", "/usr/lib/libcurl.4.dylib"};
#else
  constexpr const char* kNames[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
#endif
  for (const char* name : kNames) {
    if (void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  throw UsageError(
      "[remote] remote files are read with libcurl, which is not installed (Debian: libcurl4)");
}

CurlLibrary load_curl() {
  void* const library = open_curl();
  CurlLibrary curl;
  const auto take = [&](auto& function, const char* name) {
    void* const symbol = ::dlsym(library, name);
    if (symbol == nullptr) {
      throw UsageError(std::string("[remote] the libcurl that is installed has no ") + name);
    }
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  take(curl.global_init, "curl_global_init");
  take(curl.init, "curl_easy_init");
  take(curl.cleanup, "curl_easy_cleanup");
  take(curl.reset, "curl_easy_reset");
  take(curl.setopt, "curl_easy_setopt");
  take(curl.perform, "curl_easy_perform");
  take(curl.getinfo, "curl_easy_getinfo");
  take(curl.strerror, "curl_easy_strerror");
  take(curl.append, "curl_slist_append");
  take(curl.free_all, "curl_slist_free_all");
  if (curl.global_init(CURL_GLOBAL_ALL) != CURLE_OK) {
    throw UsageError("[remote] libcurl cannot be initialised");
  }
  return curl;
}

}  // namespace

const CurlLibrary& curl_library() {
  static const CurlLibrary curl = load_curl();
  return curl;
}

}  // namespace regauge::io
