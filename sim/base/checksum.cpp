#include "sim/base/checksum.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace starling {
namespace {

// Eight bytes are read as one little-endian word.
static_assert(std::endian::native == std::endian::little);

constexpr std::uint32_t polynomial = 0x82f6'3b78;  // Castagnoli's, bits reversed

/// tables[k][b]: what byte b does to the checksum when k more bytes follow it.
constexpr auto tables = [] {
  std::array<std::array<std::uint32_t, 256>, 8> made{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0);
    made[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t crc = made[k - 1][byte];
      made[k][byte] = (crc >> 8) ^ made[0][crc & 0xff];
    }
  }
  return made;
}();

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, 8);
    word ^= crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= tables[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; i < bytes.size(); ++i)
    crc = (crc >> 8) ^ tables[0][(crc ^ std::to_integer<std::uint32_t>(bytes[i])) & 0xff];
  return ~crc;
}

}  // namespace starling
