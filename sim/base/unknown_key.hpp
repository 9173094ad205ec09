// What Section::finish() throws. Whoever knows which component had the section may say who else has such a key.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/section.hpp"

namespace starling {

/// Nobody read these settings of a section, at least one; the message names the first.
struct UnknownKey : ScenarioError {
  UnknownKey(const std::string& message, std::vector<Setting> all)
      : ScenarioError(message), settings(std::move(all)) {}
  std::vector<Setting> settings;
};

}  // namespace starling
