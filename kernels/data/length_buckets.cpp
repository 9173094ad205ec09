#include "kernels/data/length_buckets.hpp"

#include <algorithm>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"

namespace starling {

BucketSampler::BucketSampler(const std::vector<std::vector<std::int32_t>>& parts,
                             const std::vector<std::int32_t>& lengths, Limits limits,
                             std::uint64_t seed)
    : first_bucket_{0}, seed_(seed) {
  const auto length = [&lengths](std::int32_t sample) {
    return lengths[static_cast<std::size_t>(sample)];
  };
  for (const auto& part : parts) {
    ensure(!part.empty(), "every node needs at least one sample");
    const std::size_t first = samples_.size();
    samples_.insert(samples_.end(), part.begin(), part.end());
    std::stable_sort(samples_.begin() + static_cast<std::ptrdiff_t>(first), samples_.end(),
                     [&](std::int32_t a, std::int32_t b) { return length(a) < length(b); });
    const auto count = std::min(static_cast<std::size_t>(limits.buckets), part.size());
    for (std::size_t b = 0; b < count; ++b) {
      const std::size_t begin = first + b * part.size() / count;
      const std::size_t end = first + (b + 1) * part.size() / count;
      const std::int64_t longest = length(samples_[end - 1]);
      buckets_.push_back(
          {begin, end,
           std::clamp<std::int64_t>(limits.max_tokens / longest, 1, limits.batch_size)});
    }
    first_bucket_.push_back(buckets_.size());
  }
}

void BucketSampler::batch(NodeId node, Step draw, std::vector<std::int32_t>& samples) const {
  const auto i = static_cast<std::size_t>(node);
  ensure(node >= 0 && i + 1 < first_bucket_.size(), "a mini-batch of a node that does not exist");
  Random random(seed_, "length buckets", node, draw);
  const Bucket& bucket =
      buckets_[first_bucket_[i] + random.below(first_bucket_[i + 1] - first_bucket_[i])];
  samples.resize(static_cast<std::size_t>(bucket.batch_size));
  for (std::int32_t& sample : samples) {
    sample = samples_[bucket.begin + random.below(bucket.end - bucket.begin)];
  }
}

double BucketSampler::mean_batch_size() const {
  const std::size_t nodes = first_bucket_.size() - 1;
  double mean = 0;
  for (std::size_t i = 0; i < nodes; ++i) {
    double sum = 0;
    for (std::size_t b = first_bucket_[i]; b < first_bucket_[i + 1]; ++b)
      sum += static_cast<double>(buckets_[b].batch_size);
    mean += sum / static_cast<double>(first_bucket_[i + 1] - first_bucket_[i]);
  }
  return mean / static_cast<double>(nodes);
}

}  // namespace starling
