// Deals samples to nodes, and walks through a node's samples in a new order every epoch without
// storing one. The order of an epoch must be cheap to enter anywhere: a batch needs a few positions
// of it, and rebuilding a permutation of thousands of samples for it would cost more than a
// gradient.
//
// * Up to 64 samples: a Fisher-Yates shuffle on the stack, about 2 ns per sample.
// * More: a keyed bijection of {0, .., 2^bits - 1}, rounds of
//
//     x <- (m x + c) mod 2^bits,    x <- x xor (x >> ceil(bits / 2)),    m odd,
//
//   each of which can be undone. A result outside of {0, .., n - 1} is put in again until one is
//   inside (cycle walking: Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA
//   2002), two passes on average at most. With six rounds, chi-square tests of pairs of positions
//   (n = 65 .. 300, 4 million epochs) find nothing; with four they do.
#include "kernels/data/partition.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <queue>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/numbers.hpp"
#include "sim/base/random.hpp"

namespace starling {
namespace {

using Parts = std::vector<std::vector<std::int32_t>>;  // (nodes), samples of each

constexpr double most_alpha = 1e12;  // of Dirichlet; beyond, parts are equal in any case

// --- Dealing ------------------------------------------------------------------------------------

std::vector<std::int32_t> shuffled(std::size_t samples, Random random) {
  std::vector<std::int32_t> order(samples);
  std::iota(order.begin(), order.end(), 0);
  random.shuffle(order);
  return order;
}

/// Cuts `order` into nodes * shards_per_node shards, as equal as can be, and deals them at random.
Parts deal_shards(std::span<const std::int32_t> order, std::size_t nodes,
                  std::size_t shards_per_node, Random random) {
  const std::size_t shards = nodes * shards_per_node;
  std::vector<std::size_t> owner(shards);
  for (std::size_t s = 0; s < shards; ++s) owner[s] = s / shards_per_node;
  random.shuffle(owner);
  Parts parts(nodes);
  for (std::size_t s = 0; s < shards; ++s) {
    const std::size_t first = s * order.size() / shards;
    const std::size_t last = (s + 1) * order.size() / shards;
    for (const std::int32_t sample : order.subspan(first, last - first))
      parts[owner[s]].push_back(sample);
  }
  return parts;
}

/// Cuts the samples as they come into parts as equal as can be.
Parts deal_in_order(std::size_t samples, std::size_t nodes) {
  Parts parts(nodes);
  for (std::size_t i = 0; i < nodes; ++i) {
    for (std::size_t s = i * samples / nodes; s < (i + 1) * samples / nodes; ++s) {
      parts[i].push_back(static_cast<std::int32_t>(s));
    }
  }
  return parts;
}

/// Every node without a sample takes one from the node that has most, the lowest of several.
void fill_empty(Parts& parts) {
  std::priority_queue<std::pair<std::size_t, NodeId>> richest;  // (samples, -node)
  for (std::size_t i = 0; i < parts.size(); ++i)
    richest.emplace(parts[i].size(), -static_cast<NodeId>(i));
  for (std::vector<std::int32_t>& part : parts) {
    if (!part.empty()) continue;
    const auto [size, negated] = richest.top();
    richest.pop();
    std::vector<std::int32_t>& giver = parts[static_cast<std::size_t>(-negated)];
    part.push_back(giver.back());
    giver.pop_back();
    richest.emplace(size - 1, negated);
  }
}

/// Splits the samples of one label in proportions from Dirichlet(alpha): gamma variates by their
/// sum.
void deal_label(std::span<const std::int32_t> samples, double alpha, Random random, Parts& parts) {
  std::vector<double> up_to(parts.size());  // sums of the gamma variates of nodes 0 .. i
  double sum = 0;
  for (double& bound : up_to) bound = sum += random.gamma(alpha);
  if (sum == 0) {  // a tiny alpha lets all variates underflow; in that limit one node gets all
    const auto only = static_cast<std::ptrdiff_t>(random.below(parts.size()));
    std::fill(up_to.begin() + only, up_to.end(), sum = 1);
  }
  const auto count = static_cast<double>(samples.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool is_all = up_to[i] == sum;
    const std::size_t end =
        is_all ? samples.size() : static_cast<std::size_t>(up_to[i] / sum * count);
    for (; next < end; ++next) parts[i].push_back(samples[next]);
  }
}

Parts deal_dirichlet(const Dataset& train, std::size_t nodes, double alpha, std::uint64_t seed) {
  std::vector<std::vector<std::int32_t>> by_label(static_cast<std::size_t>(train.classes));
  for (const std::int32_t sample : shuffled(train.samples, Random(seed, "partition order"))) {
    by_label[static_cast<std::size_t>(train.y[static_cast<std::size_t>(sample)])].push_back(sample);
  }
  Parts parts(nodes);
  for (std::size_t label = 0; label < by_label.size(); ++label) {
    const Random random(seed, "partition proportions", shared_stream, static_cast<Step>(label));
    deal_label(by_label[label], alpha, random, parts);
  }
  fill_empty(parts);
  return parts;
}

// --- Orders of an epoch -------------------------------------------------------------------------

/// Spreads 64 random bits to any number of them: splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
class Expander {
 public:
  explicit Expander(Random random) : state_(std::uint64_t{random()} << 32 | random()) {}
  std::uint64_t operator()() {
    std::uint64_t bits = state_ += 0x9e3779b97f4a7c15u;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    return bits ^ (bits >> 31);
  }

