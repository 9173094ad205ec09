// starling list: every component by name, with one sentence and its keys; one of them, or a key and who has it; all as Markdown
// for docs/keys.md.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <boost/program_options.hpp>
#include <fmt/format.h>

#include "sim/base/did_you_mean.hpp"
#include "tools/arguments.hpp"
#include "tools/component_keys.hpp"
#include "tools/failure.hpp"

namespace starling {

namespace po = boost::program_options;

namespace {

/// Keys that so many components of a section have alike are told once, in front of them.
constexpr std::ptrdiff_t least_shared = 4;

std::string head_of(const Chapter& chapter) {
  return fmt::format("{} ([{}]{})\n", chapter.title, chapter.section,
                     chapter.has_kinds ? " kind = .." : "");
}

std::string line_of(const ComponentKey& key, std::size_t width) {
  return fmt::format("      {:<{}} {:<34}  {}{}\n", key.use.key, width,
                     fmt::format("{} ({})", key.use.type, key.fallback()), key.condition(),
                     key.use.help);
}

void print_plainly(const Chapter& chapter, const std::string& only, bool with_keys) {
  std::size_t longest = 0;
  for (const Component& component : chapter.components)
    longest = std::max(longest, component.name.size());
  bool has_title = false;
  for (const Component& component : chapter.components) {
    if (!only.empty() && only != component.name && only != chapter.section) continue;
    if (!has_title) fmt::print("{}", head_of(chapter));
    has_title = true;
    if (chapter.has_kinds)
      fmt::print("  {:<{}}{}\n", component.name, longest + 2, component.summary);
    if (!with_keys) continue;
    if (!component.graph.empty()) fmt::print("      {}\n", component.graph);
    std::size_t width = 22;
    for (const ComponentKey& key : component.keys) width = std::max(width, key.use.key.size());
    for (const ComponentKey& key : component.keys) fmt::print("{}", line_of(key, width));
  }
}

/// Whether `name` is this key of the section: KEY or SECTION.KEY.
bool is_called(const Chapter& chapter, const ComponentKey& key, const std::string& name) {
  return name == key.use.key || name == chapter.section + "." + key.use.key;
}

/// A key as the components of a section have it, each way once, below those that have it so.
void print_key(const Chapter& chapter, const std::string& name, bool with_keys) {
  std::vector<std::pair<std::string, std::vector<std::string>>> ways;  // and the components
  for (const Component& component : chapter.components) {
    std::string way;
    for (const ComponentKey& key : component.keys)
      if (is_called(chapter, key, name)) way += line_of(key, key.use.key.size());
    if (way.empty()) continue;
    const auto known = std::ranges::find(ways, way, [](const auto& each) { return each.first; });
    known == ways.end() ? ways.push_back({way, {component.name}})
                        : known->second.push_back(component.name);
  }
  if (!ways.empty()) fmt::print("{}", head_of(chapter));
  for (const auto& [way, names] : ways) {
    if (chapter.has_kinds) {
      const bool are_all = names.size() == chapter.components.size();
      fmt::print("  {}\n", are_all ? "all kinds" : fmt::format("{}", fmt::join(names, ", ")));
    }
    if (with_keys) fmt::print("{}", way);
  }
}

std::string in_cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != text.npos; at += 4)
    text.replace(at, 1, " \\| ");
  return text;
}

/// A line of a table of keys.
std::string row_of(const ComponentKey& key) {
  return fmt::format("| `{}` | {} | {} | {}{} |\n", key.use.key, in_cell(key.fallback()),
                     in_cell(key.use.type), in_cell(key.condition()), in_cell(key.use.help));
}

void print_table(const std::vector<std::string>& rows) {
  if (rows.empty()) return;
  fmt::print("\n| key | default | value | |\n| --- | --- | --- | --- |\n");
  for (const std::string& row : rows) fmt::print("{}", row);
}

/// Rows that at least `least_shared` components have, in order of appearance; of those that tell the same key in two ways, the one
/// that more components have.
std::vector<std::string> shared_rows(const Chapter& chapter) {
  struct Shared {
    std::string subject, row;
    std::ptrdiff_t count;
  };
  std::vector<Shared> found;
  for (const Component& component : chapter.components) {
    for (const ComponentKey& key : component.keys) {
      const std::string row = row_of(key), subject = key.use.key + " " + key.condition();
      const auto has_row = [&row](const Component& other) {
        return std::ranges::any_of(other.keys,
                                   [&row](const ComponentKey& one) { return row_of(one) == row; });
      };
      const auto count = std::ranges::count_if(chapter.components, has_row);
      if (count < least_shared) continue;
      const auto known = std::ranges::find(found, subject, &Shared::subject);
      if (known == found.end()) {
        found.push_back({subject, row, count});
      } else if (known->count < count) {
        *known = {subject, row, count};
      }
    }
  }
  std::vector<std::string> shared;
  for (const Shared& each : found) shared.push_back(each.row);
  return shared;
}

