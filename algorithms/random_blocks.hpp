// Parts of a model that all nodes draw alike, so that compressed pieces add without positions: of every tensor one of
// nearly equal blocks. Xie et al., "CSER", NeurIPS 2020 (GRBS); Xu and Huang, ICML 2022.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/node/compute_graph.hpp"

namespace starling::algorithms {

/// Part [begin, end) of a model.
struct Block {
  std::size_t begin, end;
};

/// The parts of a model that travel together, in order.
using Blocks = std::vector<Block>;

/// Of each of `tensors`, sizes in order, one out of `count` blocks, or of as many as it has numbers. Without tensors the
/// model of `size` numbers is one.
Blocks draw_blocks(Random random, std::size_t count, std::span<const std::size_t> tensors,
                   std::size_t size);

/// The blocks of `v`, one after the other.
Vector gather(const Blocks& blocks, const Vector& v);

/// `v` with `gathered` in the place of the blocks.
Vector scatter(const Blocks& blocks, const Vector& v, const Vector& gathered);

}  // namespace starling::algorithms
