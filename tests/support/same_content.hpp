// Whether two runs recorded the same; what tests of repeatability ask.
#pragma once

#include <string>

#include "sim/record/recorder.hpp"

namespace starling::test {

/// Whether two runs recorded the same, bit for bit (any NaN equals any NaN); `machine` and `statistics`, which
/// differ between equal runs, do not count. If not, `difference` (may be null) names the first place:
/// "steps/train_loss, row 3, column 1: 0.5 and 0.25".
bool same_content(const Recorder& a, const Recorder& b, std::string* difference = nullptr);

}  // namespace starling::test
