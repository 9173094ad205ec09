#include "kernels/data/lengths.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.hpp"
#include "sim/base/number_file.hpp"
#include "sim/base/numbers.hpp"
#include "sim/base/random.hpp"
#include "sim/base/shipped_file.hpp"

namespace starling {
namespace {

constexpr double longest_sample = 1 << 24;  // tokens; more is surely no length
constexpr std::array shipped{"multi30k", "ucf101"};

/// The length of a sample, out of the one or two numbers of its line.
double length_of(std::span<const double> line, const std::string& pair) {
  if (line.size() == 1 || pair == "first") return line[0];
  if (pair == "second") return line[1];
  return pair == "sum" ? line[0] + line[1] : std::max(line[0], line[1]);
}

std::vector<std::int32_t> read_lengths(const std::string& path, const std::string& pair) {
  constexpr const char* expected = "the length of a sample, or of both halves of a pair";
  NumberFile file(path, "the lengths of workload.lengths", expected);
  std::vector<std::int32_t> lengths;
  while (file.next()) {
    if (file.values().size() > 2) file.refuse(expected);
    for (const double value : file.values()) {
      if (!(value >= 1 && value <= longest_sample && value == std::floor(value)))
        file.refuse(fmt::format("whole numbers from 1 to {}", longest_sample));
    }
    lengths.push_back(static_cast<std::int32_t>(length_of(file.values(), pair)));
  }
  if (lengths.empty())
    throw Error(fmt::format("{}: expected at least one length, found none", path));
  std::sort(lengths.begin(), lengths.end());
  return lengths;
}

}  // namespace

LengthSettings read_length_settings(const Section& section, std::string batching,
                                    std::int64_t batch_size) {
  LengthSettings settings{
      .path = {}, .pair = {}, .batching = std::move(batching), .batch_size = batch_size};
  const auto lengths = section.optional<std::string>(
      "lengths", shipped[0],
      fmt::format("whose samples, {}; or CSV file of tokens per sample",
                  fmt::join(shipped, " or ")));
  settings.path = std::ranges::find(shipped, lengths) == shipped.end()
                      ? section.resolve_path(lengths)
                      : shipped_file(fmt::format("{}_lengths.csv", lengths));
  settings.pair = section.choice("pair", {"sum", "longest", "first", "second"}, "sum",
                                 "length of a sample with two numbers");
  if (settings.batching == "bucket") {
    settings.buckets =
        read_whole(section, "buckets", 10, 1, 1'000'000, "parts of equal size, by length");
    settings.max_tokens = section.optional<std::int64_t>(
        "max_tokens", 8192, "most tokens of a batch, padding included");
    section.expect(settings.max_tokens >= 1, "max_tokens", "must be positive, got {}",
                   settings.max_tokens);
  }
  return settings;
}

LengthSampler::LengthSampler(LengthSettings settings, std::uint64_t seed)
    : settings_(std::move(settings)), seed_(seed) {
  lengths_ = read_lengths(settings_.path, settings_.pair);
  if (settings_.buckets > samples()) {
    throw Error(fmt::format("{}: expected at least one sample for each of {} buckets, found {}",
                            settings_.path, settings_.buckets, samples()));
  }
  cut();
}

void LengthSampler::cut() {
  const auto parts = static_cast<std::size_t>(settings_.buckets);
  for (std::size_t b = 0; b < parts; ++b) {
    const std::size_t begin = b * lengths_.size() / parts;
    const std::size_t end = (b + 1) * lengths_.size() / parts;
    std::int64_t batch = settings_.batch_size;
    if (settings_.max_tokens > 0)
      batch = std::clamp<std::int64_t>(settings_.max_tokens / lengths_[end - 1], 1, batch);
    buckets_.push_back({begin, end, batch});
  }
}

std::int64_t LengthSampler::cost(NodeId node, Step draw) const {
  Random random(seed_, "lengths", node, draw);
  const Bucket& bucket =
      buckets_.size() == 1 ? buckets_[0] : buckets_[random.below(buckets_.size())];
  std::int64_t sum = 0;
  std::int64_t longest = 0;
  for (std::int64_t s = 0; s < bucket.batch_size; ++s) {
    const std::int64_t length = lengths_[bucket.begin + random.below(bucket.end - bucket.begin)];
    sum += length;
    longest = std::max(longest, length);
  }
  return settings_.batching == "packed" ? sum : bucket.batch_size * longest;
}

double LengthSampler::mean_batch_size() const {
  double sum = 0;
  for (const Bucket& bucket : buckets_) sum += static_cast<double>(bucket.batch_size);
  return sum / static_cast<double>(buckets_.size());
}

}  // namespace starling
