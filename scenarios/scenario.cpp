// The reader and writer of scenarios: one pass over the lines, each read with its origin
// ("ring.ini:28").
#include "scenarios/scenario.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "sim/base/did_you_mean.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/base/text_file.hpp"

namespace starling {
namespace {

constexpr std::size_t largest_file = std::size_t{16} << 20;
constexpr std::string_view unset = "default";  // in place of a value: as if the key stood nowhere

bool is_space(char c) { return c == ' ' || c == '\t'; }

/// Where a comment begins: at a '#' that is first or follows white space; npos if there is none. It
/// is asked for a line and again for its value, so no value begins with '#' and each can be written
/// back.
std::size_t find_comment(std::string_view line) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '#' && (i == 0 || is_space(line[i - 1]))) return i;
  }
  return line.npos;
}

bool is_name(std::string_view text, bool dots) {
  const auto is_allowed = [dots](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || (dots && c == '.');
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), is_allowed);
}

/// Adds `setting` to those of its section, or puts it into the place of the one with its key; or takes that away.
void set(std::vector<Setting>& settings, Setting setting) {
  const auto old = std::ranges::find(settings, setting.key, &Setting::key);
  if (setting.text == unset) {
    if (old != settings.end()) settings.erase(old);
  } else if (old == settings.end()) {
    settings.push_back(std::move(setting));
  } else {
    *old = std::move(setting);
  }
}

/// Splits "key = value"; the key is checked. `line` has no comment and no space around it.
std::pair<std::string_view, std::string_view> key_and_value(std::string_view line,
                                                            std::string_view origin,
                                                            std::string_view expected) {
  const std::size_t equals = line.find('=');
  if (equals == line.npos) {
    throw ScenarioError(fmt::format("{}: expected {}, got {}", origin, expected, excerpt(line)));
  }
  const std::string_view key = trim(line.substr(0, equals));
  const std::string_view value = trim(line.substr(equals + 1));
  if (key.empty()) {
    throw ScenarioError(
        fmt::format("{}: expected a key before the =, got {}", origin, excerpt(line)));
  }
  if (!is_name(key, /*dots=*/true)) {
    throw ScenarioError(fmt::format("{}: a key has only letters, digits, _, - and dots, got {}",
                                    origin, excerpt(key)));
  }
  return {key, value};
}

void check_size(std::size_t size, const std::string& name) {
  if (size <= largest_file) return;
  throw ScenarioError(fmt::format("{}: is larger than 16 MiB, expected a scenario", name));
}

/// What whoever named `path`, which is no file, may have meant; nothing if that is not there either.
std::string hint_for(const std::string& path) {
  std::error_code no_path;  // such as a name that is too long
  const std::filesystem::path inside = std::filesystem::path(path) / "scenario.ini";  // of a sweep
  for (const std::string& meant : {path + ".ini", inside.string()}) {
    if (std::filesystem::exists(meant, no_path))
      return fmt::format("; did you mean {}?", printable(meant));
  }
  return "";
}

std::string read_file(const std::string& path) {
  std::string text;
  try {
    text = read_whole_file(path, largest_file + 1);
  } catch (const Error& error) {
    throw Error(printable(error.what()) + hint_for(path));
  }
  check_size(text.size(), path);
  return text;
}

}  // namespace

Scenario Scenario::read(const std::string& path, const std::vector<std::string>& overrides) {
  return parse(read_file(path), path, overrides);
}

Scenario Scenario::parse(std::string_view text, std::string name,
                         const std::vector<std::string>& overrides, std::string place) {
  if (place.empty()) place = name;
  Scenario scenario(text, std::move(name), std::move(place), 0);
  for (const std::string& assignment : overrides) scenario.override_with(assignment);
  return scenario;
}

Scenario::Scenario(std::string_view text, std::string name, std::string place, int depth)
    : name_(std::move(name)), place_(std::move(place)), depth_(depth) {
  check_size(text.size(), place_);
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    read_line(line, fmt::format("{}:{}", place_, number));
  }
}

