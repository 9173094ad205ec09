// A typed view of one [section] of a scenario. Whoever builds a part reads its keys here, each with a sentence
// of help, and calls finish(); so a mistyped key is an error with file and line, `starling describe` can print
// every default filled in, and `starling list` can show the keys of every component without building it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/base/time.hpp"
#include "sim/base/units.hpp"

namespace starling {

/// A value as it was written; `origin` says where: "ring.ini:28" or "command line".
struct Setting {
  std::string key;
  std::string text;
  std::string origin;
};

/// One key that was read: what `describe` and `list` print.
struct KeyUse {
  std::string key;
  // "number", "integer", "duration", "bytes", "bandwidth", "text", "yes/no", "a|b|c"
  std::string type;
  std::string fallback;  // default as text; empty if required
  std::string help;      // one sentence
  std::string value;     // in effect, as text
  bool required = false;

  /// The words that a choice is one of; none of another type.
  std::vector<std::string> options() const;
};

/// A word that a choice offers, and what it stands for.
template <class T>
struct Option {
  std::string_view word;
  T value;
};

/// Thrown by finish() (and by fail()) of a probe; see Section::probe.
struct ProbeFinished {};

class Section {
 public:
  /// `origin` locates the section itself ("ring.ini:14"), for keys that are missing.
  Section(std::string name, std::string origin, std::vector<Setting> settings);

  /// A section without settings whose required keys answer with sample values and whose finish() throws
  /// ProbeFinished: a maker called with it reports its keys and builds nothing. `settings` may fix some keys.
  /// Sample values need not make sense, so expect() lets everything pass and fail() ends the probe.
  static Section probe(std::string name, std::vector<Setting> settings = {});

  const std::string& name() const { return name_; }
  bool has(std::string_view key) const;

  /// Value of a key that must be there. T: double, std::int64_t, bool, std::string, Duration,
  /// ExactDuration, Bytes, Bandwidth.
  /// Throws ScenarioError if it is missing (naming the keys nobody read) or not a T.
  template <class T>
  T required(std::string_view key, std::string_view help) const;

  /// Value of a key, or `fallback`. Where that is empty, and so shown as "none", a value of "none" stands for it.
  template <class T>
  T optional(std::string_view key, T fallback, std::string_view help) const;

  /// The same without noting the key, for those who look at a key that another reads: its help and its default are that one's.
  template <class T>
  T peek(std::string_view key, T fallback) const;

  /// One of `options`, or `fallback`; an empty `fallback` makes the key required. `summaries` of the options, if given, serve hints.
  std::string choice(std::string_view key, std::vector<std::string> options,
                     std::string_view fallback, std::string_view help,
                     const std::vector<std::string>& summaries = {}) const;

  /// The same, for what the word stands for.
  template <class T>
  T choice(std::string_view key, const std::vector<Option<T>>& options, std::string_view fallback,
           std::string_view help) const {
    std::vector<std::string> words;
    for (const Option<T>& option : options) words.emplace_back(option.word);
    const std::string word = choice(key, std::move(words), fallback, help);
    const auto found = std::ranges::find(options, word, &Option<T>::word);
    ensure(found != options.end(), "a fallback that is no option");
    return found->value;
  }

  /// Comma-separated list of numbers, or `fallback`.
  std::vector<double> numbers(std::string_view key, std::vector<double> fallback,
                              std::string_view help) const;

  /// Throws ScenarioError: "ring.ini:28: algorithm.learning_rate must be positive, got -1".
  template <class... Args>
  [[noreturn]] void fail(std::string_view key, fmt::format_string<Args...> format,
                         Args&&... args) const {
    fail_with(key, fmt::format(format, std::forward<Args>(args)...));
  }

  /// fail() unless `condition` (never in a probe); the usual one-line check of a setting.
  template <class... Args>
  void expect(bool condition, std::string_view key, fmt::format_string<Args...> format,
              Args&&... args) const {
    if (!condition && !is_probe_) fail_with(key, fmt::format(format, std::forward<Args>(args)...));
  }

  /// expect() of a number that has a least and a greatest value: "must be from 0 to 1, got 2".
  template <class T>
  void expect_range(std::string_view key, T value, std::type_identity_t<T> least,
                    std::type_identity_t<T> greatest) const {
    expect(least <= value && value <= greatest, key, "must be from {} to {}, got {}", least,
           greatest, value);
  }

  /// Notes what is allowed but hardly meant: "ring.ini:28: algorithm.period is 500, more than ..". Nothing in a probe.
  template <class... Args>
  void warn(std::string_view key, fmt::format_string<Args...> format, Args&&... args) const {
    if (!is_probe_)
      warnings_.push_back(located(key, fmt::format(format, std::forward<Args>(args)...)));
  }
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// "ring.ini:28: algorithm.learning_rate MESSAGE", of what shows only later.
  std::string located(std::string_view key, const std::string& message) const;

  /// Notes that the part reads what another section describes: an algorithm the graph of [topology].
  void note_other(std::string_view section) const { others_.emplace_back(section); }
  bool reads_other(std::string_view section) const;

  /// Every maker calls this after its last read: a key nobody read is a ScenarioError that lists the known ones. One that is
  /// read for the first time afterwards is a fault: nobody could set it, and no list would have it.
  void finish() const;

  /// All settings in the order written, for a section whose keys name keys of other sections.
  const std::vector<Setting>& settings() const { return settings_; }

  /// Keys read so far, in order of reading, each once.
  const std::vector<KeyUse>& uses() const { return uses_; }

  /// Directory against which relative paths in this section are resolved (that of the scenario file).
  std::string resolve_path(const std::string& path) const;
  /// What has been resolved so far: the files that the section names.
  const std::vector<std::string>& files() const { return files_; }
  void set_directory(std::string directory) { directory_ = std::move(directory); }

 private:
  [[noreturn]] void fail_with(std::string_view key, const std::string& message) const;
  const Setting* find(std::string_view key) const;
  /// The same, but none for the word "none" where the `fallback` is empty, and shown so.
  const Setting* find(std::string_view key, std::string_view fallback) const;
  bool is_read(std::string_view key) const;
  /// Remembers that `key` is read; its setting, or null if it has none and a fallback or a sample will do.
  const Setting* note(std::string_view key, std::string_view type,
                      const std::optional<std::string>& fallback, std::string_view help) const;

  std::string name_;
  std::string origin_;
  std::string directory_;
  std::vector<Setting> settings_;
  bool is_probe_ = false;
  mutable bool is_finished_ = false;
  mutable std::vector<KeyUse> uses_;
  mutable std::vector<std::string> files_;
  mutable std::vector<std::string> warnings_;
  mutable std::vector<std::string> others_;  // sections
};

}  // namespace starling