 private:
  std::uint64_t state_;
};

/// A random permutation of {0, .., size - 1}, size > 1; see the head of the file.
class EpochOrder {
 public:
  EpochOrder(Random random, std::uint32_t size) : size_(size) {
    Expander bits(random);
    if (size <= few) {
      for (std::uint32_t i = 0; i < size; ++i) {  // inside out: i takes over what j held, j gets i
        const auto j = static_cast<std::uint32_t>((bits() >> 32) * (i + 1) >> 32);
        order_[i] = order_[j];
        order_[j] = static_cast<std::uint8_t>(i);
      }
      return;
    }
    const auto width = static_cast<int>(std::bit_width(size - 1));
    mask_ = (std::uint32_t{1} << width) - 1;
    shift_ = (width + 1) / 2;
    for (auto& [factor, addend] : rounds_) {
      const std::uint64_t drawn = bits();
      factor = static_cast<std::uint32_t>(drawn) | 1;
      addend = static_cast<std::uint32_t>(drawn >> 32);
    }
  }

  std::uint32_t operator()(std::uint32_t position) const {
    if (size_ <= few) return order_[position];
    do {
      for (const auto& [factor, addend] : rounds_) {
        position = (position * factor + addend) & mask_;
        position ^= position >> shift_;
      }
    } while (position >= size_);
    return position;
  }

 private:
  static constexpr std::uint32_t few = 64;
  struct Round {
    std::uint32_t factor, addend;
  };

  std::uint32_t size_;
  std::uint32_t mask_ = 0;
  int shift_ = 0;
  std::array<Round, 6> rounds_;
  std::array<std::uint8_t, few> order_;
};

/// Calls visit(index) for every sample of a node's draw-th mini-batch; index < size, its number of
/// samples.
template <class Visit>
void visit_batch(std::uint64_t seed, bool with_replacement, NodeId node, std::uint32_t size,
                 Step draw, std::int64_t batch_size, Visit visit) {
  if (with_replacement) {
    Random random(seed, "batches", node, draw);
    for (std::int64_t i = 0; i < batch_size; ++i)
      visit(static_cast<std::uint32_t>(random.below(size)));
    return;
  }
  if (size == 1) {  // an epoch is one sample: no order to make
    for (std::int64_t i = 0; i < batch_size; ++i) visit(0);
    return;
  }
  Step epoch = draw * batch_size / size;
  auto position = static_cast<std::uint32_t>(draw * batch_size % size);
  for (std::int64_t left = batch_size; left > 0; ++epoch, position = 0) {
    const EpochOrder order(Random(seed, "batches", node, epoch), size);
    for (; left > 0 && position < size; --left, ++position) visit(order(position));
  }
}

}  // namespace

std::string read_sampling(const Section& section) {
  return section.choice("sampling", {"epochs", "uniform"}, "epochs",
                        "mini-batches: each sample once per epoch, or drawn with replacement");
}

namespace {

std::string read_kind(const Section& section, const std::vector<std::string>& kinds) {
  return section.choice("partition", kinds, "iid", "how training samples are dealt to the nodes");
}

std::int64_t read_shards_per_node(const Section& section, std::int64_t fallback) {
  return read_whole(
      section, "shards_per_node", fallback, 1, 1'000'000,
      "pieces of the sorted samples that a node gets; the fewer, the less alike the nodes");
}

}  // namespace

PartitionSettings read_partition_settings(const Section& section, bool has_sampling) {
  PartitionSettings settings;
  settings.kind = read_kind(section, {"iid", "contiguous", "by_label", "dirichlet", "by_length"});
  if (settings.kind == "by_label" || settings.kind == "by_length") {
    settings.shards_per_node = read_shards_per_node(section, settings.kind == "by_label" ? 2 : 1);
  } else if (settings.kind == "dirichlet") {
    settings.alpha = read_positive(
        section, "alpha", 1,
        "concentration: near 0 a label lives on one node, a large value approaches iid");
    section.expect(settings.alpha <= most_alpha, "alpha", "must be at most {}, got {}", most_alpha,
                   settings.alpha);
  }
  if (has_sampling) settings.sampling = read_sampling(section);
  return settings;
}

PartitionSettings read_target_partition_settings(const Section& section) {
  PartitionSettings settings;
  settings.kind = read_kind(section, {"iid", "contiguous", "by_target"});
  if (settings.kind == "by_target") settings.shards_per_node = read_shards_per_node(section, 1);
  settings.sampling = read_sampling(section);
  return settings;
}

std::vector<std::vector<std::int32_t>> partition(const Section& section,
                                                 const PartitionSettings& settings,
                                                 const Dataset& train, NodeId nodes,
                                                 std::uint64_t seed) {
  ensure(nodes > 0, "partition needs at least one node");
  const auto node_count = static_cast<std::size_t>(nodes);
  const auto shards = static_cast<std::size_t>(settings.shards_per_node);
  section.expect(train.samples >= node_count * shards, shards > 1 ? "shards_per_node" : "partition",
                 "needs at least one training sample for each of {} nodes{}, found {} samples",
                 nodes, shards > 1 ? fmt::format(" times {} shards", shards) : "", train.samples);
  section.expect(settings.kind != "by_length" || train.length.size() == train.samples, "partition",
                 "by_length needs samples with lengths, and this dataset has none");
  if (!train.y.empty() && std::ranges::find(train.y, 0) == train.y.end()) {
    section.warn("dataset", "has no training sample of label 0; labels begin at 0");
  } else if (train.classes == 1) {
    section.warn("dataset", "has one class alone, so there is nothing to tell apart");
  }
  if (settings.kind == "dirichlet") return deal_dirichlet(train, node_count, settings.alpha, seed);
  if (settings.kind == "contiguous") return deal_in_order(train.samples, node_count);

  std::vector<std::int32_t> order = shuffled(train.samples, Random(seed, "partition order"));
  const auto sort_by = [&order](const auto& keys) {
    const auto key = [&keys](std::int32_t sample) {
      return keys[static_cast<std::size_t>(sample)];
    };
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return key(a) < key(b); });
  };
  if (settings.kind == "by_label") sort_by(train.y);
  if (settings.kind == "by_length") sort_by(train.length);
  if (settings.kind == "by_target") sort_by(train.target);
  return deal_shards(order, node_count, shards, Random(seed, "partition shards"));
}

