#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "gzip.h"
#include "io/corrupt.h"
#include "request.h"
#include "spectrum.h"

namespace regauge::lab {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kTestTakes = 5;  // 0 to 4, as the Free Spoken Digit Dataset has it

class Sounds final : public Data {
 public:
  // `frames` holds those of one sound below those of the other.
  Sounds(Matrix<float> frames, std::vector<std::int64_t> labels)
      : frames_(std::move(frames)), labels_(std::move(labels)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }

  Batch batch(std::span<const std::int64_t> examples) const override {
    Batch batch;
    batch.sequences = static_cast<std::int64_t>(examples.size());
    batch.length = frames_.rows() / size();
    batch.vectors.resize(batch.sequences * batch.length, frames_.cols());
    std::int64_t row = 0;
    for (const std::int64_t example : examples) {
      batch.vectors.middleRows(row, batch.length) =
          frames_.middleRows(example * batch.length, batch.length);
      batch.targets.push_back(labels_[static_cast<std::size_t>(example)]);
      row += batch.length;
    }
    return batch;
  }

 private:
  Matrix<float> frames_;
  std::vector<std::int64_t> labels_;
};

struct Sound {
  std::int64_t rate = 0;
  std::vector<float> samples;  // in [-1, 1)
};

// A RIFF file: chunks of a name, a little-endian length and that many bytes, filled up to an even
// number.
Sound parse_wav(std::string_view file, const std::string& where) {
  const auto number = [](std::string_view bytes, std::size_t at, std::size_t length) {
    std::uint32_t value = 0;
    for (std::size_t i = length; i-- > 0;) {
      value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
    }
    return value;
  };
  if (file.size() < 12 || !file.starts_with("RIFF") || file.substr(8, 4) != "WAVE") {
    throw CorruptFile(Corruption::bad_magic, fmt::format("{}: not a RIFF WAVE file", where));
  }
  file.remove_prefix(12);
  Sound sound;
  while (file.size() >= 8) {
    const std::string_view name = file.substr(0, 4);
    const std::size_t length = number(file, 4, 4);
    file.remove_prefix(8);
    if (length > file.size()) {
      throw CorruptFile(
          Corruption::truncated,
          fmt::format("{}: ends inside its chunk '{}'; was the download cut short?", where, name));
    }
    const std::string_view chunk = file.substr(0, length);
    file.remove_prefix(std::min(length + length % 2, file.size()));
    if (name == "fmt ") {
      if (length < 16 || number(chunk, 0, 2) != 1 || number(chunk, 2, 2) != 1 ||
          number(chunk, 14, 2) != 16) {
        throw CorruptFile(Corruption::bad_header,
                          fmt::format("{}: expected 16-bit PCM of one channel; convert it, e.g. "
                                      "with sox IN -c 1 -b 16 -e signed OUT",
                                      where));
      }
      sound.rate = number(chunk, 4, 4);
      if (sound.rate < 1000 || sound.rate > 192'000) {
        throw CorruptFile(
            Corruption::bad_header,
            fmt::format("{}: {} samples per second; expected 1000 to 192000", where, sound.rate));
      }
    } else if (name == "data" && sound.rate != 0) {
      for (std::size_t i = 0; i + 1 < length; i += 2) {
        const auto sample = static_cast<std::int16_t>(number(chunk, i, 2));
        sound.samples.push_back(static_cast<float>(sample) / 32768);
      }
      return sound;
    }
  }
  throw CorruptFile(Corruption::header_truncated,
                    fmt::format("{}: no chunk 'fmt ' and then 'data'", where));
}

struct Recording {
  fs::path path;
  std::string label;
  std::int64_t take = 0;
};

// All of the folder in order of name.
std::vector<Recording> recordings(const Request& request) {
  std::vector<Recording> found;
  std::error_code error;
  for (fs::directory_iterator entry(request.path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() != ".wav") continue;
    const std::string name = entry->path().stem().string();
    const std::size_t first = name.find('_'), last = name.rfind('_') + 1;
    std::int64_t take = -1;
    const char* const stop = name.data() + name.size();
    if (first == std::string::npos || std::from_chars(name.data() + last, stop, take).ptr != stop ||
        take < 0) {
      throw request.refusal(
          fmt::format("'{}.wav' is not named LABEL_TAKE.wav or LABEL_..._TAKE.wav with a number as "
                      "TAKE",
                      name));
    }
    found.push_back({entry->path(), name.substr(0, first), take});
  }
  if (found.empty()) throw FileError(fmt::format("{}: no .wav files there", request.where()));
  std::ranges::sort(found, {}, &Recording::path);
  return found;
}

}  // namespace

std::unique_ptr<Data> open_wav(const Request& request) {
  require(request, Input::vectors, Output::classes);
  const Architecture& a = request.architecture;
  const std::int64_t length = sequence_length(request);
  std::vector<Recording> chosen = recordings(request);
  std::map<std::string, std::int64_t> classes;  // numbered in order of name
  for (const Recording& recording : chosen) classes[recording.label] = 0;
  std::int64_t next = 0;
  for (auto& [label, number] : classes) number = next++;
  if (next != a.classes) {
    throw request.refusal(fmt::format(
        "there are {} labels; classes must be that, this architecture has {}", next, a.classes));
  }
  std::erase_if(chosen, [&](const Recording& recording) {
    return request.split != Split::all &&
           (request.split == Split::test) != (recording.take < kTestTakes);
  });
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const auto count = static_cast<std::int64_t>(chosen.size());
  if (a.input_width > kMost / length || count > kMost / (length * a.input_width)) {
    throw request.refusal(
        fmt::format("{} recordings of {} frames of {} numbers are more than 2^30 "
                    "numbers; give a shorter length",
                    count, length, a.input_width));
  }
  Matrix<float> frames(count * length, a.input_width);
  std::vector<std::int64_t> labels;
  std::optional<Spectrum> spectrum;
  std::int64_t rate = 0;
  for (const Recording& recording : chosen) {
    const std::string where = fmt::format("[wav] {}", recording.path.string());
    const Sound sound = parse_wav(read_file(recording.path, where), where);
    if (!spectrum) {
      rate = sound.rate;
      spectrum.emplace(rate, a.input_width);
    }
    if (sound.rate != rate) {
      throw CorruptFile(Corruption::bad_header,
                        fmt::format("{}: {} samples per second, the others have {}; convert it",
                                    where, sound.rate, rate));
    }
    (*spectrum)(sound.samples,
                frames.middleRows(static_cast<std::int64_t>(labels.size()) * length, length));
    labels.push_back(classes.at(recording.label));
  }
  return std::make_unique<Sounds>(std::move(frames), std::move(labels));
}

}  // namespace regauge::lab