void Scenario::read_line(std::string_view line, const std::string& origin) {
  for (const char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\t') || byte == 0x7f) {
      throw ScenarioError(fmt::format(
          "{}: expected a text file, got the control character 0x{:02x}", origin, byte));
    }
  }
  line = trim(line.substr(0, find_comment(line)));
  if (line.empty()) return;
  if (line.front() == '[') return read_heading(line, origin);

  auto [key, value] = key_and_value(line, origin, "key = value or [section]");
  value = value.substr(0, find_comment(value));
  if (open_ == 0) {
    if (key == "include") return include(trim(value), origin);
    throw ScenarioError(fmt::format("{}: {} stands before the first [section]", origin, key));
  }
  if (key == "include") {
    throw ScenarioError(fmt::format("{}: include must stand before the first [section]", origin));
  }
  Entry& section = sections_[open_ - 1];
  const auto other = std::ranges::find(section.settings, key, &Setting::key);
  if (other != section.settings.end() && is_own(*other)) {
    throw ScenarioError(
        fmt::format("{}: {}.{} is already set at {}", origin, section.name, key, other->origin));
  }
  set(section.settings, {std::string(key), std::string(trim(value)), origin});
}

bool Scenario::is_own(const Setting& setting) const {
  return setting.origin.starts_with(place_ + ":");
}

void Scenario::include(std::string_view path, const std::string& origin) {
  constexpr int deepest = 8;
  if (depth_ == deepest)
    throw ScenarioError(fmt::format("{}: more than {} files include each other", origin, deepest));
  const std::filesystem::path here = std::filesystem::path(name_).parent_path();
  const std::string file = (here / path).string();
  std::string text;
  try {
    text = read_file(file);
  } catch (const Error& error) {
    throw ScenarioError(fmt::format("{}: cannot include: {}", origin, error.what()));
  }
  const Scenario other(text, file, file, depth_ + 1);
  for (const Entry& entry : other.sections_) {
    Entry* mine = find(entry.name);
    if (mine == nullptr) {
      sections_.push_back({entry.name, entry.origin, {}, true});
      mine = &sections_.back();
    }
    for (const Setting& setting : entry.settings) set(mine->settings, setting);
  }
}

void Scenario::read_heading(std::string_view line, const std::string& origin) {
  const std::string_view inside = line.substr(1, line.size() - 2);
  if (line.size() < 3 || line.back() != ']' || !is_name(trim(inside), /*dots=*/false)) {
    throw ScenarioError(
        fmt::format("{}: expected [section] with a name of letters, digits, _ and -, got {}",
                    origin, excerpt(line)));
  }
  const std::string name(trim(inside));
  Entry* other = find(name);
  if (other != nullptr && !other->is_included) {
    throw ScenarioError(
        fmt::format("{}: section [{}] already begins at {}", origin, name, other->origin));
  }
  if (other == nullptr) {
    sections_.push_back({name, origin, {}, false});
    other = &sections_.back();
  }
  other->is_included = false;
  other->origin = origin;
  open_ = static_cast<std::size_t>(other - sections_.data()) + 1;
}

void Scenario::override_with(std::string_view assignment, const std::string& origin) {
  const auto [path, value] = key_and_value(trim(assignment), origin, "section.key=value");
  const std::size_t dot = path.find('.');
  const std::string_view key = dot == path.npos ? std::string_view() : path.substr(dot + 1);
  if (dot == 0 || key.empty()) {
    throw ScenarioError(
        fmt::format("{}: expected section.key=value, got {}", origin, excerpt(assignment)));
  }
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\t'; };
  if (find_comment(value) != value.npos || std::any_of(value.begin(), value.end(), is_control)) {
    throw ScenarioError(fmt::format("{}: {} must be one line without a comment, got {}", origin,
                                    path, excerpt(value)));
  }

  const std::string_view name = path.substr(0, dot);
  if (!find(name) && value == unset) return;
  if (!find(name)) sections_.push_back({std::string(name), origin, {}, false});
  set(find(name)->settings, {std::string(key), std::string(value), origin});
}

