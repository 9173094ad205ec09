// Sums of two vectors that several algorithms take.
#pragma once

#include "sim/node/node.hpp"

namespace starling::algorithms {

/// a - b
Vector difference(const Vector& a, const Vector& b);

/// a x + b y as one sum, so that the graph computes it once for all nodes whose x and y are the same.
Vector blend(double a, const Vector& x, double b, const Vector& y);

/// x <- factor * x + y; an empty x is zero.
void accumulate(Vector& x, double factor, const Vector& y);

}  // namespace starling::algorithms
