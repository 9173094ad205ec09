// What every dataset promises, whatever file it was read from.
#pragma once

#include "kernels/data/dataset.hpp"
#include "kernels/data/sequences.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace starling::test {

/// Labels, and what else is indexed by them, are within bounds.
inline void check(const Dataset& data) {
  ensure(data.y.size() == data.samples, "a label per sample");
  ensure(data.x.size() == data.samples * data.features, "all features of every sample");
  ensure(data.length.empty() || data.length.size() == data.samples, "a length per sample");
  for (const std::int32_t label : data.y)
    ensure(label >= 0 && label < data.classes, "a label is a class");
}

inline void check(const Sequences& sequences, int vocabulary) {
  ensure(sequences.begin.size() == sequences.samples.samples, "every sequence begins");
  for (std::size_t i = 0; i < sequences.begin.size(); ++i) {
    ensure(sequences.length(i) > 0 &&
               sequences.begin[i] + sequences.length(i) <= sequences.tokens.size(),
           "a sequence lies within the tokens");
  }
  for (const std::int32_t token : sequences.tokens)
    ensure(token >= 0 && token < vocabulary, "a token is a word");
}

inline void load(const DatasetSettings& settings) {
  const SplitDataset split = load_dataset(settings, 1);
  check(split.train);
  check(split.test);
}

inline void load(const SequenceSettings& settings) {
  const SplitSequences split = load_sequences(settings, 16, 1);
  check(split.train, split.vocabulary);
  check(split.test, split.vocabulary);
}

inline void load_hdf5(const std::string& path, bool is_sequences) {
  if (is_sequences) {
    SequenceSettings settings;
    settings.kind = "hdf5";
    settings.path = path;
    settings.test_fraction = 0.2;
    load(settings);
  } else {
    DatasetSettings settings;
    settings.kind = "hdf5";
    settings.path = path;
    load(settings);
  }
}

}  // namespace starling::test
