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

/// Block b of a stream: 0 is the one that is being used up.
STARLING_DEVICE Words words_at(const Stream& s, std::uint64_t b) {
  if (b == 0) return {{s.block[0], s.block[1], s.block[2], s.block[3]}};
  // A stream counts blocks in its first word, and carries into the key.
  const std::uint64_t at = s.counter[0] + (b - 1);
  const Words counter = {
      {static_cast<std::uint32_t>(at), s.counter[1], s.counter[2], s.counter[3]}};
  const auto key_0 = static_cast<std::uint32_t>(s.key[0] + (at >> 32));
  return philox(counter, key_0, s.key[1]);
}

/// The i-th word that the stream would give from here on.
STARLING_DEVICE std::uint32_t word_of(const Stream& s, std::uint64_t i) {
  const std::uint64_t at = s.used + i;
  const Words words = words_at(s, at / 4);
  const std::uint32_t lower = at % 2 == 0 ? words.word[0] : words.word[1];
  const std::uint32_t upper = at % 2 == 0 ? words.word[2] : words.word[3];
  return at % 4 < 2 ? lower : upper;
}

/// Uniform in [0, 1) from one word.
STARLING_DEVICE double uniform_word(const Stream& s, std::uint64_t i) {
  return word_of(s, i) * 0x1p-32;
}

}  // namespace starling::cuda
