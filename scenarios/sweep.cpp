#include "scenarios/sweep.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace starling {
namespace {

constexpr std::size_t most_points = 1'000'000;
constexpr std::size_t longest_name = 120;
constexpr std::string_view range_mark = " .. ";  // with blanks, so that it is no part of a path

std::vector<std::string> trimmed_parts(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (const std::string_view part : split(text, separator)) parts.emplace_back(trim(part));
  return parts;
}

/// "160 ms": a number and its unit.
struct Quantity {
  double number;
  std::string unit;
};

Quantity read_quantity(const Setting& setting, std::string_view text) {
  text = trim(text);
  Quantity quantity{};
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), quantity.number);
  if (error != std::errc() || !std::isfinite(quantity.number)) {
    throw ScenarioError(fmt::format("{}: sweep.{} needs numbers at the ends of a range, got {}",
                                    setting.origin, setting.key, text));
  }
  quantity.unit = trim(text.substr(static_cast<std::size_t>(end - text.data())));
  return quantity;
}

/// The shortest text of a number without the last bits of rounding: 0.1 * 3 is 0.3. Of whole ones all digits.
std::string short_text(double number) {
  constexpr double exact = 0x1p53;
  const bool is_whole = std::fabs(number) < exact && number == std::trunc(number);
  return is_whole ? fmt::format("{:.0f}", number) : fmt::format("{:.12g}", number);
}

/// "a .. b", "a .. b step c", "a .. b times c".
std::vector<std::string> read_range(const Setting& setting, std::string_view text) {
  const auto refuse = [&setting](const std::string& what) {
    throw ScenarioError(fmt::format("{}: sweep.{} {}", setting.origin, setting.key, what));
  };
  const std::size_t dots = text.find(range_mark);
  const Quantity first = read_quantity(setting, text.substr(0, dots));
  std::string_view rest = text.substr(dots + range_mark.size());
  const std::size_t step_at = rest.find(" step ");
  const std::size_t times_at = rest.find(" times ");
  const bool is_geometric = times_at != rest.npos;
  const std::size_t end = std::min(step_at, times_at);
  const Quantity last = read_quantity(setting, rest.substr(0, end));
  Quantity change{1, ""};
  if (is_geometric) {
    change = read_quantity(setting, rest.substr(times_at + 7));
    if (!change.unit.empty()) refuse("needs a plain number after times");
    if (change.number <= 1 || first.number <= 0)
      refuse("needs a positive start and a factor above 1");
  } else if (step_at != rest.npos) {
    change = read_quantity(setting, rest.substr(step_at + 6));
    if (change.number <= 0) refuse("needs a positive step");
  }
  std::string unit;  // one for all: those without one take that of the others
  for (const std::string& own : {first.unit, last.unit, change.unit}) {
    if (own.empty()) continue;
    if (std::isalpha(static_cast<unsigned char>(own.front())) == 0)
      refuse(fmt::format(
          "needs ranges such as 1 .. 5, 0 .. 320 ms step 160 ms or 4 .. 64 times 2, got {}", text));
    if (!unit.empty() && own != unit) refuse("needs one unit throughout a range");
    unit = own;
  }
  if (last.number < first.number) refuse("needs a range that does not fall");

  std::vector<std::string> values;
  double slack = 1e-9 * (std::fabs(last.number) + std::fabs(change.number));
  if (!is_geometric) slack = std::min(slack, 0.5 * change.number);
  for (std::int64_t i = 0;; ++i) {
    const double factor = std::pow(change.number, static_cast<double>(i));
    const double number = is_geometric ? first.number * factor
                                       : first.number + static_cast<double>(i) * change.number;
    if (number > last.number + slack) {
      if (values.size() == 1 && last.number > first.number)
        refuse(fmt::format("needs a step that fits between {} and {}", first.number, last.number));
      return values;
    }
    if (values.size() == most_points)
      refuse(fmt::format("has a range of more than {} values", most_points));
    values.push_back(short_text(number) + (unit.empty() ? "" : " " + unit));
  }
}

std::vector<std::string> read_values(const Setting& setting) {
  const char separator = setting.text.find('|') == std::string::npos ? ',' : '|';
  std::vector<std::string> values;
  for (const std::string& item : trimmed_parts(setting.text, separator)) {
    if (item.empty()) {
      throw ScenarioError(
          fmt::format("{}: sweep.{} has an empty value", setting.origin, setting.key));
    }
    if (item.find(range_mark) == std::string::npos) {
      values.push_back(item);
      continue;
    }
    const std::vector<std::string> range = read_range(setting, item);
    values.insert(values.end(), range.begin(), range.end());
  }
  return values;
}

