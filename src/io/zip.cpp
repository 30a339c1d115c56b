#include "zip.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "corrupt.h"
#include "json.h"

namespace regauge::io {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50, kDirectoryHeader = 0x02014b50, kEnd = 0x06054b50,
                        kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr std::uint64_t kLocalBytes = 30, kDirectoryBytes = 46, kEndBytes = 22, kEnd64Bytes = 56,
                        kLocator64Bytes = 20;
constexpr std::uint32_t kIn64Bits = 0xffffffff;  // the number is in the 64-bit field
constexpr std::uint16_t kCountIn64Bits = 0xffff, kExtra64 = 1;
constexpr std::uint16_t kEncrypted = 1, kStored = 0;

// Numbers at places of the archive, none past its end.
class ZipReader {
 public:
  ZipReader(ByteRange archive, const std::string& where) : archive_(archive), where_(where) {}

  [[noreturn]] void refuse(Corruption cause, const std::string& what) const {
    throw CorruptFile(cause, fmt::format("{}: {}", where_, what));
  }
  std::uint64_t size() const { return archive_.size(); }
  std::string text(std::uint64_t at, std::uint64_t length) const {
    if (at > size() || length > size() - at) {
      refuse(Corruption::bad_archive, "the zip's directory goes past the end of the file");
    }
    const Bytes bytes =
        archive_.bytes(static_cast<std::size_t>(at), static_cast<std::size_t>(length));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  template <class T>
  T number(std::uint64_t at) const {
    const std::string bytes = text(at, sizeof(T));
    T result;
    std::memcpy(&result, bytes.data(), sizeof result);
    return result;
  }

 private:
  ByteRange archive_;
  const std::string& where_;
};

struct Directory {
  std::uint64_t offset, bytes, count;
  std::uint64_t end;  // where the records of the end begin
};

Directory find_directory(const ZipReader& zip) {
  if (zip.size() < kEndBytes || zip.number<std::uint32_t>(zip.size() - kEndBytes) != kEnd) {
    zip.refuse(Corruption::truncated,
               "a zip archive without its end; was the download or the saving cut short?");
  }
  const std::uint64_t end = zip.size() - kEndBytes;
  const auto disks = zip.number<std::uint32_t>(end + 4);
  Directory found{zip.number<std::uint32_t>(end + 16), zip.number<std::uint32_t>(end + 12),
                  zip.number<std::uint16_t>(end + 10), end};
  const bool is_64 =
      end >= kLocator64Bytes && zip.number<std::uint32_t>(end - kLocator64Bytes) == kLocator64;
  const bool must_be_64 =
      found.offset == kIn64Bits || found.bytes == kIn64Bits || found.count == kCountIn64Bits;
  if (disks != 0 || zip.number<std::uint16_t>(end + 20) != 0 || (must_be_64 && !is_64)) {
    zip.refuse(Corruption::bad_archive, "the end of the zip is not as torch.save writes it");
  }
  if (is_64) {
    const std::uint64_t locator = end - kLocator64Bytes;
    const auto at = zip.number<std::uint64_t>(locator + 8);
    if (at > locator || locator - at < kEnd64Bytes || zip.number<std::uint32_t>(at) != kEnd64) {
      zip.refuse(Corruption::bad_archive, "the zip64 end is not where it is said to be");
    }
    const Directory wide{zip.number<std::uint64_t>(at + 48), zip.number<std::uint64_t>(at + 40),
                         zip.number<std::uint64_t>(at + 32), at};
    const auto agrees = [](std::uint64_t narrow, std::uint64_t value, std::uint64_t in_64_bits) {
      return narrow == value || narrow == in_64_bits;
    };
    if (!agrees(found.offset, wide.offset, kIn64Bits) ||
        !agrees(found.bytes, wide.bytes, kIn64Bits) ||
        !agrees(found.count, wide.count, kCountIn64Bits)) {
      zip.refuse(Corruption::bad_archive, "the two ends of the zip disagree");
    }
    found = wide;
  }
  if (found.offset > found.end || found.bytes != found.end - found.offset ||
      found.count > found.bytes / kDirectoryBytes) {
    zip.refuse(Corruption::bad_archive, "the zip's directory is not where it is said to be");
  }
  return found;
}

struct Header {
  std::string name;
  std::uint64_t local, compressed, bytes;
};

// Numbers that do not fit in 32 bits stand in an extra field, those that need it alone.
void read_extra(const ZipReader& zip, std::uint64_t at, std::uint64_t length, Header& header) {
  const std::uint64_t end = at + length;
  while (end - at >= 4) {
    const auto kind = zip.number<std::uint16_t>(at);
    const auto size = zip.number<std::uint16_t>(at + 2);
    at += 4;
    if (size > end - at) break;
    std::uint64_t field = at;
    for (std::uint64_t* value : {&header.bytes, &header.compressed, &header.local}) {
      if (kind != kExtra64 || *value != kIn64Bits) continue;
      if (field + 8 > at + size) zip.refuse(Corruption::bad_archive, "a zip64 field is too short");
      *value = zip.number<std::uint64_t>(field);
      field += 8;
    }
    if (kind == kExtra64) return;
    at += size;
  }
}

// Where the file's bytes begin, after a local header that agrees.
std::uint64_t data_of(const ZipReader& zip, const Header& header) {
  const auto refuse = [&](const char* what) {
    zip.refuse(Corruption::bad_archive,
               fmt::format("'{}': {}", is_utf8(header.name) ? header.name : "?", what));
  };
  if (header.local > zip.size() - kLocalBytes ||
      zip.number<std::uint32_t>(header.local) != kLocalHeader) {
    refuse("its local header is not where it is said to be");
  }
  const auto name = zip.number<std::uint16_t>(header.local + 26);
  const auto extra = zip.number<std::uint16_t>(header.local + 28);
  if (zip.text(header.local + kLocalBytes, name) != header.name) {
    refuse("its local header has another name");
  }
  return header.local + kLocalBytes + name + extra;
}

}  // namespace

ZipDirectory::ZipDirectory(ByteRange archive, const std::string& where) {
  const ZipReader zip(archive, where);
  const Directory directory = find_directory(zip);
  struct Interval {
    std::uint64_t begin, end;
    std::string name;
  };
  std::vector<Interval> taken;
  std::uint64_t at = directory.offset;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    if (directory.end - at < kDirectoryBytes || zip.number<std::uint32_t>(at) != kDirectoryHeader) {
      zip.refuse(Corruption::bad_archive, "an entry of the zip's directory does not begin as one");
    }
    const auto flags = zip.number<std::uint16_t>(at + 8);
    const auto method = zip.number<std::uint16_t>(at + 10);
    const auto name = zip.number<std::uint16_t>(at + 28);
    const auto extra = zip.number<std::uint16_t>(at + 30);
    const auto comment = zip.number<std::uint16_t>(at + 32);
    Header header{zip.text(at + kDirectoryBytes, name), zip.number<std::uint32_t>(at + 42),
                  zip.number<std::uint32_t>(at + 20), zip.number<std::uint32_t>(at + 24)};
    const std::uint64_t length = kDirectoryBytes + name + extra + comment;
    if (length > directory.end - at) {
      zip.refuse(Corruption::bad_archive, "an entry of the zip's directory is cut short");
    }
    if (!is_utf8(header.name)) zip.refuse(Corruption::not_utf8, "a name in the zip is not UTF-8");
    read_extra(zip, at + kDirectoryBytes + name, extra, header);
    const std::uint64_t data = data_of(zip, header);
    const bool stored = method == kStored && (flags & kEncrypted) == 0 &&
                        zip.number<std::uint16_t>(header.local + 8) == kStored &&
                        header.bytes == header.compressed;
    if (data > directory.offset || header.compressed > directory.offset - data) {
      zip.refuse(Corruption::truncated,
                 fmt::format("'{}' goes past the files of the zip", header.name));
    }
    taken.push_back({header.local, data + header.compressed, header.name});
    const Entry entry{static_cast<std::int64_t>(data), static_cast<std::int64_t>(header.compressed),
                      stored};
    if (!entries_.emplace(header.name, entry).second) {
      zip.refuse(Corruption::duplicate_key, fmt::format("'{}' is in the zip twice", header.name));
    }
    at += length;
  }
  if (at != directory.end) {
    zip.refuse(Corruption::bad_archive, "the zip's directory has more entries than it says");
  }
  std::ranges::sort(taken, {}, &Interval::begin);
  for (std::size_t i = 1; i < taken.size(); ++i) {
    if (taken[i].begin < taken[i - 1].end) {
      zip.refuse(Corruption::overlap, fmt::format("'{}' and '{}' of the zip share bytes",
                                                  taken[i - 1].name, taken[i].name));
    }
  }
}

bool begins_as_zip(std::span<const std::byte> bytes) {
  return bytes.size() >= 4 && std::memcmp(bytes.data(), "PK\x03\x04", 4) == 0;
}

}  // namespace regauge::io
