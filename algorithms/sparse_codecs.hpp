// Codecs that send a part of the entries: which ones, and what of them travels. The table of codec.hpp lists them.
//
//   top_k                   the largest in magnitude, of all entries or of each tensor
//   random_k                a random choice, the same on both sides
//   threshold               those that reach a fixed magnitude
//   gradient_dropping       those that reach the magnitude above which a share of a random sample lies (Aji and
//                           Heafield, "Sparse communication for distributed gradient descent", EMNLP 2017). The sample
//                           has 1 / keep entries or more, as its largest would stand for a larger share than keep
//   threshold_quantization  of those that reach a fixed magnitude T, +-T: 4 bytes for position and sign. The residual
//                           keeps the rest, of large entries, too (Strom, Interspeech 2015)
//   adaptive_quantization   of the positive and of the negative entries the share that is largest, each side as its
//                           mean (Dryden, Jacobs, Moon, Van Essen, "Communication quantization for data-parallel
//                           training of deep neural networks", MLHPC 2016)
//
// Where the count follows from values, a code waits for them (DESIGN.md, 27); without numbers it has keep * d entries.
#pragma once

#include <cstddef>
#include <vector>

#include "algorithms/codec.hpp"

namespace starling::algorithms {

/// How many of `size` entries a share `keep` of them is: at least one, at most all; one less if `is_strict`, but at least one.
std::uint32_t share_of(double keep, std::size_t size, bool is_strict = false);

/// `tensors` are the sizes, in order, of those that the vectors consist of; fewer than two: entries are chosen of the whole.
/// `is_strict` sends one entry less.
SharedCodec top_k_codec(double keep, bool is_strict = false, std::vector<std::size_t> tensors = {});
SharedCodec random_k_codec(double keep, bool is_unbiased);
SharedCodec threshold_codec(double threshold, double keep);
/// `sample` is the share of the entries that the threshold is found from.
SharedCodec gradient_dropping_codec(double keep, double sample);
SharedCodec threshold_quantization_codec(double threshold, double keep);
SharedCodec adaptive_quantization_codec(double keep);

}  // namespace starling::algorithms
