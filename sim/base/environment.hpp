// Settings of the machine in environment variables, which no result depends on.
#pragma once

#include <cstdint>

namespace starling {

/// The whole number, at least 1, in the environment variable `name`; `fallback` without it. Throws Error if something else is
/// in it; `unit` says there what is counted ("seconds").
std::int32_t count_in_environment(const char* name, std::int32_t fallback, const char* unit);

}  // namespace starling
