#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "regauge/base/error.h"
#include "url.h"

namespace regauge::io {

// A connection that failed or was cut: trying again may help.
class ConnectionLost : public FileError {
 public:
  using FileError::FileError;
};

// What a server says before the body.
struct HttpAnswer {
  long status = 0;
  std::string etag, last_modified, content_range, location, encoding;
  std::string commit;  // X-Repo-Commit of the hub
};

struct HttpRequest {
  Url url;
  std::size_t first = 0, last = 0;  // the bytes that are asked for, both included
  std::string if_range;             // a strong ETag, or empty
};

// Sends one request and follows no redirect. `begin` sees the answer before its body and says
// whether that is wanted; `body` takes it in pieces and says whether to go on. The token, HF_TOKEN,
// goes only to the hub's own origin. Throws ConnectionLost, and FileError for an answer that makes
// no sense. May be called from several threads.
HttpAnswer send_request(const HttpRequest& request,
                        const std::function<bool(const HttpAnswer&)>& begin,
                        const std::function<bool(std::span<const std::byte>)>& body);

}  // namespace regauge::io