/// "`a`, `b`": the keys of `rows` that `component` has not, each once; nothing if it has all.
std::string missing(const Component& component, const std::vector<std::string>& rows) {
  std::vector<std::string> names;
  for (const std::string& row : rows) {
    const auto is_row = [&row](const ComponentKey& key) { return row_of(key) == row; };
    if (std::ranges::any_of(component.keys, is_row)) continue;
    const std::string name = row.substr(2, row.find(' ', 2) - 2);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

void print_as_markdown(const Chapter& chapter) {
  fmt::print("\n## [{}]: {}\n", chapter.section, chapter.title);
  const std::vector<std::string> shared =
      chapter.has_kinds ? shared_rows(chapter) : std::vector<std::string>();
  if (!shared.empty()) {
    fmt::print("\nShared by several kinds; each says below which of these it does not have.\n");
    print_table(shared);
  }
  for (const Component& component : chapter.components) {
    if (chapter.has_kinds) fmt::print("\n### `{}`\n\n{}\n", component.name, component.summary);
    if (!component.graph.empty()) fmt::print("\n{}\n", component.graph);
    std::vector<std::string> own;
    for (const ComponentKey& key : component.keys) {
      const std::string row = row_of(key);
      if (std::ranges::find(shared, row) == shared.end()) own.push_back(row);
    }
    print_table(own);
    if (shared.empty()) continue;
    const std::string lacking = missing(component, shared);
    if (lacking.empty()) {
      fmt::print("\nHas all shared keys.\n");
    } else if (lacking == missing({}, shared)) {
      fmt::print("\nHas no shared keys.\n");
    } else {
      fmt::print("\nHas the shared keys but {}.\n", lacking);
    }
  }
}

constexpr const char* markdown_preface = R"(# Keys of scenarios

Made by `starling list --markdown`; a test compares. A scenario is a text file:

* `[section]` begins a section, `key = value` sets a key, `#` begins a comment. `[topology]`, `[network]`, `[workload]` and
  `[algorithm]` choose one of several kinds by `kind = ..`. Sections `[run]`, `[network]`, `[compute]`, `[workload]`
  and `[algorithm]` must be there; `[topology]` (else a ring), `[failures]`, `[reference]` and `[sweep]` may.
* `include = FILE` before the first section, relative to the file it stands in, takes the sections of another file over. Keys of
  the file that includes win; of two files that it includes, those of the later one. An included file may include others.
* Paths of other files to read are relative to the scenario, those of included files and of the command line, too; those of results
  (`run.output`, `-o`) to the folder in which the program is started.
* Any key can be set on the command line: `section.key=value`. A key that nobody reads is an error. `default` in place of a value takes
  away what an included file, or the scenario, sets: `algorithm.kind=allreduce algorithm.patience=default`. A default of `none` is an empty
  value, and may be written so.

Kinds of values: *integer* and *number* without a unit; *duration* with `ps`, `ns`, `us`, `ms`, `s`, `min` or `h`; *bytes* with
`B`, `kB`, `MB`, `GB`, `KiB`, `MiB`, `GiB`; *bandwidth* in bytes (`1 GB/s`) or bits (`10 Gbit/s`) per second; *numbers* separated by
commas; *yes/no*; *text*; or one of the words listed. A default "by KEY" depends on that key; `starling describe SCENARIO.ini` shows its value.

`[sweep]` is read by `starling sweep` alone. Its keys are `section.key` of other sections, with lists (`2, 4, 8`; separated by `|`
where values hold commas) or ranges (`1 .. 5`, `0 .. 320 ms step 160 ms`, `4 .. 64 times 2`) of values; `zip = KEY KEY` walks
through the lists of these keys together, instead of combining them (`default` where a kind lacks the key); `repeats = N`: every point with so many seeds;
`target = test_accuracy 0.9` (or a `test_auc`, `test_loss`) has the tables tell when each point got there.
)";

/// Prints what is called so: a section, a component, or else a key. Throws UsageError if nothing is.
void print_named(const std::string& name, const std::vector<Chapter>& chapters, bool with_keys) {
  std::vector<std::string> sections;
  std::vector<std::string> names;
  std::vector<std::string> keys;
  for (const Chapter& chapter : chapters) {
    sections.push_back(chapter.section);
    names.push_back(chapter.section);
    for (const Component& component : chapter.components) {
      names.push_back(component.name);
      for (const ComponentKey& key : component.keys) {
        keys.push_back(key.use.key);
        keys.push_back(chapter.section + "." + key.use.key);
      }
    }
  }
  if (std::ranges::find(names, name) != names.end()) {
    for (const Chapter& chapter : chapters) print_plainly(chapter, name, with_keys);
    return;
  }
  if (std::ranges::find(keys, name) != keys.end()) {
    for (const Chapter& chapter : chapters) print_key(chapter, name, with_keys);
    return;
  }
  if (name == "kind")
    throw UsageError("kind says which component a section has: starling list --brief tells all");
  names.insert(names.end(), keys.begin(), keys.end());
  throw UsageError(fmt::format(
      "there is no section, component or key {}; sections are {} (and sweep: docs/keys.md); all "
      "components: starling list --brief{}",
      name, fmt::join(sections, ", "), did_you_mean(name, names)));
}

}  // namespace

void list_command(const Arguments& arguments) {
  po::options_description options("options");
  options.add_options()("brief,b", "names and sentences, no keys")(
      "markdown", "everything as a page of Markdown: docs/keys.md");
  po::variables_map values;
  if (!parse_arguments(arguments, "list",
                       "starling list [SECTION | NAME | KEY] [--brief | --markdown]", options,
                       values))
    return;
  const auto words = values["words"].as<std::vector<std::string>>();
  if (words.size() > 1) throw UsageError("list takes one name at most");
  const std::string only = words.empty() ? "" : words[0];
  if (values.count("markdown") > 0) {
    if (!only.empty()) throw UsageError("--markdown lists everything, got a name");
    fmt::print("{}", markdown_preface);
    for (const Chapter& chapter : all_chapters()) print_as_markdown(chapter);
    return;
  }
  const std::vector<Chapter> chapters = all_chapters();
  const bool with_keys = values.count("brief") == 0;
  if (!only.empty()) return print_named(only, chapters, with_keys);
  for (const Chapter& chapter : chapters) print_plainly(chapter, "", with_keys);
}

}  // namespace starling
