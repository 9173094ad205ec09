// Finite fields GF(q), q = p^n the power of a prime. An element is a number 0 .. q - 1, whose
// digits to the base p are the coefficients of a polynomial. Arithmetic is by logarithms to a
// primitive element: that of the first rule x^n = r (r = 1, 2, ..) under which the powers of x are all
// elements but 0; for a prime q that is its smallest primitive root.
#pragma once

#include <vector>

namespace starling::network_models {

class GaloisField {
 public:
  /// The prime whose power q is; 0 if q is none.
  static int prime_of(int q);

  /// `q` is the power of a prime.
  explicit GaloisField(int q);

  int size() const { return q_; }
  int add(int a, int b) const { return combine(a, b, 1); }
  int subtract(int a, int b) const { return combine(a, b, p_ - 1); }
  int multiply(int a, int b) const;
  /// Of the primitive element; `exponent` >= 0.
  int power(int exponent) const;

 private:
  int combine(int a, int b, int factor) const;
  bool try_rule(int r);

  int q_;
  int p_;
  std::vector<int> powers_;  // q - 1 of them
  std::vector<int> logarithm_;
};

}  // namespace starling::network_models
