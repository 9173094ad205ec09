// Mini-batches of sequences of like length, as Transformers are trained: a node's samples, sorted by
// length, are cut into `buckets` equal parts; a mini-batch comes from one of them, each as likely,
// and has n = min(batch_size, max_tokens / longest of the bucket) samples, 1 at least, drawn with
// replacement. So short sequences make large batches, and batches cost more or less the same in
// tokens but for what the limit on samples takes away (Li et al., "Breaking (Global) Barriers in
// Parallel Stochastic Optimization with Wait-Avoiding Group Averaging", IEEE TPDS 32(7), 2021,
// section 5.2: one random bucket, at most 8,192 tokens).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/base/types.hpp"

namespace starling {

/// A pure function of (seed, node, draw).
class BucketSampler {
 public:
  struct Limits {
    std::int64_t batch_size;  // samples, > 0
    std::int64_t buckets;     // > 0; a node with fewer samples has one for each
    std::int64_t max_tokens;  // > 0
  };

  /// `parts` are the samples of each node, none empty; `lengths` those of all samples.
  BucketSampler(const std::vector<std::vector<std::int32_t>>& parts,
                const std::vector<std::int32_t>& lengths, Limits limits, std::uint64_t seed);

  /// Writes the samples of the node's draw-th mini-batch.
  void batch(NodeId node, Step draw, std::vector<std::int32_t>& samples) const;

  /// Samples of a mini-batch, the mean over the nodes of the mean over a node's buckets.
  double mean_batch_size() const;

 private:
  struct Bucket {
    std::size_t begin, end;  // of samples_
    std::int64_t batch_size;
  };

  std::vector<std::int32_t> samples_;      // nodes one after the other, each sorted by length
  std::vector<Bucket> buckets_;            // the same
  std::vector<std::size_t> first_bucket_;  // (nodes + 1)
  std::uint64_t seed_;
};

}  // namespace starling
