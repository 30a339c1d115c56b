// Of a build without libcurl: remote files are refused by name.
#include "regauge/base/error.h"
#include "regauge/io/remote.h"
#include "remote_file.h"

namespace regauge {
namespace {

[[noreturn]] void refuse_remote(const std::string& url) {
  throw UsageError("[remote] " + url.substr(0, url.find('?')) +
                   ": this build reads no remote files (REGAUGE_WITH_REMOTE is OFF); download the "
                   "model and name its folder");
}

}  // namespace

RemoteTraffic remote_traffic() { return {}; }

namespace io {

bool is_remote_file(const std::string& url) { refuse_remote(url); }
std::shared_ptr<const FileBytes> open_remote(const std::string& url) { refuse_remote(url); }
std::filesystem::path remote_model(const std::string& given) { refuse_remote(given); }

}  // namespace io
}  // namespace regauge
