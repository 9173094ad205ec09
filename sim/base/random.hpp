// Counter-based random streams. A stream is named by (seed, purpose, node, step), so a new draw in one place
// shifts none elsewhere, and every thread, process and device draws the same numbers. Philox4x32-10 of
// Random123 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/base/types.hpp"

namespace starling {

/// The node of streams that all nodes share.
inline constexpr NodeId shared_stream = -1;

/// A block of Philox4x32-10: the four words that `key` makes of `counter`.
std::array<std::uint32_t, 4> philox(const std::array<std::uint32_t, 4>& counter,
                                    const std::array<std::uint32_t, 2>& key);

/// One stream of random numbers; a small value, cheap to make and to copy. Satisfies
/// std::uniform_random_bit_generator, but use the members: the distributions of <random> differ between
/// standard libraries.
class Random {
 public:
  using result_type = std::uint32_t;
  /// Equal streams go on alike.
  bool operator==(const Random&) const = default;

  Random(std::uint64_t seed, std::string_view purpose, NodeId node = shared_stream, Step step = 0);
  /// The stream of the same seed and purpose for (node, step); cheaper than naming all anew.
  Random at(NodeId node, Step step) const;

  /// All there is to a stream, for a device that draws from it by itself.
  struct State {
    std::array<std::uint32_t, 2> key;
    std::array<std::uint32_t, 4> counter;  // of the next block
    std::array<std::uint32_t, 4> block;    // being used up
    int used;                              // words of it
  };
  State state() const { return {key_, counter_, block_, used_}; }

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }
  result_type operator()() {
    if (used_ == 4) refill();
    return block_[static_cast<std::size_t>(used_++)];
  }

  /// Uniform in [0, 1), 53 bits.
  double uniform();
  /// Uniform in {0, .., bound - 1}, without bias. `bound` > 0.
  std::uint64_t below(std::uint64_t bound);
  /// Standard normal (Box-Muller with the project's own log and cosine: the same bits everywhere).
  double normal();
  /// Exponential with mean 1.
  double exponential();
  /// Gamma with the given shape > 0 and scale 1 (Marsaglia and Tsang, ACM TOMS 26(3), 2000).
  double gamma(double shape);

  /// Fisher-Yates from the top; the same permutation for the same stream everywhere.
  template <class Container>
  void shuffle(Container& items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      using std::swap;
      swap(items[i - 1], items[below(i)]);
    }
  }

 private:
  void refill();

  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> block_{};
  int used_ = 4;
};

}  // namespace starling
