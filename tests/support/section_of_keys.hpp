// A section of a scenario, of its keys alone.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/base/section.hpp"

namespace starling::test {

/// What a section says: keys and their texts.
using Keys = std::vector<std::pair<std::string, std::string>>;

/// [name] in line 1 of test.ini, all its keys in line 7.
inline Section section_of_keys(const std::string& name, const Keys& keys) {
  std::vector<Setting> settings;
  for (const auto& [key, text] : keys) settings.push_back({key, text, "test.ini:7"});
  return Section(name, "test.ini:1", std::move(settings));
}

}  // namespace starling::test
