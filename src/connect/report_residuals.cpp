#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "chart.h"
#include "io/page.h"
#include "report_parts.h"
#include "svg.h"

namespace regauge::connect {
namespace {

using io::escaped;

struct Place {
  std::string kind;
  std::int64_t layer = -1;  // -1: in no layer
};

// "layers.3.attn.q.weight" is "attn.q.weight" of layer 3.
Place place_of(const std::string& tensor) {
  static constexpr std::string_view kPrefix = "layers.";
  constexpr std::int64_t kMostLayers = 1000;
  if (!tensor.starts_with(kPrefix)) return {tensor};
  const char* begin = tensor.data() + kPrefix.size();
  const char* end = tensor.data() + tensor.size();
  std::int64_t layer = -1;
  const auto [rest, error] = std::from_chars(begin, end, layer);
  if (error != std::errc() || rest == end || *rest != '.') return {tensor};
  if (layer < 0 || layer >= kMostLayers) return {tensor};
  return {std::string(rest + 1, end), layer};
}

// As a model reads them: norm, q, k, v, o; gate, up, down; weights before biases.
bool kind_before(const std::string& left, const std::string& right) {
  static constexpr std::array<std::string_view, 14> kWords = {
      "attn",   "ffn", "norm", "q",  "k",    "v",      "q_norm",
      "k_norm", "o",   "gate", "up", "down", "weight", "gain"};
  const auto rank = [](const std::string& kind) {
    std::vector<std::pair<std::size_t, std::string>> ranks;
    for (std::size_t begin = 0; begin <= kind.size();) {
      const std::size_t end = std::min(kind.find('.', begin), kind.size());
      const std::string word = kind.substr(begin, end - begin);
      const auto known = std::find(kWords.begin(), kWords.end(), word) - kWords.begin();
      ranks.emplace_back(static_cast<std::size_t>(known), word);
      begin = end + 1;
    }
    return ranks;
  };
  return rank(left) < rank(right);
}

// The mean over pairs by tensor.
std::map<std::string, double> means_of(const Field& field) {
  std::map<std::string, std::pair<double, int>> sums;
  for (const Record* record : field.records) {
    for (const auto& [tensor, residual] : record->residuals) {
      sums[tensor].first += residual;
      ++sums[tensor].second;
    }
  }
  std::map<std::string, double> means;
  for (const auto& [tensor, sum] : sums) means[tensor] = sum.first / sum.second;
  return means;
}

// Kinds of tensor down, layers across; what is in no layer spans them.
HeatMap map_of(const std::map<std::string, double>& residuals, double high) {
  HeatMap map;
  map.high = high;
  std::int64_t layers = 0;
  std::set<std::string, decltype(&kind_before)> kinds(kind_before), ends(kind_before);
  for (const auto& [tensor, residual] : residuals) {
    const Place place = place_of(tensor);
    layers = std::max(layers, place.layer + 1);
    (place.layer >= 0 ? kinds : ends).insert(place.kind);
  }
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    map.columns.push_back(fmt::format("{}", layer));
  }
  const auto add_ends = [&](bool embedding) {
    for (const std::string& tensor : ends) {
      if (tensor.starts_with("embed") != embedding) continue;
      map.rows.push_back(tensor);
      map.values.push_back({residuals.at(tensor)});
    }
  };
  add_ends(true);
  for (const std::string& kind : kinds) {
    map.rows.push_back(kind);
    auto& values = map.values.emplace_back();
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const auto found = residuals.find(fmt::format("layers.{}.{}", layer, kind));
      values.push_back(found == residuals.end() ? std::numeric_limits<double>::quiet_NaN()
                                                : found->second);
    }
  }
  add_ends(false);
  return map;
}

// The end of the scale that all maps of an experiment share.
double high_of(const ExperimentTable& experiment) {
  constexpr double kMost = 2;
  double high = 0;
  for (const Row& row : experiment.rows) {
    for (const Field& field : row.fields) {
      for (const auto& [tensor, residual] : means_of(field)) high = std::max(high, residual);
    }
  }
  return high > 0 ? std::min(high, kMost) : 1;
}

}  // namespace

bool has_residuals(const ExperimentTable& experiment) {
  for (const Row& row : experiment.rows) {
    for (const Field& field : row.fields) {
      if (!means_of(field).empty()) return true;
    }
  }
  return false;
}

void add_residuals(Html& html, const ExperimentTable& experiment, const std::string& id) {
  const double high = high_of(experiment);
  html.add(scale_key(0, high));
  for (std::size_t i = 0; i < experiment.scopes.size(); ++i) {
    Html within;
    for (const Row& row : experiment.rows) {
      if (row.scope != experiment.scopes[i]) continue;
      std::string maps;
      for (std::size_t j = 0; j < row.fields.size(); ++j) {
        const auto residuals = means_of(row.fields[j]);
        if (residuals.empty()) continue;
        HeatMap map = map_of(residuals, high);
        map.title = fmt::format("Residuals, {}", experiment.methods[j]);
        maps += fmt::format(
            "<figure><figcaption>{} <small>mean of {}</small></figcaption>{}</figure>\n",
            escaped(experiment.methods[j]), row.fields[j].n(), heat_map(map, Medium::page));
      }
      if (maps.empty()) continue;
      within.line("<h4>{}</h4><div class=\"tiles\">{}</div>", cell_name(experiment, row.cell),
                  maps);
    }
    if (within.text().empty()) continue;
    html.line("<details class=\"part\" id=\"{}-residuals-{}\"><summary>{}</summary>{}</details>",
              id, i, scope_words(experiment.scopes[i]), within.text());
  }
}

}  // namespace regauge::connect
