#include "remote_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "http.h"
#include "io/requested_file.h"
#include "piece_cache.h"
#include "regauge/base/error.h"
#include "regauge/io/remote.h"

namespace regauge {
namespace {

std::atomic<std::int64_t> remote_requests{0}, remote_fetched{0}, remote_cached{0};

}  // namespace

RemoteTraffic remote_traffic() { return {remote_requests, remote_fetched, remote_cached}; }

namespace io {
namespace {

constexpr int kMostRedirects = 10;
constexpr int kMostFailures = 4;  // one after the other, without a byte between them
constexpr auto kFirstPause = std::chrono::milliseconds(100);

std::mutex queries_mutex;
std::map<std::string, std::string> queries;  // by address

Url with_query(const std::string& address) {
  Url url = parse_url(address);
  const std::scoped_lock lock(queries_mutex);
  if (const auto found = queries.find(url.shown()); found != queries.end()) {
    url.query = found->second;
  }
  return url;
}

// "bytes 0-65535/4860342345"
struct ContentRange {
  std::size_t first, last, total;
};
std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  constexpr std::size_t kMost = std::size_t{1} << 62;
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  std::array<std::size_t, 3> numbers = {};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), numbers[i]);
    if (error != std::errc() || numbers[i] > kMost) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (i == 2) break;
    if (text.empty() || text.front() != (i == 0 ? '-' : '/')) return std::nullopt;
    text.remove_prefix(1);
  }
  const ContentRange range{numbers[0], numbers[1], numbers[2]};
  if (!text.empty() || range.first > range.last || range.last >= range.total) return std::nullopt;
  return range;
}

bool may_pass(long status) {
  return status == 408 || status == 429 || (status >= 500 && status <= 504);
}

bool is_redirect(long status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// A file that the server does not have, or does not show.
class NotThere : public FileError {
 public:
  using FileError::FileError;
};

// A redirect led to an address that is good no more.
class Expired : public ConnectionLost {
 public:
  using ConnectionLost::ConnectionLost;
};

class RemoteReader : public RangeReader {
 public:
  // Fetches the first piece. Throws NotThere.
  explicit RemoteReader(Url url);

  std::size_t size() const override { return size_; }
  void read(std::size_t offset, std::span<std::byte> to) const override;
  void require_intact() const override {}  // every answer was of the version that was opened
  const std::string& commit() const { return commit_; }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw FileError(fmt::format("[remote] {}: {}", url_.shown(), what));
  }
  [[noreturn]] static void give_up(const std::string& why, int failures, std::size_t offset) {
    throw FileError(fmt::format("{}; tried {} times at byte {}", why, failures, offset));
  }
  Url current() const {
    const std::scoped_lock lock(mutex_);
    return found_;
  }
  // Of pieces in the cache.
  bool is_sound(FilePiece piece) const {
    const std::scoped_lock lock(mutex_);
    return sound_.contains(piece.begin);
  }
  void set_sound(FilePiece piece) const {
    const std::scoped_lock lock(mutex_);
    sound_.insert(piece.begin);
  }
  void fetch(std::size_t offset, std::span<std::byte> to) const;
  std::size_t request(std::size_t offset, std::span<std::byte> to, bool opening) const;
  // Whether the answer is the one that was asked for. Throws if it cannot be used.
  void check(const HttpAnswer& answer, std::size_t first, std::size_t last, bool opening) const;
  void refuse_status(long status, const Url& from, bool opening) const;

  Url url_;
  // Known from the first answer on.
  mutable std::size_t size_ = 0;
  mutable std::string validator_, if_range_, commit_;
  mutable std::mutex mutex_;
  mutable Url found_;  // where the last redirect led
  mutable std::set<std::size_t> sound_;
  std::vector<std::byte> first_;
  std::optional<PieceCache> cache_;
  mutable std::array<std::mutex, 64> fetching_;  // of pieces, so that none is fetched twice at once
};

RemoteReader::RemoteReader(Url url) : url_(std::move(url)), found_(url_) {
  std::vector<std::byte> piece(piece_around(0, std::size_t{1} << 30).length);
  std::size_t got = 0;
  for (int failures = 0;;) {
    try {
      got = request(0, piece, true);
      break;
    } catch (const ConnectionLost& error) {
      if (++failures == kMostFailures) give_up(error.what(), failures, 0);
      std::this_thread::sleep_for(kFirstPause * (1 << failures));
    }
  }
  piece.resize(std::min(piece.size(), size_));
  if (got < piece.size()) fetch(got, std::span(piece).subspan(got));
  first_ = std::move(piece);
  // Only a strong ETag says that bytes are the same, and a query may choose the file.
  if (if_range_.empty()) return;
  cache_.emplace(fmt::format("{}\n{}\n{}\n{}", url_.shown(), url_.query, validator_, size_));
}

