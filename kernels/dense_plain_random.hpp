// Philox4x32-10, block by block. Included by the plain build only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dense_codes.hpp"

namespace starling::dense {
namespace {

void random_words(const std::uint32_t (&key)[2], std::uint32_t first,
                  const std::uint32_t (&counter)[3], std::size_t blocks, std::uint32_t* words) {
  for (std::size_t block = 0; block < blocks; ++block, words += 4) {
    std::uint32_t a = first + static_cast<std::uint32_t>(block);
    std::uint32_t b = counter[0], c = counter[1], d = counter[2];
    std::uint32_t k = key[0], m = key[1];
    for (int round = 0; round < 10; ++round, k += 0x9E3779B9u, m += 0xBB67AE85u) {
      const std::uint64_t p = std::uint64_t{0xD2511F53u} * a;
      const std::uint64_t q = std::uint64_t{0xCD9E8D57u} * c;
      a = static_cast<std::uint32_t>(q >> 32) ^ b ^ k;
      b = static_cast<std::uint32_t>(q);
      c = static_cast<std::uint32_t>(p >> 32) ^ d ^ m;
      d = static_cast<std::uint32_t>(p);
    }
    words[0] = a;
    words[1] = b;
    words[2] = c;
    words[3] = d;
  }
}

}  // namespace
}  // namespace starling::dense
