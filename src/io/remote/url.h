#pragma once

#include <filesystem>
#include <string>

namespace regauge::io {

// Whether it names something behind a network: https://..., http://..., hf://...
bool is_url(const std::filesystem::path& path);
bool is_hub_address(const std::filesystem::path& path);  // hf://...

// An address of HTTP. http:// is taken only for this machine.
struct Url {
  std::string origin;  // "https://huggingface.co", with the port unless it is the usual one
  std::string path;    // begins with "/"
  std::string query;   // "?..." or empty; may hold a signature and is never shown

  std::string text() const { return origin + path + query; }
  std::string shown() const { return origin + path; }
  bool is_secure() const { return origin.starts_with("https:"); }
};

// Throws UsageError for anything but http and https, a password, http:// to another machine, and
// characters that an address does not have.
Url parse_url(const std::string& text);
// Where a redirect of `from` leads. Throws FileError where it leads from https to http, or nowhere.
Url redirected(const Url& from, const std::string& location);

// Where the hub is: HF_ENDPOINT, or https://huggingface.co. Throws UsageError.
Url hub_endpoint();
// hf://org/name, hf://org/name@revision, hf://org/name@revision/file as the address of the folder
// or file; other addresses as they are. Throws UsageError.
std::string web_address(const std::string& given);

}  // namespace regauge::io
