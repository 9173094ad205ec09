// Two settings of a sweep against each other: by how much do outcomes differ between points that are alike in all else?
// What a seed does to both sides is gone from their differences, so that few seeds tell more than the spread of each side.
#pragma once

#include <string>
#include <vector>

namespace starling {

/// Compares points of the sweep in `folder` that have the setting `a` ("algorithm.kind=wagma", or several such) with those that
/// have `b` and the same values of all other keys, run.seed with them; keys that go with the settings (zip) may differ. Prints
/// for each of `outcomes` (none: accuracies, losses, times, bytes as far as known) the mean difference, A - B, with its 95 %
/// confidence interval by Student's t. Throws UsageError for settings and outcomes that the sweep does not have, Error for a
/// folder without a table of points.
void compare_settings(const std::string& folder, const std::string& a, const std::string& b,
                      const std::vector<std::string>& outcomes);

}  // namespace starling
