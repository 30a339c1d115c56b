#include "http.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "curl_library.h"

namespace regauge::io {
namespace {

constexpr std::size_t kMostHeaderBytes = 1 << 18;
constexpr std::size_t kMostSkipped = 1 << 16;
constexpr long kConnectSeconds = 30;
constexpr long kStalledSeconds = 60;  // without a byte
constexpr long kBufferBytes = 1 << 18;

// A handle of libcurl keeps its connections open; those that are not in use wait here. A process
// that was forked leaves its parent's alone.
class IdleHandles {
 public:
  CURL* take() {
    const std::scoped_lock lock(mutex_);
    if (process_ != ::getpid()) {
      handles_.clear();
      process_ = ::getpid();
    }
    if (handles_.empty()) return curl_library().init();
    CURL* const handle = handles_.back();
    handles_.pop_back();
    return handle;
  }
  void give_back(CURL* handle) {
    const std::scoped_lock lock(mutex_);
    handles_.push_back(handle);
  }

 private:
  std::mutex mutex_;
  std::vector<CURL*> handles_;
  pid_t process_ = ::getpid();
};

IdleHandles& idle_handles() {
  static auto* const handles = new IdleHandles;
  return *handles;
}

class Handle {
 public:
  Handle() : handle_(idle_handles().take()) {
    if (handle_ == nullptr) throw FileError("[remote] libcurl gives no handle");
  }
  ~Handle() {
    curl_library().reset(handle_);
    idle_handles().give_back(handle_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  template <class Value>
  void set(CURLoption option, Value value) {
    if (curl_library().setopt(handle_, option, value) == CURLE_OK) return;
    throw FileError(
        fmt::format("[remote] this libcurl does not know option {}", static_cast<int>(option)));
  }
  CURL* get() const { return handle_; }

 private:
  CURL* handle_;
};

// What the callbacks of one request share. They are called from C: no exception leaves them.
struct Exchange {
  const std::function<bool(const HttpAnswer&)>& begin;
  const std::function<bool(std::span<const std::byte>)>& body;
  HttpAnswer answer;
  std::size_t header_bytes = 0;
  bool begun = false, wanted = false;
  std::size_t skipped = 0;  // of a body that is not wanted; more than a little ends the connection
  bool ended = false;       // by us, which is no failure
  std::exception_ptr failure;
};

std::string trimmed(std::string_view text) {
  const auto space = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return std::string(text);
}

void take_header(HttpAnswer& answer, std::string_view line) {
  if (line.starts_with("HTTP/")) {
    answer = {};
    const std::size_t space = line.find(' ');
    if (space != std::string_view::npos) {
      answer.status = std::strtol(std::string(line.substr(space)).c_str(), nullptr, 10);
    }
    return;
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  std::string name(line.substr(0, colon));
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (auto [known, field] : {std::pair{"etag", &answer.etag},
                              {"last-modified", &answer.last_modified},
                              {"content-range", &answer.content_range},
                              {"location", &answer.location},
                              {"content-encoding", &answer.encoding},
                              {"x-repo-commit", &answer.commit}}) {
    if (name == known) *field = trimmed(line.substr(colon + 1));
  }
}

std::size_t on_header(char* text, std::size_t size, std::size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  exchange.header_bytes += size * count;
  if (exchange.header_bytes > kMostHeaderBytes) return 0;
  try {
    take_header(exchange.answer, {text, size * count});
  } catch (...) {
    exchange.failure = std::current_exception();
    return 0;
  }
  return size * count;
}

std::size_t on_body(char* bytes, std::size_t size, std::size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const std::span all(reinterpret_cast<const std::byte*>(bytes), size * count);
  try {
    if (!exchange.begun) exchange.wanted = exchange.begin(exchange.answer);
    exchange.begun = true;
    if (exchange.wanted && exchange.body(all)) return all.size();
    if (!exchange.wanted) exchange.skipped += all.size();
    if (!exchange.wanted && exchange.skipped <= kMostSkipped) return all.size();
    exchange.ended = true;
  } catch (...) {
    exchange.failure = std::current_exception();
  }
  return 0;
}

const char* variable_or_null(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

class HeaderList {
 public:
  HeaderList() = default;
  ~HeaderList() { curl_library().free_all(list_); }
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;

  void add(const std::string& line) {
    curl_slist* const longer = curl_library().append(list_, line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    list_ = longer;
  }
  curl_slist* get() const { return list_; }

 private:
  curl_slist* list_ = nullptr;
};

// Nothing is sent that would let the server send the file encoded.
void add_headers(const HttpRequest& request, HeaderList& list) {
  list.add(fmt::format("Range: bytes={}-{}", request.first, request.last));
  if (!request.if_range.empty()) list.add("If-Range: " + request.if_range);
  const char* token = variable_or_null("HF_TOKEN");
  if (token != nullptr && request.url.origin == hub_endpoint().origin) {
    const std::string text = trimmed(token);
    if (!std::ranges::all_of(text, [](unsigned char c) { return c > ' ' && c < 0x7f; })) {
      throw UsageError("[remote] HF_TOKEN has characters that a token does not have");
    }
    list.add("Authorization: Bearer " + text);
  }
}

}  // namespace

HttpAnswer send_request(const HttpRequest& request,
                        const std::function<bool(const HttpAnswer&)>& begin,
                        const std::function<bool(std::span<const std::byte>)>& body) {
  Exchange exchange{begin, body, {}, 0, false, false, 0, false, nullptr};
  HeaderList headers;
  add_headers(request, headers);
  Handle handle;
  const std::string url = request.url.text();
  handle.set(CURLOPT_URL, url.c_str());
  handle.set(CURLOPT_HTTPHEADER, headers.get());
  handle.set(CURLOPT_FOLLOWLOCATION, 0L);
  handle.set(CURLOPT_NOSIGNAL, 1L);
  handle.set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  handle.set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  handle.set(CURLOPT_LOW_SPEED_TIME, kStalledSeconds);
  handle.set(CURLOPT_BUFFERSIZE, kBufferBytes);
  handle.set(CURLOPT_USERAGENT, "regauge");
  handle.set(CURLOPT_HEADERFUNCTION, on_header);
  handle.set(CURLOPT_HEADERDATA, &exchange);
  handle.set(CURLOPT_WRITEFUNCTION, on_body);
  handle.set(CURLOPT_WRITEDATA, &exchange);
#if LIBCURL_VERSION_NUM >= 0x075500
  // A library older than this header does not know it; parse_url() lets nothing else through.
  curl_library().setopt(handle.get(), CURLOPT_PROTOCOLS_STR,
                        request.url.is_secure() ? "https" : "http");
#endif
  if (const char* certificates = variable_or_null("SSL_CERT_FILE")) {
    handle.set(CURLOPT_CAINFO, certificates);
  }
  const CURLcode code = curl_library().perform(handle.get());
  if (exchange.failure) std::rethrow_exception(exchange.failure);
  const std::string where = "[remote] " + request.url.shown();
  if (exchange.header_bytes > kMostHeaderBytes) {
    throw FileError(where + ": the server sends headers without end");
  }
  if (code == CURLE_PEER_FAILED_VERIFICATION) {
    throw FileError(where +
                    ": the server's certificate is not trusted; SSL_CERT_FILE may name the "
                    "certificates of your organisation");
  }
  if (code != CURLE_OK && !exchange.ended) {
    throw ConnectionLost(where + ": " + curl_library().strerror(code));
  }
  if (!exchange.begun) begin(exchange.answer);
  return exchange.answer;
}

}  // namespace regauge::io
