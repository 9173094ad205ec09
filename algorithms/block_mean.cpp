#include "algorithms/block_mean.hpp"

#include <utility>

#include "algorithms/sums.hpp"

namespace starling::algorithms {

Task<Vector> BlockMean::of_models(Tag tag, Vector x, Vector start, Step number) {
  if (settings_.coded.is_exact()) {
    Vector mean = co_await average(node_, node_.everybody(), tag, x, settings_.collective);
    co_return mean;
  }
  const Vector progress = co_await of_progress(tag, difference(x, start), number);
  start.add(progress);
  co_return start;
}

Task<Vector> BlockMean::of_progress(Tag tag, Vector progress, Step number) {
  if (settings_.coded.is_exact() || progress.size() == 0) {
    Vector mean = co_await average(node_, node_.everybody(), tag, progress, settings_.collective);
    co_return mean;
  }
  Vector mean = co_await coded_.of(tag, std::move(progress), number);
  co_return mean;
}

BlockMean::Settings read_block_mean(const Section& section, const Context& context,
                                    MomentumPolicy policy, bool feeds_back) {
  BlockMean::Settings settings{.coded = read_mean_compression(section, context, feeds_back)};
  if (settings.coded.is_exact() || policy == MomentumPolicy::average)
    settings.collective = read_collective(section);
  return settings;
}

}  // namespace starling::algorithms
