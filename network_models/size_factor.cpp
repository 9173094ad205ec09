#include "network_models/size_factor.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include <fmt/core.h>

#include "network_models/overrides.hpp"
#include "sim/base/text.hpp"

namespace starling::network_models {

double parse_factor(const std::string& text, double most) {
  const double factor = number_in<double>(text).value_or(0);
  if (!(factor > 0 && factor <= most)) {
    throw std::invalid_argument(
        fmt::format("must be factors above 0 and up to {}, got \"{}\"", most, text));
  }
  return factor;
}

const SizeFactor::Step& SizeFactor::step_of(std::int64_t bytes) const {
  const auto next = std::ranges::lower_bound(steps, bytes, {}, &Step::above);
  return next == steps.begin() ? *next : *std::prev(next);
}

SizeFactor read_size_factor(const Section& section, std::string_view key, double fallback,
                            double most, std::string_view help) {
  const bool is_table = std::ranges::any_of(section.settings(), [&](const Setting& setting) {
    return setting.key == key && setting.text.find(':') != std::string::npos;
  });
  if (!is_table) {
    const auto factor = section.optional<double>(key, fallback, help);
    section.expect(factor > 0, key, "must be positive, got {}", factor);
    section.expect(factor <= most, key, "must be at most {}, got {}", most, factor);
    return factor;
  }
  std::vector<SizeFactor::Step> steps;
  for (const auto& [size, factor] : read_pairs(section, key, help)) {
    const std::int64_t above = parse_value(section, key, size, parse_bytes).count;
    section.expect(steps.empty() ? above == 0 : above > steps.back().above, key,
                   "must have sizes that begin with 0 B and grow, got {}", size);
    const auto parse = [](const std::string& text) { return parse_factor(text, 1000); };
    steps.push_back({above, parse_value(section, key, factor, parse)});
  }
  return SizeFactor(std::move(steps));
}

}  // namespace starling::network_models
