// CRC-32C (Castagnoli), the checksum of checkpoints: finds every single burst of errors up to 32 bits, and any other
// damage but for one part in 2^32. Eight bytes at a time by tables, so that checking costs less than reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace starling {

/// Checksum of `bytes`, continuing one of what came before: crc32c(b, crc32c(a)) is that of a and b together.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace starling
