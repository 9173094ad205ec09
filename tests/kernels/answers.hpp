// What tests of workloads ask of one: its initial model, a gradient, and whether all builds of the dense kernels answer alike.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "kernels/dense/dense.hpp"
#include "sim/node/workload.hpp"

namespace starling::test {

/// What one gradient request brought; == compares bits.
struct Result {
  std::vector<float> gradient;
  double loss;
  friend bool operator==(const Result& a, const Result& b) {
    return std::bit_cast<std::uint64_t>(a.loss) == std::bit_cast<std::uint64_t>(b.loss) &&
           std::equal(a.gradient.begin(), a.gradient.end(), b.gradient.begin(), b.gradient.end(),
                      [](float p, float q) {
                        return std::bit_cast<std::uint32_t>(p) == std::bit_cast<std::uint32_t>(q);
                      });
  }
};

inline Result gradient(const Workload& workload, NodeId node, Step draw,
                       const std::vector<float>& x) {
  Result result{std::vector<float>(x.size(), 77.0f), 0};
  GradientRequest request{
      .node = node, .draw = draw, .x = x.data(), .gradient = result.gradient.data()};
  workload.gradients({&request, 1});
  result.loss = request.loss;
  return result;
}

inline std::vector<float> initial_model(const Workload& workload) {
  std::vector<float> x(workload.facts().parameters);
  workload.initial_model(x);
  return x;
}

/// Checks that `make(kernels)` answers at `x` (of node 1, draw 3) and scores it with the same bits whatever the build of the kernels.
template <class Make>
void check_every_build(const Make& make, const std::vector<float>& x) {
  const auto score = [&x](const Workload& workload) {
    EvaluationRequest request{.x = x.data()};
    workload.evaluate({&request, 1});
    return request;
  };
  const auto plain = make(dense::kernels_v1());
  const Result expected = gradient(plain, 1, 3, x);
  const EvaluationRequest expected_score = score(plain);
  CHECK(expected.loss - expected.loss == 0);  // finite
  for (const dense::Kernels* kernels : dense::runnable_kernels()) {
    CAPTURE(kernels->name);
    const auto other = make(*kernels);
    CHECK(gradient(other, 1, 3, x) == expected);
    CHECK(score(other).loss == expected_score.loss);
    CHECK(score(other).accuracy == expected_score.accuracy);
  }
}

}  // namespace starling::test
