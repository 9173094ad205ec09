#include "algorithms/clustering.hpp"

#include <algorithm>

namespace starling::algorithms {
namespace {

using Counts = std::vector<std::size_t>;  // (clusters)

/// Slow nodes that live in each cluster.
Counts count_slow(const std::vector<bool>& slow, std::size_t clusters) {
  const std::size_t size = slow.size() / clusters;
  Counts count(clusters);
  for (std::size_t i = 0; i < slow.size(); ++i) count[i / size] += slow[i] ? 1 : 0;
  return count;
}

/// Slow nodes that serve cluster `c`.
std::size_t serving(const Counts& living, const Counts& handed, std::size_t c) {
  return living[c] - handed[c] + handed[(c + living.size() - 1) % living.size()];
}

/// How many of the `moving` nodes that each cluster hands on are slow at least.
Counts fewest_handed(const Counts& living, std::size_t size, std::size_t moving) {
  Counts handed;
  for (const std::size_t slow : living) {
    const std::size_t fast = size - slow;
    handed.push_back(moving > fast ? moving - fast : 0);
  }
  return handed;
}

/// Hands on one more where a cluster has two more than the next.
void even_out(Counts& handed, const Counts& living, std::size_t moving) {
  const std::size_t clusters = living.size();
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t c = 0; c < clusters; ++c) {
      const bool can = handed[c] < std::min(moving, living[c]);
      if (!can || serving(living, handed, c) < serving(living, handed, (c + 1) % clusters) + 2)
        continue;
      ++handed[c];
      changed = true;
    }
  }
}

/// Hands on one more where a cluster has more than `most`. From the fewest on, that finds a way if there is one; answers
/// whether there is.
bool fit(Counts& handed, const Counts& living, std::size_t moving, std::size_t most) {
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t c = 0; c < living.size(); ++c) {
      if (serving(living, handed, c) <= most) continue;
      if (handed[c] == std::min(moving, living[c])) return false;
      ++handed[c];
      changed = true;
    }
  }
  return true;
}

/// How many of the `moving` nodes that each cluster hands on are slow.
Counts spread(const Counts& living, std::size_t size, std::size_t moving, std::size_t tolerated) {
  const Counts fewest = fewest_handed(living, size, moving);
  Counts even = fewest;
  even_out(even, living, moving);
  for (std::size_t c = 0; c < living.size(); ++c) {
    if (serving(living, even, c) <= tolerated) continue;
    Counts within = fewest;
    return fit(within, living, moving, tolerated) ? within : even;
  }
  return even;
}

}  // namespace

std::vector<Assignment> assign_clusters(const std::vector<bool>& slow, std::size_t clusters,
                                        std::size_t tolerated) {
  const std::size_t size = slow.size() / clusters;
  const Counts living = count_slow(slow, clusters);
  const bool all_home = clusters == 1 || std::ranges::max(living) <= tolerated;
  const std::size_t moving = all_home ? 0 : size / 2;
  Counts slow_left = spread(living, size, moving, tolerated);
  Counts fast_left(clusters, moving);
  for (std::size_t c = 0; c < clusters; ++c) fast_left[c] -= slow_left[c];

  std::vector<Assignment> assignments(slow.size());
  Counts rows(clusters);
  for (std::size_t i = 0; i < slow.size(); ++i) {
    const std::size_t home = i / size;
    std::size_t& left = slow[i] ? slow_left[home] : fast_left[home];
    const bool moves = left > 0;
    if (moves) --left;
    const std::size_t cluster = moves ? (home + 1) % clusters : home;
    assignments[i] = {cluster, rows[cluster]++};
  }
  return assignments;
}

}  // namespace starling::algorithms
