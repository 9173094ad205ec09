// A scenario as written: sections of key = value, from an .ini file and from the command line, each
// remembered with the place it was written at. It knows no section and no key by name; whoever
// builds a part does (see Section). The reader is our own because errors must name file and line.
//
//   include = FILE       before the first section: the sections of another file, whose keys this one overrides; relative
//                        to this file. Relative paths among its values are relative to this file, too.
//   # comment, on a line of its own or after white space
//   [section]            names: letters, digits, _ and -; each once
//   key = value          keys: the same and dots; each once per section; the value may be empty
//   key = default        as if the key stood nowhere: takes away what an included file sets, or, on the command line, any
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/section.hpp"

namespace starling {

/// The origin of a setting that was given on the command line.
inline constexpr const char* command_line = "command line";

/// A section and the keys that its reader asked for: what `starling describe` prints.
struct DescribedSection {
  std::string name;
  std::vector<KeyUse> keys;
};

class Scenario {
 public:
  /// Reads the file at `path`; `overrides` are "section.key=value" and win over it, the last one of
  /// a key over the others. Throws Error if the file cannot be read, ScenarioError for what is
  /// wrong in it, always located.
  static Scenario read(const std::string& path, const std::vector<std::string>& overrides = {});

  /// The same for a text; `name` stands for the file and locates relative paths. Messages say `place` for it where the text
  /// is not that file's.
  static Scenario parse(std::string_view text, std::string name,
                        const std::vector<std::string>& overrides = {}, std::string place = "");

  /// Sets section.key to `value` as from the command line: "algorithm.learning_rate=0.1". The key
  /// may be new.
  void override_with(std::string_view assignment, const std::string& origin = command_line);

  /// The settings of [name]; none, located at the file, if it is absent.
  Section section(std::string_view name) const;
  bool has_section(std::string_view name) const;
  /// The value of "section.key" as written; nothing if it is not set.
  std::optional<std::string> text_of(std::string_view key) const;
  /// In the order of the file, then those that overrides added.
  std::vector<std::string> section_names() const;
  /// Throws ScenarioError for the first section that is not among `known`.
  void reject_unknown_sections(std::span<const std::string_view> known) const;

  /// The file, as it was named.
  const std::string& name() const { return name_; }

  /// The settings in effect, overrides included, as a text that parses back to the same settings.
  std::string to_text() const;
  /// The same for settings with every default filled in; each line ends in its help as a comment,
  /// which begins with "default" where the value is the default.
  static std::string to_text(std::span<const DescribedSection> sections);

 private:
  struct Entry {
    std::string name;
    std::string origin;
    std::vector<Setting> settings;
    bool is_included = false;  // so far: its own heading may still come
  };

  Scenario(std::string_view text, std::string name, std::string place, int depth);
  Entry* find(std::string_view name);
  const Entry* find(std::string_view name) const;
  void read_line(std::string_view line, const std::string& origin);
  void include(std::string_view path, const std::string& origin);
  /// Whether it was written in this file.
  bool is_own(const Setting& setting) const;
  void read_heading(std::string_view line, const std::string& origin);

  std::string name_;
  std::string place_;  // in which its lines are counted
  std::vector<Entry> sections_;
  int depth_;             // of includes
  std::size_t open_ = 0;  // 1 + the section that lines belong to; 0: none yet
};

/// Where the scenario `name` of a results file or checkpoint is, which a run in `folder` has left ("" if that is not
/// known): here if it is here, else there, if its folder is still there.
std::string find_scenario(const std::string& name, const std::string& folder);

/// The first line of one scenario's `text` that is another one than in the `other`'s, whatever their comments, and
/// without its own; empty if it only ends before the other.
std::string first_other_line(const std::string& text, const std::string& other);
/// The same for a message: in quotes, or "nothing".
std::string quoted_other_line(const std::string& text, const std::string& other, char quote = '`');

}  // namespace starling
