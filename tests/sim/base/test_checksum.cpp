// CRC-32C beside published values, and of parts.
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "sim/base/checksum.hpp"

namespace starling::test_checksum {
namespace {

std::uint32_t checksum(std::string_view text, std::uint32_t before = 0) {
  return crc32c(std::as_bytes(std::span(text)), before);
}

}  // namespace

TEST_CASE("CRC-32C: the published check value, 32 zeros and 32 ones of RFC 3720") {
  CHECK(checksum("123456789") == 0xe306'9283);
  CHECK(checksum(std::string(32, '\0')) == 0x8a91'36aa);
  CHECK(checksum(std::string(32, '\xff')) == 0x62a8'ab43);
  CHECK(checksum("") == 0);
}

TEST_CASE("CRC-32C: parts give the checksum of the whole, wherever it is cut") {
  const std::string text = "the quick brown fox jumps over the lazy dog";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    CHECK(checksum(text.substr(cut), checksum(text.substr(0, cut))) == checksum(text));
  }
}

}  // namespace starling::test_checksum