void RemoteReader::read(std::size_t offset, std::span<std::byte> to) const {
  const FilePiece piece = piece_around(offset, size_);
  if (piece.begin == 0) {
    std::memcpy(to.data(), first_.data() + offset, to.size());
    return;
  }
  if (!cache_ || !cache_->is_on()) return fetch(offset, to);
  const std::scoped_lock lock(fetching_[piece.begin / piece.length % fetching_.size()]);
  if (is_sound(piece) && cache_->find_part(piece.begin, piece.length, offset - piece.begin, to)) {
    remote_cached += static_cast<std::int64_t>(to.size());
    return;
  }
  bool cached = true;
  std::vector<std::byte> own;
  std::span<std::byte> whole = to;
  if (to.size() < piece.length) {
    own.resize(piece.length);
    whole = own;
  }
  if (cache_->find(piece.begin, whole)) {
    remote_cached += static_cast<std::int64_t>(piece.length);
  } else {
    fetch(piece.begin, whole);
    cached = cache_->keep(piece.begin, whole);
  }
  if (cached) set_sound(piece);
  if (!own.empty()) std::memcpy(to.data(), own.data() + (offset - piece.begin), to.size());
}

void RemoteReader::fetch(std::size_t offset, std::span<std::byte> to) const {
  for (int failures = 0; !to.empty();) {
    std::size_t got = 0;
    std::string why;
    try {
      got = request(offset, to, false);
      if (got < to.size()) why = fmt::format("[remote] {}: the connection was cut", url_.shown());
    } catch (const Expired& error) {
      why = error.what();
      const std::scoped_lock lock(mutex_);
      found_ = url_;
    } catch (const ConnectionLost& error) {
      why = error.what();
    }
    offset += got;
    to = to.subspan(got);
    if (to.empty()) return;
    failures = got > 0 ? 0 : failures + 1;
    if (failures == kMostFailures) give_up(why, failures, offset);
    if (failures > 0) std::this_thread::sleep_for(kFirstPause * (1 << failures));
  }
}

// How many bytes came, from `offset` on; fewer than were asked for if the connection was cut.
std::size_t RemoteReader::request(std::size_t offset, std::span<std::byte> to, bool opening) const {
  std::size_t got = 0;
  Url from = current();
  for (int hops = 0; hops <= kMostRedirects; ++hops) {
    const HttpRequest wanted{from, offset, offset + to.size() - 1, opening ? "" : if_range_};
    const auto begin = [&](const HttpAnswer& answer) {
      if (answer.status != 200 && answer.status != 206) return false;
      check(answer, wanted.first, wanted.last, opening);
      if (opening) to = to.first(std::min(to.size(), size_));
      return true;
    };
    const auto body = [&](std::span<const std::byte> bytes) {
      if (bytes.size() > to.size() - got) fail("the server sends more bytes than were asked for");
      std::memcpy(to.data() + got, bytes.data(), bytes.size());
      got += bytes.size();
      remote_fetched += static_cast<std::int64_t>(bytes.size());
      return true;
    };
    ++remote_requests;
    HttpAnswer answer;
    try {
      answer = send_request(wanted, begin, body);
    } catch (const ConnectionLost&) {
      if (got == 0) throw;
      return got;
    }
    if (answer.status == 200 || answer.status == 206) {
      if (opening) {
        const std::scoped_lock lock(mutex_);
        found_ = std::move(from);
      }
      return got;
    }
    if (!is_redirect(answer.status)) refuse_status(answer.status, from, opening);
    if (opening && commit_.empty()) commit_ = answer.commit;  // the first server's: the Hub's
    from = redirected(from, answer.location);
    const std::scoped_lock lock(mutex_);
    found_ = from;
  }
  fail(fmt::format("the server redirects more than {} times", kMostRedirects));
}

