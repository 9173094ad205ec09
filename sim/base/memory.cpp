#include "sim/base/memory.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <new>
#include <optional>
#include <sstream>
#include <string>

#include <malloc.h>
#include <sys/mman.h>

namespace starling {

namespace {

/// Where the files of a version of control groups lie, and what they are called there.
struct MemoryGroups {
  std::string_view top;
  std::string_view limit;
  std::string_view usage;
  // In memory.stat: counted as used, given up when asked for.
  std::array<std::string_view, 2> caches;
};
constexpr MemoryGroups version_1{"sys/fs/cgroup/memory",
                                 "memory.limit_in_bytes",
                                 "memory.usage_in_bytes",
                                 {"total_inactive_file ", "total_active_file "}};
constexpr MemoryGroups version_2{
    "sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file ", "active_file "}};

constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

/// The whole number behind `name` at the start of a line of the file; nothing if there is none.
std::optional<std::int64_t> number_behind(std::string_view name,
                                          const std::filesystem::path& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::int64_t number = 0;
    if (line.starts_with(name) && std::istringstream(line.substr(name.size())) >> number)
      return number;
  }
  return std::nullopt;
}

/// What a control group's processes may still take.
std::int64_t left_in(const std::filesystem::path& group, const MemoryGroups& groups) {
  const auto limit = number_behind("", group / groups.limit);
  const auto usage = number_behind("", group / groups.usage);
  if (!limit || !usage) return no_limit;
  std::int64_t used = *usage;  // and not given up; the kernel's counts need not fit each other
  for (const std::string_view cache : groups.caches)
    used -= number_behind(cache, group / "memory.stat").value_or(0);
  return *limit - std::clamp(used, std::int64_t{0}, *limit);
}

}  // namespace

std::optional<std::int64_t> available_memory(const std::filesystem::path& root) {
  const auto kibibytes = number_behind("MemAvailable:", root / "proc/meminfo");
  std::int64_t available = kibibytes ? *kibibytes * 1024 : no_limit;
  std::ifstream memberships(root / "proc/self/cgroup");
  for (std::string line; std::getline(memberships, line);) {  // NUMBER:CONTROLLERS:/GROUP/WITHIN
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool has_memory = ("," + controllers + ",").find(",memory,") != std::string::npos;
    if (!has_memory && !controllers.empty()) continue;
    const MemoryGroups& groups = has_memory ? version_1 : version_2;
    std::filesystem::path group = root / groups.top;
    available = std::min(available, left_in(group, groups));
    for (const auto& within : std::filesystem::path(line.substr(second + 1)).relative_path()) {
      group /= within;
      available = std::min(available, left_in(group, groups));
    }
  }
  if (available == no_limit) return std::nullopt;
  return available;
}

void expect_memory(const Section& section, std::string_view key, double bytes,
                   std::string_view arithmetic) {
  constexpr double gibibyte = 1 << 30;
  const auto available = static_cast<double>(available_memory().value_or(no_limit));
  section.expect(bytes <= available, key,
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
