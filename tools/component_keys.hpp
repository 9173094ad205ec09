// Every component with its keys, as `starling list` prints them and docs/keys.md tabulates them. The keys come from the
// components themselves: each maker reads a probe section, which notes the keys and ends before anything is built.
#pragma once

#include <string>
#include <vector>

#include "sim/base/section.hpp"

namespace starling {

/// A key of a component.
struct ComponentKey {
  KeyUse use;
  std::string choice;  // key whose value decides whether this one exists; empty: always
  std::vector<std::string> options;  // those values
  std::vector<std::string> others;   // the other values of that key
  /// What its default follows from: run.nodes, run.steps, other keys here.
  std::vector<std::string> depends_on;
  bool is_made_up = false;  // its default follows from numbers that the probe makes up
  std::string outer_choice =
      "";  // key that decides whether the key of the choice exists; empty: none
  std::vector<std::string> outer_options = {};

  /// "with fabric = torus or ring: ", "unless compression = none: ", "with dataset = hdf5 and partition = by_target: ", or
  /// nothing.
  std::string condition() const;
  /// "required", "none", "by run.nodes", "by bandwidth", "sgd, by compression", or the default.
  std::string fallback() const;
};

struct Component {
  std::string name;  // of a section without kinds: the section's
  std::string summary;
  std::vector<ComponentKey> keys;
  std::string graph = "";  // "Reads [topology] with peers = topology." of an algorithm
};

/// A section of scenarios: a catalog of kinds, or one component with the section's name.
struct Chapter {
  std::string title;
  std::string section;
  bool has_kinds;
  std::vector<Component> components;
};

/// All of them, in the order in which `list` shows them.
std::vector<Chapter> all_chapters();

}  // namespace starling
