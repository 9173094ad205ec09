// How fast a topology mixes. With W_p the mixing matrix of phase p, M = W_{P-1} .. W_0 their
// product over one period and J the matrix of all 1/n,
//
//   gap = 1 - ||(I - J) M||_2 :
//
// in one period the distance of the nodes' models from their average falls at least to 1 - gap of
// what it was. For doubly stochastic weights that norm is the second largest singular value of M,
// and for a static symmetric W the second largest |eigenvalue|, which makes it the usual spectral
// gap. (If only the rows of W sum to one a single period may stretch that distance, and the gap may
// be negative, though many periods shrink it.)
#pragma once

#include "sim/node/topology.hpp"

namespace starling::topologies {

struct SpectralGap {
  double gap;
  /// If false, the iteration limit was reached: the true gap is smaller than `gap`, perhaps far
  /// smaller.
  bool converged;
};

struct SpectrumLimits {
  double tolerance = 1e-6;  // relative to the gap; see spectral_gap
  int iterations = 3000;
};

/// Of circulant topologies in closed form (topology/circulant.hpp), whatever the limits. Of others by
/// Lanczos iteration on ((I-J)M)^T (I-J)M from a fixed random start: of up to 256 nodes to its end, if
/// the limit allows that; else until two successive checks, each at an eighth more iterations, change
/// the gap by less than the tolerance, which may take the second largest singular value for the
/// largest where they differ by little more. Same topology, same bits. Each iteration passes twice
/// over all arcs. Some 1/sqrt(gap) of them are needed, so the default limit is for gaps above 1e-7: a
/// torus of a million nodes is well inside, a path of more than some ten thousand outside. W_ii is
/// taken as what the other weights of its row leave of one, so that tiny gaps do not drown in its
/// rounding.
SpectralGap spectral_gap(const Topology& topology, SpectrumLimits limits = {});

/// By which share a phase shrinks the distance from the average in the long run, in the geometric mean over the period: 1 minus the
/// spectral radius of (I - J) M to the power of 1 over the period. That of one random start over some periods, at least a thousand phases, of which the
/// first half does not count. Other than the gap it tells many phases apart that together leave next to nothing.
double long_run_gap(const Topology& topology);

}  // namespace starling::topologies
