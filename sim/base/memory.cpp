#include "sim/base/memory.hpp"

#include <fstream>
#include <new>
#include <string>

#include <malloc.h>
#include <sys/mman.h>

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

void keep_freed_memory() {
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_MMAP_THRESHOLD, 1 << 20);  // set one, and malloc no longer moves the other
}

// Mapped, as malloc touches what it gives where MALLOC_PERTURB_ is set, which Meson does for tests.
Zeros map_zeros(std::size_t bytes) {
  void* zeros = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (zeros == MAP_FAILED) throw std::bad_alloc();
  return Zeros(static_cast<std::byte*>(zeros), {bytes});
}

void Unmap::operator()(std::byte* zeros) const noexcept { munmap(zeros, bytes); }

}  // namespace starling
