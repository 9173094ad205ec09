// The workload `auc`: any dataset, one class against the rest, as imbalanced as the scenario says.

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "kernels/auc_saddle.hpp"
#include "kernels/keys.hpp"
#include "kernels/registry.hpp"
#include "sim/base/numbers.hpp"

namespace starling::workloads {
namespace {

struct AucSettings {
  std::int32_t positive_class = 0;
  double positive_share = 0;  // of the training samples; 0: as they come
};

/// Labels 1 for the positive class, 0 for the rest; training samples of the side that is beyond its
/// wanted share are left out, the last ones first.
Dataset one_against_rest(const Dataset& from, const AucSettings& settings, bool thins) {
  const auto positives =
      static_cast<std::size_t>(std::ranges::count(from.y, settings.positive_class));
  std::size_t kept[2] = {from.samples - positives, positives};
  if (thins && settings.positive_share > 0) {
    const double odds = settings.positive_share / (1 - settings.positive_share);
    const double wanted[2] = {std::floor(static_cast<double>(kept[1]) / odds + 0.5),
                              std::floor(static_cast<double>(kept[0]) * odds + 0.5)};
    const std::size_t side = wanted[1] < static_cast<double>(kept[1]) ? 1 : 0;
    if (wanted[side] < static_cast<double>(kept[side]))
      kept[side] = static_cast<std::size_t>(wanted[side]);
  }
  Dataset data{.features = from.features, .classes = 2};
  data.x.reserve((kept[0] + kept[1]) * from.features);
  data.y.reserve(kept[0] + kept[1]);
  if (!from.length.empty()) data.length.reserve(kept[0] + kept[1]);
  std::size_t seen[2] = {0, 0};
  for (std::size_t s = 0; s < from.samples; ++s) {
    const bool is_positive = from.y[s] == settings.positive_class;
    const std::size_t side = is_positive ? 1 : 0;
    if (seen[side]++ >= kept[side]) continue;
    const auto row = from.row(s);
    data.x.insert(data.x.end(), row.begin(), row.end());
    data.y.push_back(is_positive ? 1 : 0);
    if (!from.length.empty()) data.length.push_back(from.length[s]);
    ++data.samples;
  }
  return data;
}

bool has_both(const Dataset& data, std::int32_t positive) {
  const auto positives = std::ranges::count(data.y, positive);
  return positives > 0 && positives < static_cast<std::ptrdiff_t>(data.samples);
}

}  // namespace

std::unique_ptr<Workload> auc(const Section& section, NodeId nodes, std::uint64_t seed) {
  Auc::Problem problem;
  problem.hidden =
      read_hidden(section, {}, "widths of the hidden layers of the score; none: linear");
  AucSettings settings;
  const std::int64_t positive =
      read_whole(section, "positive_class", 0, 0, 999'999, "the class to be ranked above the rest");
  settings.positive_class = static_cast<std::int32_t>(positive);
  settings.positive_share = read_share_below_1(
      section, "positive_share", 0,
      "share of positives among the training samples, by leaving out some of them, or of the rest; "
      "0: as they come");
  problem.seed = seed;
  problem.batch_size = read_batch_size(section);
  const SampleSettings samples = read_samples(section, problem);

  const SplitDataset all = load_samples(section, samples, seed);
  problem.data.train = one_against_rest(all.train, settings, true);
  problem.data.test = one_against_rest(all.test, settings, false);
  section.expect(has_both(all.train, settings.positive_class), "positive_class",
                 "must leave samples on both sides, got class {} of {} in {}", positive,
                 all.train.classes, all.description);
  section.expect(has_both(problem.data.train, 1), "positive_share",
                 "must leave samples on both sides, got {} in {}", settings.positive_share,
                 all.description);
  section.expect(has_both(problem.data.test, 1), "positive_class",
                 "must have test samples on both sides, got class {} in {}", positive,
                 all.description);
  problem.data.description =
      fmt::format("{}, class {} against the rest{}", all.description, positive,
                  problem.data.train.samples < all.train.samples
                      ? fmt::format(", {} training samples kept", problem.data.train.samples)
                      : "");
  deal_samples(section, samples.partition, nodes, problem);
  return std::make_unique<Auc>(std::move(problem));
}

}  // namespace starling::workloads
