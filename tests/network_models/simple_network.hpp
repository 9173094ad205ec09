// Keys of a fluid network that is easy to reckon with by hand.
#pragma once

#include "tests/network_models/scripted_run.hpp"

namespace starling::network_test {

/// Each of two links of a route costs 1 us, so a message sets off 2 us after its start; 1 GB/s is 1
/// ns per byte.
inline const Keys simple = {
    {"kind", "fluid"}, {"latency", "1 us"}, {"bandwidth", "1 GB/s"}, {"check", "yes"}};

}  // namespace starling::network_test
