// Philox4x32-10 of many blocks at once, each in a lane of 64 bits, of which a product reads the lower half and fills both.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dense/codes.hpp"
#include "kernels/dense/lanes.hpp"

namespace starling::dense {
namespace {

void random_words(const std::uint32_t (&key)[2], std::uint32_t first,
                  const std::uint32_t (&counter)[3], std::size_t blocks, std::uint32_t* words) {
  constexpr std::size_t lanes = width / 2, vectors = 4, together = lanes * vectors;
  const Lanes::Integers p_factor = Lanes::integers(0xD2511F53u);
  const Lanes::Integers q_factor = Lanes::integers(0xCD9E8D57u);
  for (std::size_t begin = 0; begin < blocks; begin += together) {
    Lanes::Integers a[vectors], b[vectors], c[vectors], d[vectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) {
      const std::size_t from = begin + v * lanes;
      a[v] = Lanes::add(Lanes::integers(first + static_cast<std::uint32_t>(from)),
                        Lanes::wide_indices());
      b[v] = Lanes::integers(counter[0]);
      c[v] = Lanes::integers(counter[1]);
      d[v] = Lanes::integers(counter[2]);
    }
    std::uint32_t k = key[0], m = key[1];
    for (int round = 0; round < 10; ++round, k += 0x9E3779B9u, m += 0xBB67AE85u) {
#pragma GCC unroll 4
      for (std::size_t v = 0; v < vectors; ++v) {
        const Lanes::Integers p = Lanes::multiply_wide(a[v], p_factor);
        const Lanes::Integers q = Lanes::multiply_wide(c[v], q_factor);
        a[v] = Lanes::differ(Lanes::differ(Lanes::upper_half(q), b[v]), Lanes::integers(k));
        b[v] = q;
        c[v] = Lanes::differ(Lanes::differ(Lanes::upper_half(p), d[v]), Lanes::integers(m));
        d[v] = p;
      }
    }
    alignas(64) std::uint32_t block[4][together][2];  // words a to d in the lower halves
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) {
      Lanes::store(block[0][v * lanes], a[v]);
      Lanes::store(block[1][v * lanes], b[v]);
      Lanes::store(block[2][v * lanes], c[v]);
      Lanes::store(block[3][v * lanes], d[v]);
    }
    for (std::size_t l = 0; l < at_most(together, blocks - begin); ++l, words += 4) {
      words[0] = block[0][l][0];
      words[1] = block[1][l][0];
      words[2] = block[2][l][0];
      words[3] = block[3][l][0];
    }
  }
}

}  // namespace
}  // namespace starling::dense
