// A factor that may depend on the size of a message, as scenarios write it:
//
//   latency_factor = 13.01
//   latency_factor = 0 B: 2.01467, 257 B: 1.95341, 64 KiB: 11.6436
//
// In a table a factor holds for messages of more bytes than it says, up to the size of the next one (SimGrid's rule); the
// first one for those of none, too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/section.hpp"

namespace starling::network_models {

struct SizeFactor {
  struct Step {
    std::int64_t above;  // bytes
    double factor;
  };

  SizeFactor(double factor) : common(factor) {}
  explicit SizeFactor(std::vector<Step> table) : steps(std::move(table)) {}

  /// What the size of a message adds to `common`, as a factor: 1 without a table.
  double of(std::int64_t bytes) const { return steps.empty() ? 1 : step_of(bytes).factor; }
  const Step& step_of(std::int64_t bytes) const;

  double common = 1;        // of all messages
  std::vector<Step> steps;  // by size; empty: none depends on it
};

/// Throws std::invalid_argument unless `text` is a number above 0 and up to `most`.
double parse_factor(const std::string& text, double most);

/// Reads `key`: one number above 0 and up to `most`, or a table of numbers above 0 and up to 1000.
SizeFactor read_size_factor(const Section& section, std::string_view key, double fallback,
                            double most, std::string_view help);

}  // namespace starling::network_models
