// What PTX instructions do.
#pragma once

#include <string_view>

#include "tests/kernels/cuda/ptx_program.hpp"

namespace starling::ptx {

/// The step of an instruction that writes `to` registers and reads `from`; null if it is not known.
Step find_step(std::string_view name, std::uint32_t to, std::uint32_t from);

}  // namespace starling::ptx
