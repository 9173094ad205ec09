// Sums that are computed with their gradient, by workloads that make a gradient as a whole: it is added up while it lies in
// the cache, and no node keeps one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "kernels/dense/dense.hpp"
#include "kernels/divided_products.hpp"
#include "kernels/finite.hpp"
#include "sim/node/workload.hpp"

namespace starling {

/// Sets the loss to compute(gradient), or NaN if the gradient is not finite, with a place for the gradient, (parameters): that
/// of the request, or one of the thread's, from which its sums follow (GradientRequest::sums). `member`: of that thread, or null.
template <class Compute>
void make_whole_gradient(GradientRequest& request, std::size_t parameters,
                         const dense::Kernels& kernels, Crew::Member* member,
                         const Compute& compute) {
  const auto fill = [&](float* gradient) {
    const double loss = compute(gradient);
    request.loss = loss_with(all_finite({gradient, parameters}), loss);
  };
  if (request.sums.empty()) return fill(request.gradient);
  thread_local std::vector<float> gradient;  // lives on between calls
  gradient.resize(parameters);
  fill(gradient.data());
  for (const LinearJob& job : request.sums) {
    std::array<LinearTerm, most_folded_terms> terms;
    std::transform(
        request.terms + job.first_term, request.terms + job.first_term + job.terms, terms.begin(),
        [](const LinearTerm& term) {
          return term.values == nullptr ? LinearTerm{gradient.data(), term.factor} : term;
        });
    DividedProducts(kernels, member).over(job.length, job.terms + 1, [&](dense::Range range) {
      kernels.linear(job.out, terms.data(), job.terms, range.begin, range.end, false);
    });
  }
}

}  // namespace starling
