#pragma once

#include <curl/curl.h>

namespace regauge::io {

// The functions of libcurl that are used. It is loaded when a remote file is first opened, so that
// a program that reads none does not need it; TLS and its certificates are the system's.
struct CurlLibrary {
  decltype(&curl_global_init) global_init;
  decltype(&curl_easy_init) init;
  decltype(&curl_easy_cleanup) cleanup;
  decltype(&curl_easy_reset) reset;
  decltype(&curl_easy_setopt) setopt;
  decltype(&curl_easy_perform) perform;
  decltype(&curl_easy_getinfo) getinfo;
  decltype(&curl_easy_strerror) strerror;
  decltype(&curl_slist_append) append;
  decltype(&curl_slist_free_all) free_all;
};

// Throws UsageError where there is no libcurl.
const CurlLibrary& curl_library();

}  // namespace regauge::io
