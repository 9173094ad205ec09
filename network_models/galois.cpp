// Tables of powers and logarithms.

#include "network_models/galois.hpp"

#include "sim/base/error.hpp"

namespace starling::network_models {

int GaloisField::prime_of(int q) {
  if (q < 2) return 0;
  int p = 2;
  while (q % p != 0) ++p;
  while (q % p == 0) q /= p;
  return q == 1 ? p : 0;
}

GaloisField::GaloisField(int q) : q_(q), p_(prime_of(q)) {
  ensure(p_ > 0, "a finite field has the power of a prime of elements");
  int r = 1;
  while (!try_rule(r)) ++r;
  logarithm_.assign(static_cast<std::size_t>(q), 0);
  for (int i = 0; i < q - 1; ++i) {
    logarithm_[static_cast<std::size_t>(powers_[static_cast<std::size_t>(i)])] = i;
  }
}

/// a + factor * b, digit by digit.
int GaloisField::combine(int a, int b, int factor) const {
  int result = 0;
  for (int digit = 1; digit < q_; digit *= p_) {
    result += (a / digit % p_ + factor * (b / digit % p_)) % p_ * digit;
  }
  return result;
}

/// Whether x^n = r makes x primitive; `powers_` are those of x then.
bool GaloisField::try_rule(int r) {
  const int top = q_ / p_;  // x^(n - 1)
  powers_.assign(1, 1);
  while (static_cast<int>(powers_.size()) < q_ - 1) {
    const int last = powers_.back();
    // x (c_(n-1) x^(n-1) + rest) = c_(n-1) r + x rest
    const int next = combine(last % top * p_, r, last / top);
    if (next == 0 || next == 1) return false;
    powers_.push_back(next);
  }
  return combine(powers_.back() % top * p_, r, powers_.back() / top) == 1;
}

int GaloisField::multiply(int a, int b) const {
  if (a == 0 || b == 0) return 0;
  return power(logarithm_[static_cast<std::size_t>(a)] + logarithm_[static_cast<std::size_t>(b)]);
}

int GaloisField::power(int exponent) const {
  return powers_[static_cast<std::size_t>(exponent % (q_ - 1))];
}

}  // namespace starling::network_models
