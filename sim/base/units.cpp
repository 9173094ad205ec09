// Reads and writes dimensioned values. Decimal numbers are converted in integers where they fit, so
// that every whole count of picoseconds or bytes survives being written and read; anything else
// goes through double.
#include "sim/base/units.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "sim/base/exact_duration.hpp"

namespace starling {
namespace {

__extension__ using Int128 = __int128;

struct Unit {
  std::string_view name;
  std::int64_t factor;
};

constexpr std::int64_t picoseconds_per_second = 1'000'000'000'000;

// Largest first, the order in which to_text tries them; hours and minutes are read but never
// written.
constexpr Unit duration_units[] = {{"s", picoseconds_per_second},
                                   {"ms", 1'000'000'000},
                                   {"us", 1'000'000},
                                   {"ns", 1'000},
                                   {"ps", 1},
                                   {"min", 60 * picoseconds_per_second},
                                   {"h", 3600 * picoseconds_per_second}};

constexpr Unit byte_units[] = {{"TB", 1'000'000'000'000},
                               {"GB", 1'000'000'000},
                               {"MB", 1'000'000},
                               {"kB", 1'000},
                               {"TiB", std::int64_t{1} << 40},
                               {"GiB", std::int64_t{1} << 30},
                               {"MiB", std::int64_t{1} << 20},
                               {"KiB", std::int64_t{1} << 10},
                               {"B", 1}};

/// In bits per second; bytes count eight.
constexpr Unit bandwidth_units[] = {{"Tbit/s", 1'000'000'000'000},
                                    {"Gbit/s", 1'000'000'000},
                                    {"Mbit/s", 1'000'000},
                                    {"kbit/s", 1'000},
                                    {"bit/s", 1},
                                    {"TB/s", 8'000'000'000'000},
                                    {"GB/s", 8'000'000'000},
                                    {"MB/s", 8'000'000},
                                    {"kB/s", 8'000},
                                    {"TiB/s", std::int64_t{8} << 40},
                                    {"GiB/s", std::int64_t{8} << 30},
                                    {"MiB/s", std::int64_t{8} << 20},
                                    {"KiB/s", std::int64_t{8} << 10},
                                    {"B/s", 8}};

/// What a parser accepts: for its errors.
struct UnitKind {
  std::string_view what;
  std::span<const Unit> units;
};

constexpr UnitKind duration_kind = {"a duration such as 1.5 ms", duration_units};
constexpr UnitKind bytes_kind = {"a number of bytes such as 64 MiB", byte_units};
constexpr UnitKind bandwidth_kind = {"a bandwidth such as 10 Gbit/s", bandwidth_units};

constexpr std::string_view past_end = ", which is past the end of the clock (106 days)";

[[noreturn]] void refuse(const UnitKind& kind, std::string_view text, std::string_view reason) {
  std::string units;
  for (const Unit& unit : kind.units) {
    if (!units.empty()) units += ", ";
    units += unit.name;
  }
  throw std::invalid_argument(
      fmt::format("must be {} (units: {}), got \"{}\"{}", kind.what, units, text, reason));
}

/// ", did you mean Gbit/s?" of Gbps and Gb/s; nothing where no unit is near.
std::string usual_name(const UnitKind& kind, std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> endings[] = {
      {"bps", "bit/s"}, {"b/s", "bit/s"}, {"Bps", "B/s"}};
  for (const auto& [theirs, ours] : endings) {
    if (!name.ends_with(theirs)) continue;
    const std::string other =
        fmt::format("{}{}", name.substr(0, name.size() - theirs.size()), ours);
    if (std::ranges::find(kind.units, other, &Unit::name) != kind.units.end())
      return fmt::format(", did you mean {}?", other);
  }
  return "";
}

struct Quantity {
  std::string_view number;
  double value;
  std::int64_t factor;
};

/// Splits "1.5 ms" into number and unit, and checks both.
Quantity parse_quantity(std::string_view text, const UnitKind& kind) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) refuse(kind, text, "");
  if (std::signbit(value)) refuse(kind, text, ", which is negative");

  const std::string_view number(text.data(), static_cast<std::size_t>(rest - text.data()));
  std::string_view name = text.substr(number.size());
  while (!name.empty() && (name.front() == ' ' || name.front() == '\t')) name.remove_prefix(1);
  if (name.empty()) refuse(kind, text, " without a unit");
  for (const Unit& unit : kind.units) {
    if (unit.name == name) return {number, value, unit.factor};
  }
  refuse(kind, text, usual_name(kind, name));
}

struct Fraction {
  Int128 numerator;
  Int128 divisor;
};

/// number * factor, for decimals of up to 19 digits without an exponent.
std::optional<Fraction> exact(const Quantity& quantity) {
  Int128 digits = 0;
  Int128 divisor = 1;
  bool in_fraction = false;
  for (const char c : quantity.number) {
    if (c == '.') {
      in_fraction = true;
    } else if (c >= '0' && c <= '9' && digits < Int128{1'000'000'000'000'000'000} &&
               divisor < Int128{1'000'000'000'000'000'000}) {
      digits = digits * 10 + (c - '0');
      if (in_fraction) divisor *= 10;
    } else {  // an exponent or very many digits
      return std::nullopt;
    }
  }
  return Fraction{digits * quantity.factor, divisor};
}

double rounded(const Quantity& quantity) {
  return quantity.value * static_cast<double>(quantity.factor);
}

/// number * factor to the nearest whole number; exact where exact() is. Nothing if the result does not
/// fit.
std::optional<std::int64_t> scale(const Quantity& quantity) {
  const std::optional<Fraction> fraction = exact(quantity);
  if (!fraction) {
    const double product = std::nearbyint(rounded(quantity));
    if (!(product < 0x1p63)) return std::nullopt;
    return static_cast<std::int64_t>(product);
  }
  const Int128 scaled = (fraction->numerator + fraction->divisor / 2) / fraction->divisor;
  if (scaled > std::numeric_limits<std::int64_t>::max()) return std::nullopt;
  return static_cast<std::int64_t>(scaled);
}

/// `count` in units of `factor`, a power of ten.
std::string decimal(std::int64_t count, std::int64_t factor) {
  return exact_decimal(count, static_cast<int>(std::to_string(factor).size()) - 1);
}

}  // namespace

std::string exact_decimal(std::int64_t count, int digits) {
  std::string text = fmt::format("{:0{}}", count, digits + (count < 0 ? 2 : 1));
  const std::size_t point = text.size() - static_cast<std::size_t>(digits);
  text.insert(point, 1, '.');
  text.erase(std::max(text.find_last_not_of('0') + 1, point));
  if (text.back() == '.') text.pop_back();
  return text;
}

Duration parse_duration(std::string_view text) {
  const Quantity quantity = parse_quantity(text, duration_kind);
  const std::optional<std::int64_t> count = scale(quantity);
  if (!count) refuse(duration_kind, text, past_end);
  // A key that means something else by 0 ("never") would mean that.
  if (*count == 0 && quantity.value > 0) refuse(duration_kind, text, ", which rounds to 0 ps");
  return Duration(*count);
}

ExactDuration parse_exact_duration(std::string_view text) {
  const Quantity quantity = parse_quantity(text, duration_kind);
  const std::optional<Fraction> fraction = exact(quantity);
  const double count =
      fraction ? static_cast<double>(fraction->numerator) / static_cast<double>(fraction->divisor)
               : rounded(quantity);
  if (!(count < 0x1p63)) refuse(duration_kind, text, past_end);
  return ExactDuration(count);
}

Bytes parse_bytes(std::string_view text) {
  const Quantity quantity = parse_quantity(text, bytes_kind);
  const std::optional<std::int64_t> count = scale(quantity);
  if (!count) refuse(bytes_kind, text, ", which is more than 64 bits hold");
  if (*count == 0 && quantity.value > 0) refuse(bytes_kind, text, ", which rounds to 0 B");
  return Bytes{*count};
}

Bandwidth parse_bandwidth(std::string_view text) {
  const Quantity quantity = parse_quantity(text, bandwidth_kind);
  // The factor over eight is a power of two or a decimal, exact in double, so this rounds once.
  const double bytes = quantity.value * (static_cast<double>(quantity.factor) / 8);
  if (!(bytes > 0 && std::isfinite(bytes))) {
    refuse(bandwidth_kind, text, ", which is not positive and finite");
  }
  return Bandwidth{bytes};
}

std::string to_text(Duration duration) {
  const std::int64_t count = duration.count();
  if (count < 0) {  // only in messages; no parser takes it back
    if (count == std::numeric_limits<std::int64_t>::min()) return fmt::format("{} ps", count);
    return "-" + to_text(-duration);
  }
  if (count == 0) return "0 s";
  for (const Unit& unit : duration_units) {
    if (count >= unit.factor) return fmt::format("{} {}", decimal(count, unit.factor), unit.name);
  }
  return fmt::format("{} ps", count);
}

std::string to_text(ExactDuration duration) {
  const double count = duration.count();
  if (count < 0x1p63 && count == std::floor(count))
    return to_text(Duration(static_cast<std::int64_t>(count)));
  return fmt::format("{} ps", count);
}

std::string to_text(Bytes bytes) {
  std::string shortest = fmt::format("{} B", bytes.count);
  if (bytes.count <= 0) return shortest;
  for (const Unit& unit : byte_units) {
    const bool is_decimal = unit.name.size() == 2;
    if (bytes.count < unit.factor || (!is_decimal && bytes.count % unit.factor != 0)) continue;
    const std::string number = is_decimal ? decimal(bytes.count, unit.factor)
                                          : fmt::format("{}", bytes.count / unit.factor);
    const std::string text = fmt::format("{} {}", number, unit.name);
    if (text.size() < shortest.size()) shortest = text;
  }
  return shortest;
}

std::string to_text(Bandwidth bandwidth) {
  const double bytes = bandwidth.bytes_per_second;
  // Networks are quoted in bits. Scaling rounds, so a unit is taken only if it scales back to the
  // same value.
  for (const Unit& unit : std::span(bandwidth_units).first(5)) {
    const double factor = static_cast<double>(unit.factor) / 8;
    const double scaled = bytes / factor;
    if (scaled >= 1 && scaled * factor == bytes) return fmt::format("{} {}", scaled, unit.name);
  }
  return fmt::format("{} B/s", bytes);
}

}  // namespace starling
