// What share of the entries of a gradient top-k sends at which step: smaller and smaller ones in the first periods of a run, as
// large models change fast there, then `keep` (Lin et al., "Deep Gradient Compression", ICLR 2018, section 3.3).
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "algorithms/codec.hpp"
#include "algorithms/context.hpp"

namespace starling::algorithms {

struct KeepSchedule {
  std::vector<SharedCodec> codecs;  // of the periods of the warm-up, then the final one
  Step warmup_period = 0;

  const SharedCodec& codec(Step k) const {
    const auto stretch = static_cast<std::size_t>(k / warmup_period);
    return codecs[std::min(stretch, codecs.size() - 1)];
  }
};

/// Reads the keys `warmup_keep`, `warmup_period` and `keep`. Of each of `tensors` that share is sent; empty: of the whole.
KeepSchedule read_keep_schedule(const Section& section, const Context& context,
                                const std::vector<std::size_t>& tensors);

}  // namespace starling::algorithms
