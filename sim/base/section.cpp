// Reads typed values out of a section and remembers every read, which is all that errors about
// missing and unknown keys, `describe` and `list` need.
#include "sim/base/section.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <type_traits>

#include <fmt/format.h>

#include "sim/base/did_you_mean.hpp"
#include "sim/base/error.hpp"
#include "sim/base/exact_duration.hpp"
#include "sim/base/text.hpp"
#include "sim/base/unknown_key.hpp"

namespace starling {
namespace {

/// How a setting is shown in errors.
std::string or_nothing(const std::string& text) { return text.empty() ? "nothing" : text; }

/// The whole of `text` as a finite number.
std::optional<double> to_number(std::string_view text) {
  const auto number = number_in<double>(text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

/// The whole of `text` as an integer: plain digits, or another way to write a whole number ("1e6")
/// that a double holds exactly.
std::optional<std::int64_t> to_integer(std::string_view text) {
  if (const auto value = number_in<std::int64_t>(text)) return value;
  const std::optional<double> number = to_number(text);
  if (!number || *number != std::floor(*number) || std::abs(*number) > 0x1p53) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

/// How a type is named, written and read. `parse` throws std::invalid_argument: "must be ..., got
/// ...".
template <class T>
struct Kind;

template <>
struct Kind<double> {
  static constexpr const char* name = "number";
  static double sample() { return 1; }
  static std::string write(double value) { return fmt::format("{}", value); }
  static double parse(const std::string& text) {
    if (const auto value = to_number(text)) return *value;
    throw std::invalid_argument("must be a number, got " + or_nothing(text));
  }
};

template <>
struct Kind<std::int64_t> {
  static constexpr const char* name = "integer";
  static std::int64_t sample() { return 1; }
  static std::string write(std::int64_t value) { return fmt::format("{}", value); }
  static std::int64_t parse(const std::string& text) {
    if (const auto value = to_integer(text)) return *value;
    const std::optional<double> number = to_number(text);
    const bool is_too_large = number && *number == std::floor(*number);
    throw std::invalid_argument("must be an integer, got " + or_nothing(text) +
                                (is_too_large ? ", which is too large" : ""));
  }
};

template <>
struct Kind<bool> {
  static constexpr const char* name = "yes/no";
  static bool sample() { return false; }
  static std::string write(bool value) { return value ? "yes" : "no"; }
  static bool parse(const std::string& text) {
    if (text == "yes" || text == "true") return true;
    if (text == "no" || text == "false") return false;
    throw std::invalid_argument("must be yes or no, got " + or_nothing(text));
  }
};

template <>
struct Kind<std::string> {
  static constexpr const char* name = "text";
  static std::string sample() { return ""; }
  static std::string write(const std::string& value) { return value; }
  static std::string parse(const std::string& text) { return text; }
};

template <>
struct Kind<Duration> {
  static constexpr const char* name = "duration";
  static Duration sample() { return std::chrono::seconds(1); }
  static std::string write(Duration value) { return to_text(value); }
  static Duration parse(const std::string& text) { return parse_duration(text); }
};

template <>
struct Kind<ExactDuration> {
  static constexpr const char* name = Kind<Duration>::name;
  static ExactDuration sample() { return Kind<Duration>::sample(); }
  static std::string write(ExactDuration value) { return to_text(value); }
  static ExactDuration parse(const std::string& text) { return parse_exact_duration(text); }
};

template <>
struct Kind<Bytes> {
  static constexpr const char* name = "bytes";
  static Bytes sample() { return {.count = 1 << 20}; }
  static std::string write(Bytes value) { return to_text(value); }
  static Bytes parse(const std::string& text) { return parse_bytes(text); }
};

template <>
struct Kind<Bandwidth> {
  static constexpr const char* name = "bandwidth";
  static Bandwidth sample() { return {.bytes_per_second = 1.25e9}; }
  static std::string write(Bandwidth value) { return to_text(value); }
  static Bandwidth parse(const std::string& text) { return parse_bandwidth(text); }
};

template <>
struct Kind<std::vector<double>> {
  static constexpr const char* name = "numbers";
  static std::string write(const std::vector<double>& values) {
    return fmt::format("{}", fmt::join(values, ", "));
  }
  static std::vector<double> parse(const std::string& text) {
    std::vector<double> values;
    std::string_view rest = text;
    while (!rest.empty()) {
      const std::size_t comma = rest.find(',');
      const std::string_view item = trim(rest.substr(0, comma));
      const std::optional<double> value = to_number(item);
      if (!value || (comma != rest.npos && comma + 1 == rest.size())) {
        throw std::invalid_argument("must be numbers separated by commas, got " + text);
      }
      values.push_back(*value);
      rest = comma == rest.npos ? std::string_view() : rest.substr(comma + 1);
    }
    return values;
  }
};

/// Where a list belongs, if `text` lists several of what `is_value` takes; else nothing.
template <class Predicate>
std::string where_lists_belong(std::string_view text, Predicate is_value) {
  const std::vector<std::string_view> parts = split(text, ',');
  const bool is_list = parts.size() > 1 && std::ranges::all_of(parts, is_value, trim);
  return is_list ? "; a list of values to try belongs in [sweep]" : "";
}

/// Whether `text` is a T.
template <class T>
bool is_a(std::string_view text) {
  try {
    Kind<T>::parse(std::string(text));
    return !text.empty();
  } catch (const std::invalid_argument&) {
    return false;
  }
}

/// The setting as a T; a located error if it is none.
template <class T>
T parse(const Section& section, const Setting& setting) {
  try {
    return Kind<T>::parse(setting.text);
  } catch (const std::invalid_argument& error) {
    section.fail(setting.key, "{}{}", error.what(), where_lists_belong(setting.text, is_a<T>));
  }
}

}  // namespace

Section::Section(std::string name, std::string origin, std::vector<Setting> settings)
    : name_(std::move(name)), origin_(std::move(origin)), settings_(std::move(settings)) {}

Section Section::probe(std::string name, std::vector<Setting> settings) {
  Section section(std::move(name), "probe", std::move(settings));
  section.is_probe_ = true;
  return section;
}

bool Section::has(std::string_view key) const { return find(key) != nullptr; }

template <class T>
T Section::required(std::string_view key, std::string_view help) const {
  const Setting* setting = note(key, Kind<T>::name, std::nullopt, help);
  if constexpr (std::is_same_v<T, std::string>) {  // it names something, mostly a file
    if (setting && setting->text.empty()) fail(key, "must not be empty");
  }
  return setting ? parse<T>(*this, *setting) : Kind<T>::sample();
}

template <class T>
T Section::optional(std::string_view key, T fallback, std::string_view help) const {
  const Setting* setting = note(key, Kind<T>::name, Kind<T>::write(fallback), help);
  return setting ? parse<T>(*this, *setting) : fallback;
}

template <class T>
T Section::peek(std::string_view key, T fallback) const {
  const Setting* setting = find(key, Kind<T>::write(fallback));
  return setting ? parse<T>(*this, *setting) : fallback;
}

#define STARLING_SECTION_TYPE(T)                                                                  \
  template T Section::required<T>(std::string_view key, std::string_view help) const;             \
  template T Section::optional<T>(std::string_view key, T fallback, std::string_view help) const; \
  template T Section::peek<T>(std::string_view key, T fallback) const;
STARLING_SECTION_TYPE(double)
STARLING_SECTION_TYPE(std::int64_t)
STARLING_SECTION_TYPE(bool)
STARLING_SECTION_TYPE(std::string)
STARLING_SECTION_TYPE(Duration)
STARLING_SECTION_TYPE(ExactDuration)
STARLING_SECTION_TYPE(Bytes)
STARLING_SECTION_TYPE(Bandwidth)
#undef STARLING_SECTION_TYPE

std::vector<std::string> KeyUse::options() const {
  std::vector<std::string> options;
  if (type.find('|') == type.npos) return options;
  std::istringstream words(type);
  for (std::string word; std::getline(words, word, '|');) options.push_back(word);
  return options;
}

std::string Section::choice(std::string_view key, std::vector<std::string> options,
                            std::string_view fallback, std::string_view help,
                            const std::vector<std::string>& summaries) const {
  const std::string type = fmt::format("{}", fmt::join(options, "|"));
  const bool is_required = fallback.empty();
  const Setting* setting =
      note(key, type, is_required ? std::nullopt : std::optional(std::string(fallback)), help);
  if (!setting) return is_required ? options.at(0) : std::string(fallback);
  const auto is_option = [&](std::string_view text) {
    return std::ranges::find(options, text) != options.end();
  };
  if (!is_option(setting->text)) {
    const std::string list = where_lists_belong(setting->text, is_option);
    fail(key, "must be one of {}, got {}{}", fmt::join(options, ", "), or_nothing(setting->text),
         list.empty() ? did_you_mean(setting->text, options, summaries) : list);
  }
  return setting->text;
}

std::vector<double> Section::numbers(std::string_view key, std::vector<double> fallback,
                                     std::string_view help) const {
  using Numbers = Kind<std::vector<double>>;
  const Setting* setting = note(key, Numbers::name, Numbers::write(fallback), help);
  if (setting) return parse<std::vector<double>>(*this, *setting);
  return fallback;
}

void Section::finish() const {
  if (is_probe_) throw ProbeFinished();
  std::vector<Setting> unread;
  std::ranges::copy_if(settings_, std::back_inserter(unread),
                       [this](const Setting& setting) { return !is_read(setting.key); });
  if (!unread.empty()) {
    const Setting& first = unread.front();
    std::vector<std::string> known;
    for (const KeyUse& use : uses_) known.push_back(use.key);
    throw UnknownKey(
        fmt::format("{}: {}.{} is not a key here; known keys: {}{}", first.origin, name_, first.key,
                    fmt::join(known, ", "), did_you_mean(first.key, known)),
        unread);
  }
  is_finished_ = true;
}

bool Section::reads_other(std::string_view section) const {
  return std::ranges::find(others_, section) != others_.end();
}

std::string Section::resolve_path(const std::string& path) const {
  if (path.empty()) return path;
  files_.push_back((std::filesystem::path(directory_) / path).string());  // an absolute path stays
  return files_.back();
}

const Setting* Section::find(std::string_view key) const {
  const auto found = std::find_if(settings_.begin(), settings_.end(),
                                  [key](const Setting& setting) { return setting.key == key; });
  return found == settings_.end() ? nullptr : &*found;
}

const Setting* Section::find(std::string_view key, std::string_view fallback) const {
  const Setting* setting = find(key);
  return setting && fallback.empty() && setting->text == "none" ? nullptr : setting;
}

bool Section::is_read(std::string_view key) const {
  return std::any_of(uses_.begin(), uses_.end(),
                     [key](const KeyUse& use) { return use.key == key; });
}

const Setting* Section::note(std::string_view key, std::string_view type,
                             const std::optional<std::string>& fallback,
                             std::string_view help) const {
  const Setting* setting = fallback ? find(key, *fallback) : find(key);
  if (!is_read(key)) {
    ensure(!is_finished_, "a key that is read after finish()");
    uses_.push_back({.key = std::string(key),
                     .type = std::string(type),
                     .fallback = fallback.value_or(""),
                     .help = std::string(help),
                     .value = setting ? setting->text : fallback.value_or(""),
                     .required = !fallback});
  }
  if (setting || fallback || is_probe_) return setting;

  std::vector<std::string> unread;
  for (const Setting& other : settings_) {
    if (!is_read(other.key)) unread.push_back(other.key);
  }
  const std::string hint =
      unread.empty() ? "" : fmt::format(" (not read so far: {})", fmt::join(unread, ", "));
  throw ScenarioError(fmt::format("{}: {}.{} is missing{}", origin_, name_, key, hint));
}

std::string Section::located(std::string_view key, const std::string& message) const {
  const Setting* setting = find(key);
  std::string text =
      fmt::format("{}: {}.{} {}", setting ? setting->origin : origin_, name_, key, message);
  if (setting && setting->origin.find(".h5/scenario:") != std::string::npos) {
    text += fmt::format(
        "; if that was a default, which results files spell out, {}.{}=default takes it back",
        name_, key);
  }
  return text;
}

void Section::fail_with(std::string_view key, const std::string& message) const {
  if (is_probe_) throw ProbeFinished();
  throw ScenarioError(located(key, message));
}

}  // namespace starling
