// Which points of a sweep a process runs, how many at a time, and what of the machine each of them gets.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace starling {

/// Which of several processes this is.
struct Shard {
  std::size_t index = 0;
  std::size_t count = 1;
  std::size_t on_this_machine = 1;
  bool is_of_job = false;  // one of several that mpirun has started
};

/// From --shard if it is given, or from what mpirun tells its processes. Throws UsageError.
Shard read_shard(const std::optional<std::string>& option);

/// Of --jobs. Throws UsageError.
std::size_t read_jobs(const std::string& option);

/// One core for each of the points that run side by side, as far as there are cores, and its part of the memory.
void share_machine(std::size_t cores, std::size_t jobs);

}  // namespace starling
