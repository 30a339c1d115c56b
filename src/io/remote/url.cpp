#include "url.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "regauge/base/error.h"

namespace regauge::io {
namespace {

constexpr std::string_view kHub = "hf://";

[[noreturn]] void refuse_url(const std::string& shown, const std::string& what) {
  throw UsageError(fmt::format("[remote] {}: {}", shown, what));
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// The name of the host, without the port.
std::string host_of(const std::string& authority) {
  if (authority.starts_with('[')) return authority.substr(0, authority.find(']') + 1);
  return authority.substr(0, authority.find(':'));
}

bool is_this_machine(const std::string& host) {
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

// Of an organisation, a model or a revision, which may have percent-encoded characters.
bool is_hub_name(const std::string& text) {
  return !text.empty() && text != "." && text != ".." &&
         std::ranges::all_of(text, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '%';
         });
}

}  // namespace

bool is_url(const std::filesystem::path& path) {
  const std::string text = path.string();
  return text.starts_with("https://") || text.starts_with("http://") || is_hub_address(path);
}

bool is_hub_address(const std::filesystem::path& path) { return path.string().starts_with(kHub); }

Url parse_url(const std::string& text) {
  const std::size_t query = std::min(text.find('?'), text.size());
  const std::string shown = text.substr(0, query);
  const std::string named = shown.find('@') == std::string::npos ? shown : "an address";
  if (!std::ranges::all_of(text, [](unsigned char c) { return c > ' ' && c < 0x7f; }) ||
      text.find_first_of("#\"<>\\^`{|}") != std::string::npos) {
    refuse_url(named, "has characters that an address does not have; encode them (%20)");
  }
  const std::size_t colon = shown.find("://");
  const std::string scheme = colon == std::string::npos ? "" : lower(shown.substr(0, colon));
  if (scheme != "https" && scheme != "http") {
    refuse_url(named, "only https:// and hf:// are read");
  }
  const std::size_t begin = colon + 3;
  const std::size_t slash = std::min(shown.find('/', begin), shown.size());
  std::string authority = lower(shown.substr(begin, slash - begin));
  if (authority.find('@') != std::string::npos) {
    refuse_url(scheme + "://...", "an address with a user name or a password is not taken");
  }
  const std::string usual = scheme == "https" ? ":443" : ":80";
  if (authority.ends_with(usual)) authority.resize(authority.size() - usual.size());
  const std::string host = host_of(authority);
  if (host.empty()) refuse_url(shown, "names no host");
  if (scheme == "http" && !is_this_machine(host)) {
    refuse_url(shown, "http:// is not encrypted and only taken for this machine; use https://");
  }
  return {scheme + "://" + authority, slash == shown.size() ? "/" : shown.substr(slash),
          text.substr(query)};
}

Url redirected(const Url& from, const std::string& location) {
  const auto refuse = [&](const std::string& why) {
    throw FileError(fmt::format("[remote] {}: {}", from.shown(), why));
  };
  if (location.empty()) refuse("the server redirects to nowhere");
  const std::string plain = location.substr(0, location.find('#'));
  const std::string scheme = from.origin.substr(0, from.origin.find(':') + 1);
  Url to;
  try {
    if (plain.find("://") < plain.find_first_of("/?")) {
      to = parse_url(plain);
    } else if (plain.starts_with("//")) {
      to = parse_url(scheme + plain);
    } else if (plain.starts_with('/')) {
      to = parse_url(from.origin + plain);
    } else {
      to = parse_url(from.origin + from.path.substr(0, from.path.rfind('/') + 1) + plain);
    }
  } catch (const UsageError& error) {
    refuse(fmt::format("the server redirects to where nothing is read from: {}", error.what()));
  }
  if (from.is_secure() && !to.is_secure()) {
    refuse("the server redirects from https to http, which is not followed");
  }
  return to;
}

Url hub_endpoint() {
  const char* variable = std::getenv("HF_ENDPOINT");
  std::string text = variable == nullptr || *variable == '\0' ? "https://huggingface.co" : variable;
  while (text.ends_with('/')) text.pop_back();
  return parse_url(text);
}

std::string web_address(const std::string& given) {
  if (!given.starts_with(kHub)) return given;
  const auto refuse = [&] {
    refuse_url(given,
               "expected hf://org/name, hf://org/name@revision or hf://org/name@revision/file; a "
               "revision with a slash is written with %2F");
  };
  std::string rest = given.substr(kHub.size());
  const auto take = [&](std::string_view ends) {
    const std::size_t at = std::min(rest.find_first_of(ends), rest.size());
    const std::string word = rest.substr(0, at);
    rest.erase(0, at);
    return word;
  };
  const std::string org = take("/");
  if (rest.size() < 2) refuse();
  rest.erase(0, 1);
  const std::string name = take("/@");
  std::string revision = "main";
  if (rest.starts_with('@')) {
    rest.erase(0, 1);
    revision = take("/");
  }
  while (rest.ends_with('/')) rest.pop_back();
  const Url hub = hub_endpoint();
  if (!is_hub_name(org) || !is_hub_name(name) || !is_hub_name(revision) ||
      rest.find("..") != std::string::npos || rest.find('?') != std::string::npos) {
    refuse();
  }
  return fmt::format("{}{}/{}/{}/resolve/{}{}", hub.origin, hub.path == "/" ? "" : hub.path, org,
                     name, revision, rest);
}

}  // namespace regauge::io
