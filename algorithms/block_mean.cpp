#include "algorithms/block_mean.hpp"

#include <utility>

#include "algorithms/compressed_mean.hpp"
#include "algorithms/sums.hpp"

namespace starling::algorithms {

Task<Vector> BlockMean::of_models(Tag tag, Vector x, Vector start, Step number) {
  if (settings_.compression.is_exact()) {
    Vector mean = co_await average(node_, node_.everybody(), tag, x, settings_.collective);
    co_return mean;
  }
  const Vector progress = co_await of_progress(tag, difference(x, start), number);
  start.add(progress);
  co_return start;
}

Task<Vector> BlockMean::of_progress(Tag tag, Vector progress, Step number) {
  const std::span<const NodeId> everybody = node_.everybody();
  const std::size_t size = progress.size();
  if (settings_.compression.is_exact() || size == 0) {
    Vector mean = co_await average(node_, everybody, tag, progress, settings_.collective);
    co_return mean;
  }
  const SharedCodec& codec = settings_.compression.codec;
  const Code own = compressor_.encode(std::move(progress), code_stream(node_, node_.id(), number));
  Vector mean = co_await mean_of_codes(node_, everybody, tag, codec, own, size, number);
  co_return mean;
}

BlockMean::Settings read_block_mean(const Section& section, MomentumPolicy policy,
                                    bool feeds_back) {
  BlockMean::Settings settings{.compression = read_mean_compression(section, feeds_back)};
  if (settings.compression.is_exact() || policy == MomentumPolicy::average)
    settings.collective = read_collective(section);
  return settings;
}

}  // namespace starling::algorithms
