// Hints for names that are not known.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace starling {

/// Which of `known` `found` may be a slip of, the beginning or, "lr", the initials; null if none is close.
const std::string* most_alike(std::string_view found, const std::vector<std::string>& known);

/// "; did you mean learning_rate?" if one of `known` is close to `found`, or its summary, where there are such, names it as a word
/// ("CHOCO-SGD"); else nothing.
std::string did_you_mean(std::string_view found, const std::vector<std::string>& known,
                         const std::vector<std::string>& summaries = {});

}  // namespace starling
