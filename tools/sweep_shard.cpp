#include "tools/sweep_shard.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "tools/failure.hpp"

namespace starling {

namespace {

/// A whole number, or 0 if the text is anything else.
std::size_t whole_number(std::string_view text) { return number_in<std::size_t>(text).value_or(0); }

std::size_t number_in_environment(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? 0 : whole_number(text);
}

std::size_t at_least_one_in_environment(const char* name) {
  return std::max<std::size_t>(1, number_in_environment(name));
}

}  // namespace

Shard read_shard(const std::optional<std::string>& option) {
  Shard shard;
  if (option) {
    const std::size_t slash = option->find('/');
    shard.index = whole_number(std::string_view(*option).substr(0, slash));
    shard.count =
        slash == option->npos ? 0 : whole_number(std::string_view(*option).substr(slash + 1));
    if (shard.index < 1 || shard.index > shard.count)
      throw UsageError(
          fmt::format("--shard must be i/n with i from 1 to n, got {}", printable(*option)));
    --shard.index;
  } else if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) {
    shard = {number_in_environment("OMPI_COMM_WORLD_RANK"),
             at_least_one_in_environment("OMPI_COMM_WORLD_SIZE"),
             at_least_one_in_environment("OMPI_COMM_WORLD_LOCAL_SIZE")};
  } else if (std::getenv("PMI_SIZE") != nullptr) {
    shard = {number_in_environment("PMI_RANK"), at_least_one_in_environment("PMI_SIZE"),
             at_least_one_in_environment("MPI_LOCALNRANKS")};
  }
  shard.is_of_job = !option && shard.count > 1;
  return shard;
}

std::size_t read_jobs(const std::string& option) {
  const std::size_t jobs = whole_number(option);
  if (jobs < 1 || jobs > 4096)
    throw UsageError(
        fmt::format("--jobs must be a whole number from 1 to 4096, got {}", printable(option)));
  return jobs;
}

void share_machine(std::size_t cores, std::size_t jobs) {
  setenv("OMP_WAIT_POLICY", "passive", 1);
  setenv("OMP_NUM_THREADS", std::to_string(std::max<std::size_t>(1, cores / jobs)).c_str(), 1);
  setenv("STARLING_JOBS", std::to_string(jobs).c_str(), 1);
}

}  // namespace starling
