// Numbers within bounds: each function reads one key, and refuses what is out of bounds. Without a `fallback` the key is required.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/base/section.hpp"
#include "sim/base/types.hpp"

namespace starling {

/// The least of the numbers that become floats and must stay above 0: smaller floats have few digits, or are 0.
inline constexpr double least_float = 1e-37;
/// The largest of them: larger ones are infinite as floats.
inline constexpr double largest_float = 3.4e38;
/// The largest of those that data are made with: sums and products with what is drawn are finite as floats.
inline constexpr double largest_scale = 1e30;

/// A whole number of `least` or more.
std::int64_t read_at_least(const Section& section, std::string_view key, std::int64_t fallback,
                           std::int64_t least, std::string_view help);
/// A whole number from `low` to `high`.
std::int64_t read_whole(const Section& section, std::string_view key, std::int64_t fallback,
                        std::int64_t low, std::int64_t high, std::string_view help);
/// How many of all `nodes`; 0 if not given.
NodeId read_nodes(const Section& section, std::string_view key, NodeId nodes,
                  std::string_view help);

/// A number above 0.
double read_positive(const Section& section, std::string_view key, std::optional<double> fallback,
                     std::string_view help);
/// A number in (0, 1], such as the share of something that is sent.
double read_share_above_0(const Section& section, std::string_view key,
                          std::optional<double> fallback, std::string_view help);
/// A number of 0 or more.
double read_not_negative(const Section& section, std::string_view key, double fallback,
                         std::string_view help);
/// A number in [low, high].
double read_between(const Section& section, std::string_view key, double fallback, double low,
                    double high, std::string_view help);
/// A number in [0, 1), such as the share of something old that is kept.
double read_share_below_1(const Section& section, std::string_view key, double fallback,
                          std::string_view help);
/// A number in (0, 1), such as the share of something that is taken away.
double read_share_inside(const Section& section, std::string_view key, double fallback,
                         std::string_view help);

}  // namespace starling
