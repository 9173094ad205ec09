// Topologies whose every node sees the others as its neighbor on the circle does: W_ij depends on j - i modulo n alone, in every
// phase. So are rings, complete and exponential graphs. The eigenvectors of such matrices are the waves exp(2 pi i jk/n),
// whatever the weights (P. J. Davis, "Circulant Matrices", Wiley 1979), so they mix as a closed form says.
#pragma once

#include <optional>

#include "sim/node/topology.hpp"

namespace starling::topologies {

/// The gap of topology/spectrum.hpp if `topology` is circulant and has at least two nodes: 1 minus the largest product over the
/// phases of |lambda_k|, 0 < k < n. Without cancellation, so that tiny gaps are exact, too. Takes as long as an iteration of
/// Lanczos, which passes twice over the arcs; of a complete graph over none.
std::optional<double> circulant_gap(const Topology& topology);

}  // namespace starling::topologies
