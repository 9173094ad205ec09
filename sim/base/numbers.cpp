#include "sim/base/numbers.hpp"

#include <algorithm>

namespace starling {
namespace {

double read_number(const Section& section, std::string_view key, std::optional<double> fallback,
                   std::string_view help) {
  return fallback ? section.optional<double>(key, *fallback, help)
                  : section.required<double>(key, help);
}

}  // namespace

std::int64_t read_at_least(const Section& section, std::string_view key, std::int64_t fallback,
                           std::int64_t least, std::string_view help) {
  const auto value = section.optional<std::int64_t>(key, fallback, help);
  if (least == 0) {
    section.expect(value >= 0, key, "must not be negative, got {}", value);
  } else {
    section.expect(value >= least, key, "must be at least {}, got {}", least, value);
  }
  return value;
}

std::int64_t read_whole(const Section& section, std::string_view key, std::int64_t fallback,
                        std::int64_t low, std::int64_t high, std::string_view help) {
  const auto value = section.optional<std::int64_t>(key, fallback, help);
  section.expect_range(key, value, low, high);
  return std::max(low, std::min(value, high));  // in a probe, too
}

NodeId read_nodes(const Section& section, std::string_view key, NodeId nodes,
                  std::string_view help) {
  const auto value = section.optional<std::int64_t>(key, 0, help);
  section.expect(value >= 0 && value <= nodes, key,
                 "must be from 0 to the number of nodes, {}, got {}", nodes, value);
  return static_cast<NodeId>(value);
}

double read_positive(const Section& section, std::string_view key, std::optional<double> fallback,
                     std::string_view help) {
  const double value = read_number(section, key, fallback, help);
  section.expect(value > 0, key, "must be positive, got {}", value);
  return value;
}

double read_share_above_0(const Section& section, std::string_view key,
                          std::optional<double> fallback, std::string_view help) {
  const double value = read_number(section, key, fallback, help);
  section.expect(value > 0 && value <= 1, key, "must be in (0, 1], got {}", value);
  return value;
}

double read_not_negative(const Section& section, std::string_view key, double fallback,
                         std::string_view help) {
  const auto value = section.optional<double>(key, fallback, help);
  section.expect(value >= 0, key, "must not be negative, got {}", value);
  return value;
}

double read_between(const Section& section, std::string_view key, double fallback, double low,
                    double high, std::string_view help) {
  const auto value = section.optional<double>(key, fallback, help);
  section.expect_range(key, value, low, high);
  return value;
}

double read_share_below_1(const Section& section, std::string_view key, double fallback,
                          std::string_view help) {
  const auto share = section.optional<double>(key, fallback, help);
  section.expect(share >= 0 && share < 1, key, "must be in [0, 1), got {}", share);
  return share;
}

double read_share_inside(const Section& section, std::string_view key, double fallback,
                         std::string_view help) {
  const auto part = section.optional<double>(key, fallback, help);
  section.expect(part > 0 && part < 1, key, "must be above 0 and below 1, got {}", part);
  return part;
}

}  // namespace starling
