#pragma once

#include <cstdint>

namespace regauge {

// What this process has fetched of remote files: requests, bytes of bodies, and bytes that the
// cache on disk had.
struct RemoteTraffic {
  std::int64_t requests = 0, fetched = 0, cached = 0;
};
RemoteTraffic remote_traffic();

}  // namespace regauge
