#include "algorithms/clustering.hpp"

#include <algorithm>

namespace starling::algorithms {
namespace {

/// Slow workers that live in each cluster.
std::vector<std::size_t> count_slow(const std::vector<bool>& slow, std::size_t clusters) {
  const std::size_t size = slow.size() / clusters;
  std::vector<std::size_t> count(clusters);
  for (std::size_t w = 0; w < slow.size(); ++w) count[w / size] += slow[w] ? 1 : 0;
  return count;
}

/// How many of the `moving` workers that each cluster hands on are slow.
std::vector<std::size_t> spread(const std::vector<std::size_t>& living, std::size_t size,
                                std::size_t moving) {
  const std::size_t clusters = living.size();
  std::vector<std::size_t> handed(clusters);
  for (std::size_t c = 0; c < clusters; ++c) {
    const std::size_t fast = size - living[c];
    handed[c] = moving > fast ? moving - fast : 0;
  }
  const auto serving = [&](std::size_t c) {
    return living[c] - handed[c] + handed[(c + clusters - 1) % clusters];
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t c = 0; c < clusters; ++c) {
      const bool can = handed[c] < std::min(moving, living[c]);
      if (!can || serving(c) < serving((c + 1) % clusters) + 2) continue;
      ++handed[c];
      changed = true;
    }
  }
  return handed;
}

}  // namespace

std::vector<Assignment> assign_clusters(const std::vector<bool>& slow, std::size_t clusters,
                                        std::size_t tolerated) {
  const std::size_t size = slow.size() / clusters;
  const std::vector<std::size_t> living = count_slow(slow, clusters);
  const bool all_home = clusters == 1 || std::ranges::max(living) <= tolerated;
  const std::size_t moving = all_home ? 0 : size / 2;
  std::vector<std::size_t> slow_left = spread(living, size, moving);
  std::vector<std::size_t> fast_left(clusters, moving);
  for (std::size_t c = 0; c < clusters; ++c) fast_left[c] -= slow_left[c];

  std::vector<Assignment> assignments(slow.size());
  std::vector<std::size_t> rows(clusters);
  for (std::size_t w = 0; w < slow.size(); ++w) {
    const std::size_t home = w / size;
    std::size_t& left = slow[w] ? slow_left[home] : fast_left[home];
    const bool moves = left > 0;
    if (moves) --left;
    const std::size_t cluster = moves ? (home + 1) % clusters : home;
    assignments[w] = {cluster, rows[cluster]++};
  }
  return assignments;
}

}  // namespace starling::algorithms
