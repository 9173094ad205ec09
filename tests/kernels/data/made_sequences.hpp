// Labeled sequences for tests, made from a seed.
#pragma once

#include <cstddef>

#include "kernels/data/sequences.hpp"

namespace starling::dataset_test {

/// Of 16 tokens and 4 classes; 150 are held out.
inline SequenceSettings made_sequences(std::size_t samples, double noise) {
  SequenceSettings settings{.kind = "sequences", .path = "", .test_path = ""};
  settings.vocabulary = 16;
  settings.classes = 4;
  settings.samples = samples;
  settings.test_samples = 150;
  settings.median_length = 12;
  settings.length_sigma = 0.9;
  settings.noise = noise;
  return settings;
}

}  // namespace starling::dataset_test