/// Keys whose values go along together, (keys, values), and where they stand.
struct Axis {
  std::vector<std::string> keys;
  std::vector<std::string> origins;
  std::vector<std::vector<std::string>> values;
  std::size_t size() const { return values.front().size(); }
};

/// Merges the axes that `zip` names into the place of the first of them.
void zip_axes(const Setting& zip, std::vector<Axis>& axes) {
  const auto refuse = [&zip](const std::string& what) {
    throw ScenarioError(fmt::format("{}: sweep.zip {}", zip.origin, what));
  };
  Axis* first = nullptr;
  std::string names = zip.text;
  std::ranges::replace(names, ',', ' ');
  for (const std::string& name : trimmed_parts(names, ' ')) {
    if (name.empty()) continue;
    const auto found = std::ranges::find_if(
        axes, [&name](const Axis& axis) { return std::ranges::count(axis.keys, name) > 0; });
    if (found == axes.end()) refuse(fmt::format("names {}, which has no list here", name));
    if (first == nullptr) {
      first = &*found;
      continue;
    }
    if (&*found == first) refuse(fmt::format("names {} twice", name));
    if (found->size() != first->size()) {
      refuse(fmt::format("needs lists of one length, but {} has {} values and {} has {}",
                         first->keys.front(), first->size(), name, found->size()));
    }
    first->keys.push_back(name);
    first->origins.push_back(found->origins.front());
    first->values.push_back(std::move(found->values.front()));
    found->keys.clear();  // taken
  }
  if (first == nullptr || first->keys.size() < 2) refuse("needs two keys or more");
  std::erase_if(axes, [](const Axis& axis) { return axis.keys.empty(); });
}

/// Two points that are the same would have one file.
void check_distinct(const Axis& axis) {
  std::set<std::vector<std::string>> seen;
  for (std::size_t i = 0; i < axis.size(); ++i) {
    std::vector<std::string> together;
    for (const auto& values : axis.values) together.push_back(values[i]);
    if (seen.insert(together).second) continue;
    throw ScenarioError(
        axis.keys.size() == 1
            ? fmt::format("{}: sweep.{} has a value twice", axis.origins.front(), axis.keys.front())
            : fmt::format("{}: sweep.zip has the same values twice: {}", axis.origins.front(),
                          fmt::join(together, ", ")));
  }
}

std::string last_part(const std::string& key) { return key.substr(key.find('.') + 1); }

std::string as_file_name(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == '_';
    if (is_plain) name += c;
    if (c == '/' || c == ',') name += '-';
  }
  return name;
}

/// FNV-1a, so that long names stay different.
std::uint32_t hash(std::string_view text) {
  std::uint32_t value = 2166136261U;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 16777619U;
  return value;
}

void name_points(Sweep& sweep) {
  std::vector<std::string> labels;
  for (const std::string& key : sweep.keys) {
    const auto is_alike = [&key](const std::string& other) {
      return last_part(other) == last_part(key);
    };
    labels.push_back(std::ranges::count_if(sweep.keys, is_alike) > 1 ? key : last_part(key));
  }
  std::set<std::string> taken;
  for (SweepPoint& point : sweep.points) {
    std::string exact;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      point.name +=
          (i > 0 ? "," : "") + as_file_name(labels[i]) + "=" + as_file_name(point.values[i]);
      exact += point.values[i] + '\n';
    }
    const bool is_long = point.name.size() > longest_name;
    if (is_long) point.name.resize(longest_name);
    point.is_cut = is_long || taken.count(point.name) > 0;
    if (point.is_cut) {
      const std::string beginning = point.name;
      std::uint32_t number = hash(exact);
      do point.name = fmt::format("{}-{:08x}", beginning, number++);
      while (taken.contains(point.name));  // two may have one hash
    }
    taken.insert(point.name);
  }
}

