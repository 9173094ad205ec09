// How classifiers are evaluated: by blocks of samples, whose scores are added in order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/dense/dense.hpp"
#include "sim/node/workload.hpp"

namespace starling {

/// What a block of samples adds to an evaluation.
struct Score {
  double loss = 0;  // sum over samples
  std::int64_t samples = 0;
  std::int64_t right = 0;  // whose largest logit (the first, if equal) is the label's
};

/// Scores rows of `classes` logits, `stride` apart, one for each of the losses that it leaves behind. The
/// logits do not survive.
inline Score score_logits(const dense::Kernels& kernels, std::size_t classes, float* logits,
                          std::size_t stride, const std::int32_t* labels,
                          std::vector<double>& losses) {
  Score score{.samples = std::ssize(losses)};
  for (std::size_t b = 0; b < losses.size(); ++b) {
    const float* row = logits + b * stride;
    score.right += std::max_element(row, row + classes) - row == labels[b];
  }
  kernels.softmax_cross_entropy(losses.size(), classes, logits, stride, labels, losses.data());
  for (const double loss : losses) score.loss += loss;
  return score;
}

/// Answers the requests with mean loss and accuracy; `scores` is (requests, blocks).
inline void answer(std::span<EvaluationRequest> requests, std::span<const Score> scores) {
  const std::size_t blocks = requests.empty() ? 0 : scores.size() / requests.size();
  for (std::size_t r = 0; r < requests.size(); ++r) {
    Score sum;
    for (const Score& score : scores.subspan(r * blocks, blocks)) {
      sum.loss += score.loss;
      sum.samples += score.samples;
      sum.right += score.right;
    }
    requests[r].loss = sum.loss / static_cast<double>(sum.samples);
    requests[r].accuracy = static_cast<double>(sum.right) / static_cast<double>(sum.samples);
  }
}

}  // namespace starling
