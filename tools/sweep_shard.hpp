// Which points of a sweep a process runs, how many at a time, and what of the machine each of them gets.
#pragma once

#include <cstddef>
#include <optional>

#include <boost/program_options/variables_map.hpp>

namespace starling {

/// Which of several processes this is.
struct Shard {
  std::size_t index = 0;
  std::size_t count = 1;
  std::size_t on_this_machine = 1;
  bool is_of_job = false;  // one of several that mpirun has started
};

/// From --shard, or from what mpirun tells its processes. Throws UsageError.
Shard read_shard(const boost::program_options::variables_map& values);

/// From --jobs, if it is there. Throws UsageError.
std::optional<std::size_t> read_jobs(const boost::program_options::variables_map& values);

/// One core for each of the points that run side by side, as far as there are cores, and its part of the memory.
void share_machine(std::size_t cores, std::size_t jobs);

}  // namespace starling
