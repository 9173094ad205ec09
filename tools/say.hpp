// What is said on standard error, such as warnings and progress.
#pragma once

#include <cstdio>
#include <utility>

#include <fmt/core.h>

namespace starling {

/// Says it if it can: nothing ends because its log cannot be written, as on a full disk.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  std::fputs(fmt::format(format, std::forward<Args>(args)...).c_str(), stderr);
}

}  // namespace starling
