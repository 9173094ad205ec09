#include "network_models/byte_cost.hpp"

#include <stdexcept>

namespace starling::network_models {

double read_seconds_per_byte(const Section& section, std::string_view key,
                             std::string_view fallback, std::string_view help) {
  const auto text = section.optional<std::string>(key, std::string(fallback), help);
  if (text == "infinite") return 0;
  try {
    return 1 / parse_bandwidth(text).bytes_per_second;
  } catch (const std::invalid_argument& error) {
    section.fail(key, "{}; or infinite", error.what());
  }
}

}  // namespace starling::network_models