void RemoteReader::check(const HttpAnswer& answer, std::size_t first, std::size_t last,
                         bool opening) const {
  if (!answer.encoding.empty() && answer.encoding != "identity") {
    fail(fmt::format("the server sends the file encoded ({}), which nobody asked for",
                     answer.encoding));
  }
  const std::string& validator = answer.etag.empty() ? answer.last_modified : answer.etag;
  if (validator.empty()) {
    fail(
        "the server gives the file neither an ETag nor a date, so that nothing would tell if it "
        "changed meanwhile; download it");
  }
  if (!opening && validator != validator_) {
    fail(fmt::format("the file was changed while it was read (it was {}, and is {}); run again",
                     validator_, validator));
  }
  if (answer.status == 200) {
    fail("the server ignores range requests and sends whole files; download it");
  }
  const auto range = parse_content_range(answer.content_range);
  const bool sound = range && range->first == first &&
                     (opening ? range->last == std::min(last, range->total - 1)
                              : range->last == last && range->total == size_);
  if (!sound) {
    fail(fmt::format("the server answers with '{}' where bytes {}-{}{} were asked for",
                     answer.content_range, first, last,
                     opening ? "" : fmt::format(" of {}", size_)));
  }
  if (!opening) return;
  size_ = range->total;
  validator_ = validator;
  if_range_ = answer.etag.starts_with("W/") ? std::string() : answer.etag;
  if (commit_.empty()) commit_ = answer.commit;
}

void RemoteReader::refuse_status(long status, const Url& from, bool opening) const {
  const bool denied = status == 401 || status == 403 || status == 404 || status == 410;
  const std::string where = fmt::format("[remote] {}: the server answers {}", from.shown(), status);
  if (may_pass(status)) throw ConnectionLost(where);
  if (denied && !opening && from.text() != url_.text()) throw Expired(where);
  if (status == 404 || status == 410) throw NotThere(where + ": there is no such file");
  if (status == 401 || status == 403) {
    const bool hub = url_.origin == hub_endpoint().origin;
    const std::string what =
        where + (hub ? ": there is no such model, or it is private or gated; set HF_TOKEN to a "
                       "token that may read it"
                     : ": it may not be read by everybody");
    // A store that does not list what it has answers so for a name that it does not have.
    if (!hub && status == 403) throw NotThere(what);
    throw FileError(what);
  }
  if (status == 416) throw FileError(where + ": the file is empty, or became shorter");
  throw FileError(where);
}

std::shared_ptr<const FileBytes> open_reader(const std::string& url) {
  return std::make_shared<const RequestedFile>(
      std::make_unique<const RemoteReader>(with_query(url)));
}

// A folder or file on the hub by its commit, where the server says which that is, so that all files
// are of one commit even if the revision moves; the same URL otherwise.
std::string pinned(const std::string& url) {
  constexpr std::string_view kResolve = "/resolve/";
  const std::size_t begin = url.find(kResolve) + kResolve.size();
  const std::size_t end = std::min(url.find('/', begin), url.size());
  std::string commit;
  try {
    commit = RemoteReader(parse_url(end == url.size() ? url + "/config.json" : url)).commit();
  } catch (const NotThere&) {
    return url;  // whoever opens it says what is not there
  }
  constexpr std::size_t kCommit = 40;
  const bool plain =
      commit.size() == kCommit && commit.find_first_not_of("0123456789abcdef") == std::string::npos;
  return plain ? url.substr(0, begin) + commit + url.substr(end) : url;
}

// What was looked for and found, until it is opened: one request for both.
std::mutex found_mutex;
std::map<std::string, std::shared_ptr<const FileBytes>> found_files;

}  // namespace

bool is_remote_file(const std::string& url) try {
  auto file = open_reader(url);
  const std::scoped_lock lock(found_mutex);
  found_files[url] = std::move(file);
  return true;
} catch (const NotThere&) {
  return false;
}

std::shared_ptr<const FileBytes> open_remote(const std::string& url) {
  {
    const std::scoped_lock lock(found_mutex);
    if (auto found = found_files.extract(url)) return std::move(found.mapped());
  }
  return open_reader(url);
}

std::filesystem::path remote_model(const std::string& given) {
  const Url url = parse_url(web_address(given));
  {
    const std::scoped_lock lock(queries_mutex);
    if (url.query.empty()) {
      queries.erase(url.shown());
    } else {
      queries[url.shown()] = url.query;
    }
  }
  return is_hub_address(given) ? pinned(url.shown()) : url.shown();
}

}  // namespace io
}  // namespace regauge
