#include "sim/base/environment.hpp"

#include <cstdlib>

#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace starling {

std::int32_t count_in_environment(const char* name, std::int32_t fallback, const char* unit) {
  const char* const wanted = std::getenv(name);
  if (wanted == nullptr) return fallback;
  const auto count = number_in<std::int32_t>(wanted);
  if (!count || *count < 1) {
    throw Error(fmt::format("environment variable {}: expected whole {} from 1 on, found {}", name,
                            unit, printable(wanted)));
  }
  return *count;
}

}  // namespace starling
