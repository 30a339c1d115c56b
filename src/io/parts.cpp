#include "parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "regauge/base/error.h"

namespace regauge {

Parts::Parts(Share share, nlohmann::json asked, std::vector<PartRecord> made)
    : made_(std::move(made)) {
  require_one_run(made_, asked);
  own_.asked = std::move(asked);
  own_.part = share.part;
  own_.of = share.of;
}

Parts Parts::part(Share share, nlohmann::json asked, std::vector<PartRecord> made) {
  if (!made.empty() && made.front().of != share.of) {
    throw UsageError(fmt::format("[parts] {} is one of {} parts and not of {}", made.front().shown,
                                 made.front().of, share.of));
  }
  Parts parts(share, std::move(asked), std::move(made));
  parts.is_part_ = true;
  return parts;
}

Parts Parts::join(nlohmann::json asked, std::vector<PartRecord> made, Rest rest) {
  const std::int64_t of = made.empty() ? 1 : made.front().of;
  Parts parts({1, of}, std::move(asked), std::move(made));
  parts.rest_ = rest;
  return parts;
}

bool Parts::find_results(std::int64_t units, Turn& turn) const {
  const std::string& loop = turn.loop;
  std::set<std::int64_t> there;
  std::map<std::int64_t, std::pair<const nlohmann::json*, const PartRecord*>> results;
  for (const auto& part : made_) {
    const auto found = part.loops.find(loop);
    if (found == part.loops.end()) continue;
    there.insert(part.part);
    if (found->second.units != units) {
      throw UsageError(fmt::format("[parts] {}: '{}' has {} units there, and {} here", part.shown,
                                   loop, found->second.units, units));
    }
    for (const auto& [unit, result] : found->second.results) {
      const auto [place, is_new] = results.emplace(unit, std::pair(&result, &part));
      if (!is_new && *place->second.first != result) {
        throw UsageError(fmt::format(
            "[parts] {}: unit {} of '{}' was done twice, and the results differ; make that part "
            "again",
            part.shown, unit, loop));
      }
    }
  }
  if (there.empty()) return false;
  std::vector<std::int64_t> missing;
  for (std::int64_t part = 1; part <= own_.of; ++part) {
    if (!there.contains(part)) missing.push_back(part);
  }
  if (!missing.empty()) {
    throw UsageError(fmt::format("[parts] {} {} of {} {} missing ('{}')",
                                 missing.size() == 1 ? "part" : "parts", fmt::join(missing, ", "),
                                 own_.of, missing.size() == 1 ? "is" : "are", loop));
  }
  for (std::int64_t unit = 0; unit < units; ++unit) {
    const auto found = results.find(unit);
    if (found == results.end()) {
      throw UsageError(
          fmt::format("[parts] no part has unit {} of '{}'; make them again", unit, loop));
    }
    turn.results.push_back(*found->second.first);
    turn.sources.push_back(found->second.second->shown);
  }
  return true;
}

Parts::Turn Parts::begin(const std::string& loop, std::span<const std::int64_t> sizes) {
  Turn turn;
  const int times = ++begun_[loop];
  turn.loop = times == 1 ? loop : fmt::format("{} ({})", loop, times);
  const std::int64_t units = std::ssize(sizes);
  if (find_results(units, turn)) return turn;
  if (is_part_) {
    turn.units = units_of({own_.part, own_.of}, sizes);
    turn.is_all = false;
    own_.loops[turn.loop].units = units;
    return turn;
  }
  if (rest_ == Rest::stop) throw LoopLeft();
  for (std::int64_t unit = 0; unit < units; ++unit) turn.units.push_back(unit);
  return turn;
}

void Parts::record(const Turn& turn, std::int64_t unit, nlohmann::json result) {
  own_.loops.at(turn.loop).results[unit] = std::move(result);
}

std::vector<std::int64_t> units_of(Parts::Share share, std::span<const std::int64_t> sizes) {
  double all = 0, before = 0;
  for (const auto size : sizes) all += static_cast<double>(std::max<std::int64_t>(size, 1));
  std::vector<std::int64_t> units;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto size = static_cast<double>(std::max<std::int64_t>(sizes[i], 1));
    const double middle = (before + size / 2) / all;
    before += size;
    const auto part = static_cast<std::int64_t>(middle * static_cast<double>(share.of));
    if (part + 1 == share.part) units.push_back(static_cast<std::int64_t>(i));
  }
  return units;
}

}  // namespace regauge
