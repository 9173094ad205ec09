// Normal draws of several streams at once, for those who need one draw of each of many: to the bit what the plain functions
// give, as both are made of sim/base/elementary_cores.hpp. One draw is a chain of some 480 instructions that wait for each
// other; eight side by side, in loops that the compiler vectorizes, take 140 each and little longer. So durations that vary
// normally or lognormally are drawn eight steps of a node ahead (72 bytes per node): 3 % of a timeline of small models.
#pragma once

#include <array>
#include <cstddef>

#include "sim/base/random.hpp"

namespace starling {

inline constexpr std::size_t block_lanes = 8;
using Block = std::array<double, block_lanes>;

/// scale * z + shift, in one fused multiply-add, for the z that normal() gives first on the streams of (node, first),
/// (node, first + 1) ..; `stream` names seed and purpose, `first` is a multiple of block_lanes.
Block first_normals(const Random& stream, NodeId node, Step first, double scale, double shift);
/// e^x of each, |x| <= 700; to the bit exact_exp().
Block exact_exp(const Block& x);

}  // namespace starling
