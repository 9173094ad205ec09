#include "algorithms/sums.hpp"

namespace starling::algorithms {

Vector difference(const Vector& a, const Vector& b) {
  Vector d = a;
  d.add_scaled(-1.0, b);
  return d;
}

Vector blend(double a, const Vector& x, double b, const Vector& y) {
  const Weighted terms[] = {{a, x}, {b, y}};
  return weighted_sum(terms);
}

void accumulate(Vector& x, double factor, const Vector& y) {
  if (!x) {
    x = y;
    return;
  }
  if (factor != 1) x.scale(factor);
  x.add(y);
}

}  // namespace starling::algorithms