void append_repeats(const Setting& repeats, const Scenario& scenario, std::vector<Axis>& axes) {
  const auto refuse = [&repeats](const std::string& what) {
    throw ScenarioError(fmt::format("{}: sweep.repeats {}", repeats.origin, what));
  };
  const std::int64_t count = number_in<std::int64_t>(repeats.text).value_or(0);
  if (count < 1 || count > 100'000)
    refuse(fmt::format("must be from 1 to 100000, got {}", repeats.text));
  for (const Axis& axis : axes) {
    if (std::ranges::count(axis.keys, seed_key) > 0)
      refuse(fmt::format("cannot stand beside a list of {}", seed_key));
  }
  const Section run = scenario.section("run");
  const auto first = run.optional<std::int64_t>("seed", 1, "");
  if (first > std::numeric_limits<std::int64_t>::max() - count)
    refuse(fmt::format("needs {} seeds from run.seed on, which is too large for that, {}", count,
                       first));
  Axis axis{{std::string(seed_key)}, {repeats.origin}, {{}}};
  for (std::int64_t i = 0; i < count; ++i) axis.values[0].push_back(std::to_string(first + i));
  axes.push_back(std::move(axis));
}

/// Refuses a list whose values would change no run, or that would hide a setting of the command line.
void check_key(const Setting& list, const Scenario& scenario) {
  const std::size_t dot = list.key.find('.');
  const std::string section = list.key.substr(0, dot);
  if (dot == list.key.npos || section == "sweep") {
    throw ScenarioError(
        fmt::format("{}: sweep.{} must be section.key of another section, zip, repeats or target",
                    list.origin, list.key));
  }
  if (section == "reference" || list.key == "run.output") {
    throw ScenarioError(
        fmt::format("{}: sweep.{} would change no run: every point has a file of its own, and "
                    "references are for starling compare",
                    list.origin, list.key));
  }
  const Section settings = scenario.section(section);
  for (const Setting& setting : settings.settings()) {
    if (list.key == section + "." + setting.key && setting.origin == command_line) {
      throw ScenarioError(
          fmt::format("{}: {} has a list in [sweep], which would win; give the list, sweep.{}={}",
                      setting.origin, list.key, list.key, setting.text));
    }
  }
}

}  // namespace

std::vector<std::string> Sweep::overrides(const SweepPoint& point) const {
  std::vector<std::string> assignments;
  for (std::size_t i = 0; i < keys.size(); ++i)
    assignments.push_back(keys[i] + "=" + point.values[i]);
  return assignments;
}

std::string Sweep::describe(const SweepPoint& point) const {
  if (!point.is_cut) return point.name;
  return fmt::format("{} ({})", point.name, fmt::join(overrides(point), ", "));
}

Sweep read_sweep(const Scenario& scenario) {
  if (!scenario.has_section("sweep")) {
    throw ScenarioError(
        fmt::format("{}: has no [sweep] section that lists values for keys, as "
                    "\"algorithm.group_size = 2, 4, 8\"; on the command line that is "
                    "\"sweep.algorithm.group_size=2, 4, 8\"",
                    scenario.name()));
  }
  Sweep sweep;
  std::vector<Axis> axes;
  const Setting* zip = nullptr;
  const Setting* repeats = nullptr;
  const Section section = scenario.section("sweep");
  for (const Setting& setting : section.settings()) {
    if (setting.key == "zip") {
      zip = &setting;
    } else if (setting.key == "repeats") {
      repeats = &setting;
    } else if (setting.key == "target") {
      sweep.target_origin = setting.origin;
      sweep.target = read_target(setting.text, [&setting](const std::string& what) {
        throw ScenarioError(fmt::format("{}: sweep.target {}", setting.origin, what));
      });
    } else {
      check_key(setting, scenario);
      axes.push_back({{setting.key}, {setting.origin}, {read_values(setting)}});
    }
  }
  if (zip != nullptr) zip_axes(*zip, axes);
  for (const Axis& axis : axes) check_distinct(axis);
  if (repeats != nullptr) append_repeats(*repeats, scenario, axes);
  sweep.has_repeats = repeats != nullptr;

  std::size_t count = 1;
  for (const Axis& axis : axes) {
    sweep.keys.insert(sweep.keys.end(), axis.keys.begin(), axis.keys.end());
    sweep.origins.insert(sweep.origins.end(), axis.origins.begin(), axis.origins.end());
    count *= axis.size();
    if (count > most_points) {
      throw ScenarioError(
          fmt::format("{}: [sweep] has more than {} points", scenario.name(), most_points));
    }
  }
  if (sweep.keys.empty())
    throw ScenarioError(fmt::format("{}: [sweep] lists no values", scenario.name()));
  for (std::size_t index = 0; index < count; ++index) {
    SweepPoint& point = sweep.points.emplace_back();
    std::size_t left = count;
    for (const Axis& axis : axes) {
      left /= axis.size();
      for (const auto& values : axis.values)
        point.values.push_back(values[index / left % axis.size()]);
    }
  }
  name_points(sweep);
  return sweep;
}

}  // namespace starling
