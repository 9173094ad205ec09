// In what two runs differ; what tests of repeatability ask.
#pragma once

#include <string>

#include "sim/record/recorder.hpp"

namespace starling::test {

/// The first place at which what two runs recorded differs by a bit (any NaN equals any NaN); empty if there is none.
/// `machine` and `statistics`, which differ between equal runs, do not count.
/// "steps/train_loss, row 3, column 1: 0.5 and 0.25".
std::string difference_of(const Recorder& a, const Recorder& b);

}  // namespace starling::test
