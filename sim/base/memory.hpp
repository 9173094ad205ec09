// Memory that there is, so that a request which cannot fit is refused before anything is allocated; memory that was freed, kept
// for the next request; and zeros that cost none until they are touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "sim/base/section.hpp"

namespace starling {

/// Memory that the system could give this process now, in bytes; nothing if it does not tell. Where control groups (version 1
/// or 2: a container's, a job's of Slurm) allow less than the machine has, what they leave. `root` is for tests.
std::optional<std::int64_t> available_memory(const std::filesystem::path& root = "/");

/// Refuses the value of `key` if so many bytes are not free. `arithmetic` says what they are made of:
/// "run.nodes must be fewer: 99999999 nodes * 480 B beside their models = 44.7 GiB, but 20.6 GiB of memory are free".
void expect_memory(const Section& section, std::string_view key, double bytes,
                   std::string_view arithmetic);

/// Lets malloc keep what is freed, up to 256 MiB at the end of the heap, in place of giving it back to the system and taking
/// it anew, page by page, in the next step of every node. Blocks of 1 MiB and more go back. First thing in main().
void keep_freed_memory();

/// Zeros that the system maps when they are touched: bytes to send or to receive, or a reserve that is given up where there
/// is no more. Throws std::bad_alloc.
struct Unmap {
  std::size_t bytes = 0;
  void operator()(std::byte* zeros) const noexcept;
};
using Zeros = std::unique_ptr<std::byte, Unmap>;
Zeros map_zeros(std::size_t bytes);

}  // namespace starling
