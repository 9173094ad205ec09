#include "sim/base/memory.hpp"

#include <fstream>
#include <string>

namespace starling {

std::int64_t available_memory() {
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);) {
    if (line.starts_with("MemAvailable:")) return std::stoll(line.substr(13)) * 1024;
  }
  return 0;
}

void expect_memory(const Section& section, std::string_view key, double bytes,
                   std::string_view arithmetic) {
  constexpr double gibibyte = 1 << 30;
  const auto available = static_cast<double>(available_memory());
  section.expect(available == 0 || bytes <= available, key,
                 "must be fewer: {} = {:.1f} GiB, but {:.1f} GiB of memory are free", arithmetic,
                 bytes / gibibyte, available / gibibyte);
}

}  // namespace starling
