// Keys that several workloads read alike.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/base/numbers.hpp"
#include "sim/base/section.hpp"

namespace starling {

/// The key `batch_size` of a workload that draws samples.
inline std::int64_t read_batch_size(const Section& section) {
  return read_whole(section, "batch_size", 16, 1, 1 << 20,
                    "samples of one gradient; a node with fewer draws some of them more than once");
}

/// How many samples a workload makes for itself, and of what size.
struct MadeSamples {
  std::size_t features, samples, test_samples;
};

/// The keys `features`, `samples` and `test_samples`.
inline MadeSamples read_made_samples(const Section& section) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  const auto read = [&](const char* key, std::int64_t fallback, std::int64_t limit,
                        const char* help) {
    return static_cast<std::size_t>(read_whole(section, key, fallback, 1, limit, help));
  };
  MadeSamples made{};
  made.features = read("features", 16, 1 << 20, "numbers of one sample");
  made.samples = read("samples", 2000, most, "training samples, over all nodes");
  made.test_samples = read("test_samples", 500, most, "held-out samples");
  return made;
}

/// The key `initialization` of a classifier: whether its first model is drawn uniformly.
inline bool read_is_uniform(const Section& section) {
  return section.choice("initialization", {"normal", "uniform"}, "normal",
                        "weights of the first model: normal (He, Glorot), or uniform like "
                        "PyTorch's") == "uniform";
}

/// The key `hidden`: widths of the hidden layers. Wider ones than any machine holds are refused with the reason.
inline std::vector<std::size_t> read_hidden(const Section& section,
                                            const std::vector<double>& fallback, const char* help) {
  constexpr double widest = 1 << 20;
  std::vector<std::size_t> hidden;
  for (const double width : section.numbers("hidden", fallback, help)) {
    section.expect(width >= 1 && width == std::floor(width), "hidden",
                   "must be whole numbers from 1 to {}, got {}", widest, width);
    section.expect(
        width <= widest, "hidden",
        "must be whole numbers from 1 to {}, got {}: the weights between two such layers "
        "would take {} * {} * 4 B = {:.3g} GiB",
        widest, width, width, width, 4 * width * width / (1 << 30));
    hidden.push_back(static_cast<std::size_t>(std::clamp(width, 1.0, widest)));  // in a probe, too
  }
  return hidden;
}

}  // namespace starling