Section Scenario::section(std::string_view name) const {
  const Entry* entry = find(name);
  // What is missing is missing in the file.
  const bool is_ours = entry != nullptr && entry->origin != command_line;
  const std::string nowhere =
      entry != nullptr ? place_ : fmt::format("{} has no section [{}]", place_, name);
  Section section(std::string(name), is_ours ? entry->origin : nowhere,
                  entry ? entry->settings : std::vector<Setting>());
  section.set_directory(std::filesystem::path(name_).parent_path().string());
  return section;
}

bool Scenario::has_section(std::string_view name) const { return find(name) != nullptr; }

std::vector<std::string> Scenario::section_names() const {
  std::vector<std::string> names;
  for (const Entry& section : sections_) names.push_back(section.name);
  return names;
}

std::optional<std::string> Scenario::text_of(std::string_view key) const {
  const std::size_t dot = key.find('.');
  const Entry* entry = dot == key.npos ? nullptr : find(key.substr(0, dot));
  if (entry == nullptr) return {};
  const auto setting = std::ranges::find(entry->settings, key.substr(dot + 1), &Setting::key);
  if (setting == entry->settings.end()) return {};
  return setting->text;
}

void Scenario::reject_unknown_sections(std::span<const std::string_view> known) const {
  for (const Entry& section : sections_) {
    if (std::find(known.begin(), known.end(), section.name) != known.end()) continue;
    throw ScenarioError(fmt::format(
        "{}: [{}] is not a section here; known sections: {}{}", section.origin, section.name,
        fmt::join(known, ", "),
        did_you_mean(section.name, std::vector<std::string>(known.begin(), known.end()))));
  }
}

std::string Scenario::to_text() const {
  std::string text;
  for (const Entry& section : sections_) {
    text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section.name);
    for (const Setting& setting : section.settings) {
      text += trim(fmt::format("{} = {}", setting.key, setting.text));
      text += '\n';
    }
  }
  return text;
}

std::string Scenario::to_text(std::span<const DescribedSection> sections) {
  std::string text;
  for (const DescribedSection& section : sections) {
    text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section.name);
    std::size_t width = 0;  // comments of a section stand in one column
    for (const KeyUse& key : section.keys) {
      width = std::max(width, std::min<std::size_t>(key.key.size() + 3 + key.value.size(), 40));
    }
    for (const KeyUse& key : section.keys) {
      const bool is_default = !key.required && key.value == key.fallback;
      std::string comment = is_default ? "default" : "";
      if (is_default && !key.help.empty()) comment += ": ";
      comment += key.help;
      std::replace(comment.begin(), comment.end(), '\n', ' ');
      text += trim(fmt::format("{:<{}}  {}{}", fmt::format("{} = {}", key.key, key.value), width,
                               comment.empty() ? "" : "# ", comment));
      text += '\n';
    }
  }
  return text;
}

Scenario::Entry* Scenario::find(std::string_view name) {
  return const_cast<Entry*>(std::as_const(*this).find(name));
}

const Scenario::Entry* Scenario::find(std::string_view name) const {
  const auto found = std::find_if(sections_.begin(), sections_.end(),
                                  [name](const Entry& section) { return section.name == name; });
  return found == sections_.end() ? nullptr : &*found;
}

std::string find_scenario(const std::string& name, const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code none;
  const fs::path there = fs::path(folder) / name;  // an absolute name stays
  const bool is_elsewhere = !folder.empty() && fs::current_path(none) != folder;
  if (!is_elsewhere || fs::exists(name, none) || !fs::exists(there.parent_path(), none))
    return name;
  return there.lexically_normal().string();
}

std::string first_other_line(const std::string& text, const std::string& other) {
  const auto next = [](std::istringstream& lines, std::string& line) {
    if (!std::getline(lines, line)) return false;
    line.resize(std::min(line.find(" #"), line.size()));
    line.resize(line.find_last_not_of(' ') + 1);
    return true;
  };
  std::istringstream lines(text), others(other);
  std::string line, other_line;
  while (next(lines, line)) {
    if (!next(others, other_line) || line != other_line) return line;
  }
  return "";
}

std::string quoted_other_line(const std::string& text, const std::string& other, char quote) {
  const std::string line = first_other_line(text, other);
  return line.empty() ? "nothing" : quote + line + quote;
}

}  // namespace starling
