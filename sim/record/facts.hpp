// Facts: what a run, a machine or a checkpoint says of itself, as texts by name.
#pragma once

#include <map>
#include <string>

namespace starling {

/// The fact of this name; "" if it is not known.
inline std::string fact(const std::map<std::string, std::string>& facts, const std::string& name) {
  const auto found = facts.find(name);
  return found == facts.end() ? std::string() : found->second;
}

}  // namespace starling
