// The random streams of sim/base/random.hpp on a device, with access to any word: Philox4x32-10 (Salmon et al.,
// "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011).
#pragma once

#include "kernels/cuda/block.hpp"

namespace starling::cuda {

/// Random::State, for a kernel's arguments.
struct Stream {
  std::uint32_t key[2];
  std::uint32_t counter[4];
  std::uint32_t block[4];  // being used up
  std::uint32_t used;      // words of it; 4: none is left
};

struct Words {
  std::uint32_t word[4];
};

STARLING_DEVICE Words philox(Words counter, std::uint32_t key_0, std::uint32_t key_1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p = std::uint64_t{0xD2511F53U} * counter.word[0];
    const std::uint64_t q = std::uint64_t{0xCD9E8D57U} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(q >> 32) ^ counter.word[1] ^ key_0,
                static_cast<std::uint32_t>(q),
                static_cast<std::uint32_t>(p >> 32) ^ counter.word[3] ^ key_1,
                static_cast<std::uint32_t>(p)}};
    key_0 += 0x9E3779B9U;
    key_1 += 0xBB67AE85U;
  }
  return counter;
}

/// The i-th word that the stream would give from here on.
STARLING_DEVICE std::uint32_t word_of(const Stream& s, std::uint64_t i) {
  const std::uint32_t left = 4 - s.used;
  if (i < left) return s.block[s.used + i];
  // A stream counts blocks in its first word, and carries into the key.
  const std::uint64_t at = s.counter[0] + (i - left) / 4;
  const Words counter = {
      {static_cast<std::uint32_t>(at), s.counter[1], s.counter[2], s.counter[3]}};
  const auto key_0 = static_cast<std::uint32_t>(s.key[0] + (at >> 32));
  return philox(counter, key_0, s.key[1]).word[(i - left) % 4];
}

/// Uniform in [0, 1) from one word.
STARLING_DEVICE double uniform_word(const Stream& s, std::uint64_t i) {
  return word_of(s, i) * 0x1p-32;
}

}  // namespace starling::cuda
