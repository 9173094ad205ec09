// Sentence lengths without sentences: how many tokens has a mini-batch? For runs that only keep
// time, where batches of uneven length are what makes nodes late.
//
// The file has one line per sample: its tokens, or two numbers for a pair of sentences, of which `pair` makes one length; some that
// come with the project have names (scenarios/data/README.md). Samples are drawn with replacement. `batching` says what a
// batch costs:
//
//   padded   batch_size samples, all as long as the longest of them: batch_size * longest
//   packed   batch_size samples without padding: the sum of their lengths
//   bucket   the samples, sorted by length, are cut into `buckets` equal parts; a batch comes from
//            one of them, each as likely, and has n = min(batch_size, max_tokens / longest of the
//            bucket) samples, 1 at least, padded: n * longest drawn. Batches of short sentences have
//            few tokens and those of long ones are capped, as in the Transformer runs of WAGMA-SGD (Li et al.,
//            IEEE TPDS 32(7), 2021, section 5.2: one random bucket, at most 8,192 tokens).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/section.hpp"
#include "sim/base/types.hpp"

namespace starling {

struct LengthSettings {
  std::string path;
  std::string pair;
  std::string batching;
  std::int64_t batch_size = 0;
  std::int64_t buckets = 1;
  std::int64_t max_tokens = 0;
};

/// Reads the keys of lengths: `lengths`, `pair` and those of `batching`. Call it before
/// Section::finish().
LengthSettings read_length_settings(const Section& section, std::string batching,
                                    std::int64_t batch_size);

/// Draws mini-batches; a pure function of (seed, node, draw).
class LengthSampler {
 public:
  /// Throws Error that names file and line.
  LengthSampler(LengthSettings settings, std::uint64_t seed);

  /// Tokens of the node's draw-th mini-batch, padding included.
  std::int64_t cost(NodeId node, Step draw) const;
  /// Samples of a mini-batch on the mean.
  double mean_batch_size() const;
  /// Samples in the file.
  std::int64_t samples() const { return std::ssize(lengths_); }

 private:
  struct Bucket {
    std::size_t begin, end;  // of lengths_
    std::int64_t batch_size;
  };
  void cut();

  LengthSettings settings_;
  std::uint64_t seed_;
  std::vector<std::int32_t> lengths_;  // ascending
  std::vector<Bucket> buckets_;        // one, of all samples, unless batching = bucket
};

}  // namespace starling
