#pragma once

#include <string_view>

namespace regauge {

// How files of weights are read: mapped into memory, which is best on a local disk, or by requests
// of several megabytes, several at a time, which is best where each page fault is a request to a
// server. Automatic: by requests on network file systems and those in user space (NFS, Lustre,
// Ceph, GPFS, BeeGFS, SMB, AFS, 9p, FUSE), mapped elsewhere.
enum class ReadingMode { automatic, mapped, requests };

// For files that are opened from now on, in the whole process. Before the first call it is what the
// environment variable REGAUGE_IO says.
void choose_reading_mode(ReadingMode mode);
// mmap, read or auto; throws UsageError for another name.
ReadingMode reading_mode_from_name(std::string_view name);

}  // namespace regauge
