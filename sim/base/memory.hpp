// Memory that there is, so that a request which cannot fit is refused before anything is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "sim/base/section.hpp"

namespace starling {

/// Memory that the system could give us now, in bytes; 0 if it does not tell.
std::int64_t available_memory();

/// Refuses the value of `key` if so many bytes are not free. `arithmetic` says what they are made of:
/// "run.nodes must be fewer: 99999999 nodes * 480 B beside their models = 44.7 GiB, but 20.6 GiB of memory are free".
void expect_memory(const Section& section, std::string_view key, double bytes,
                   std::string_view arithmetic);

/// Memory that is set aside and never touched, to be given up where there is no more. Throws std::bad_alloc.
struct GiveBack {
  std::size_t bytes = 0;
  void operator()(std::byte* reserve) const noexcept;
};
using Reserve = std::unique_ptr<std::byte, GiveBack>;
Reserve set_aside(std::size_t bytes);

}  // namespace starling