BatchSampler::BatchSampler(const std::vector<std::vector<std::int32_t>>& parts,
                           std::int64_t batch_size, const std::string& sampling, std::uint64_t seed)
    : begin_{0}, batch_size_(batch_size), with_replacement_(sampling == "uniform"), seed_(seed) {
  ensure(batch_size > 0, "a mini-batch needs at least one sample");
  for (const auto& part : parts) {
    ensure(!part.empty(), "every node needs at least one sample");
    samples_.insert(samples_.end(), part.begin(), part.end());
    begin_.push_back(samples_.size());
  }
}

void BatchSampler::batch(NodeId node, Step draw, std::span<std::int32_t> indices) const {
  ensure(indices.size() == static_cast<std::size_t>(batch_size_),
         "room for a mini-batch has the wrong size");
  const auto held = part(node);
  auto out = indices.begin();
  visit_batch(seed_, with_replacement_, node, static_cast<std::uint32_t>(held.size()), draw,
              batch_size_, [&](std::uint32_t index) { *out++ = held[index]; });
}

std::int64_t BatchSampler::cost(NodeId node, Step draw, const Dataset& train) const {
  if (train.length.empty()) return batch_size_;
  const auto held = part(node);
  std::int64_t sum = 0;
  visit_batch(
      seed_, with_replacement_, node, static_cast<std::uint32_t>(held.size()), draw, batch_size_,
      [&](std::uint32_t index) { sum += train.length[static_cast<std::size_t>(held[index])]; });
  return sum;
}

BatchSampler::State BatchSampler::state() const {
  return {begin_, samples_, with_replacement_, Random(seed_, "batches")};
}

std::vector<std::int64_t> BatchSampler::samples() const {
  std::vector<std::int64_t> counts;
  for (std::size_t i = 1; i < begin_.size(); ++i) {
    counts.push_back(static_cast<std::int64_t>(begin_[i] - begin_[i - 1]));
  }
  return counts;
}

std::vector<std::int32_t> BatchSampler::labels(const Dataset& train) const {
  std::vector<std::int32_t> counts;
  if (train.y.empty()) return counts;
  for (NodeId node = 0; node < nodes(); ++node) {
    std::vector<char> has(static_cast<std::size_t>(train.classes));
    for (const std::int32_t sample : part(node))
      has[static_cast<std::size_t>(train.y[static_cast<std::size_t>(sample)])] = 1;
    counts.push_back(static_cast<std::int32_t>(std::ranges::count(has, 1)));
  }
  return counts;
}

std::span<const std::int32_t> BatchSampler::part(NodeId node) const {
  const auto i = static_cast<std::size_t>(node);
  ensure(node >= 0 && i + 1 < begin_.size(), "a mini-batch of a node that does not exist");
  return std::span(samples_).subspan(begin_[i], begin_[i + 1] - begin_[i]);
}

}  // namespace starling
