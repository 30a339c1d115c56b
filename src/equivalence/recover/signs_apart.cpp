#include "signs_apart.h"

namespace regauge {

std::vector<std::string> signs_of_convolutions(const Architecture& architecture,
                                               const Parameters<double>& a,
                                               const Parameters<double>& b) {
  std::vector<std::string> notes;
  const auto note = [&](const std::string& name) {
    notes.push_back(name + " has other signs, which is not looked for");
  };
  const std::string length = "embed.positional.length";
  if (architecture.has_positional() && (a.at(length).array() * b.at(length).array() < 0).any()) {
    note(length);
  }
  if (architecture.convolution_norm != ConvolutionNorm::layer) return notes;
  for (std::size_t i = 0; i < architecture.convolutions.size(); ++i) {
    // The sum does not see where the channels stand.
    const std::string gain = architecture.convolution(i) + ".norm.gain";
    if (a.contains(gain) && a.at(gain).sum() * b.at(gain).sum() < 0) note(gain);
  }
  return notes;
}

}  // namespace regauge
