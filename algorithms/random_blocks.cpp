#include "algorithms/random_blocks.hpp"

#include <algorithm>

namespace starling::algorithms {

Blocks draw_blocks(Random random, std::size_t count, std::span<const std::size_t> tensors,
                   std::size_t size) {
  Blocks drawn;
  const auto draw = [&](std::size_t begin, std::size_t length) {
    const std::size_t most = std::min(count, length);
    const std::size_t b = random.below(most);
    drawn.push_back({begin + b * length / most, begin + (b + 1) * length / most});
  };
  if (tensors.empty()) draw(0, size);
  std::size_t begin = 0;
  for (const std::size_t length : tensors) {
    draw(begin, length);
    begin += length;
  }
  return drawn;
}

Vector gather(const Blocks& blocks, const Vector& v) {
  if (!v.has_numbers()) {
    std::size_t size = 0;
    for (const Block& block : blocks) size += block.end - block.begin;
    return v.slice(0, size);
  }
  std::vector<Vector> pieces;
  for (const Block& block : blocks) pieces.push_back(v.slice(block.begin, block.end - block.begin));
  return pieces.size() == 1 ? pieces[0] : concatenate(pieces);
}

Vector scatter(const Blocks& blocks, const Vector& v, const Vector& gathered) {
  if (!v.has_numbers()) return v;
  std::vector<Vector> pieces;
  std::size_t at = 0;
  std::size_t taken = 0;
  for (const Block& block : blocks) {
    const std::size_t length = block.end - block.begin;
    if (block.begin > at) pieces.push_back(v.slice(at, block.begin - at));
    pieces.push_back(gathered.slice(taken, length));
    taken += length;
    at = block.end;
  }
  if (at < v.size()) pieces.push_back(v.slice(at, v.size() - at));
  return pieces.size() == 1 ? gathered : concatenate(pieces);
}

}  // namespace starling::algorithms
