// Keys of a fluid network that is easy to reckon with by hand.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace starling::network_test {

using Keys = std::vector<std::pair<std::string, std::string>>;

/// Each of two links of a route costs 1 us, so a message sets off 2 us after its start; 1 GB/s is 1
/// ns per byte.
inline const Keys simple = {
    {"kind", "fluid"}, {"latency", "1 us"}, {"bandwidth", "1 GB/s"}, {"check", "yes"}};

inline Keys with(Keys keys, const Keys& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

}  // namespace starling::network_test
