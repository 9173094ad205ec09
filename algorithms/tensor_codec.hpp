// Codes of models tensor by tensor, each encoded by itself, with a norm, a sign's magnitude or a share of the entries of its own:
// so frameworks compress, which are handed one layer after the other.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "algorithms/codec.hpp"

namespace starling::algorithms {

/// Reads `key`, called unit: what is compressed by itself, the whole model or each of the workload's `tensors`. Answers these; none
/// for the whole.
std::vector<std::size_t> read_unit(const Section& section, const std::vector<std::size_t>& tensors,
                                   std::string_view fallback, std::string_view key = "unit");

/// Encodes vectors that consist of `tensors`, sizes in order, tensor by tensor by `codec`; others, such as pieces of a model, whole.
/// `words_of` tells how many floats the code of so many floats has.
SharedCodec codec_of_tensors(SharedCodec codec, std::vector<std::size_t> tensors,
                             std::function<std::size_t(std::size_t)> words_of);

}  // namespace starling::algorithms
