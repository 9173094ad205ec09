// Sequences of tokens, which a transformer learns from: where they come from, by the key `dataset`:
//   text       a text file, cut into windows; every character is to be foretold from those before
//   sequences  labeled sequences of uneven length, made from the seed
//   hdf5       labeled sequences: x (samples, longest) of token numbers, y, length
// Sequences lie one after the other, without padding. As with other datasets, keys are read first
// and files later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/data/dataset.hpp"
#include "sim/base/section.hpp"

namespace starling {

/// Sequences and what is to be learned of them.
struct Sequences {
  std::vector<std::int32_t> tokens{};  // of all sequences, and one more at the end of a text
  std::vector<std::size_t> begin{};    // (samples) first token of each sequence
  Dataset samples{};                   // length of each and, for labeled ones, y; no features

  std::size_t length(std::size_t sample) const {
    return static_cast<std::size_t>(samples.length[sample]);
  }
  double bytes() const {
    return samples.bytes() + 4.0 * static_cast<double>(tokens.size()) +
           8.0 * static_cast<double>(begin.size());
  }
};

/// Training and held-out sequences over one vocabulary.
struct SplitSequences {
  Sequences train, test;
  bool predicts_next = false;  // the label of a token is the token that follows it in `tokens`
  int vocabulary = 0;          // tokens are 0 .. vocabulary - 1
  int classes = 0;             // of the labels; the vocabulary if predicts_next
  std::string description{};
};

struct SequenceSettings {
  std::string kind;  // "text", "sequences", "hdf5"
  std::string path;  // text: empty means the shipped sonnets; hdf5: required
  std::string test_path;
  double test_fraction = 0;

  int vocabulary = 0;  // sequences, from here on
  int classes = 0;
  std::size_t samples = 0, test_samples = 0;
  double median_length = 0, length_sigma = 0;
  double noise = 0;
};

/// Reads and checks the keys `dataset` and those of its kind; made sequences have at most `context` tokens. Call it
/// before Section::finish().
SequenceSettings read_sequence_settings(const Section& section, std::size_t context);

/// Reads or makes the sequences, none longer than `context`. `seed` matters to `sequences` only.
///
/// text: the characters (bytes behind a byte order mark) that occur, in their order, are the vocabulary; the last
/// test_fraction of the text is held out; both parts are cut into windows of `context` characters,
/// the last one shorter, so that each character is foretold once per epoch.
///
/// sequences: lengths are lognormal, rounded and kept within 2 .. context. A sequence of class c
/// begins anywhere and goes on by t <- t + 1 + c (mod vocabulary), but for a fraction `noise` of
/// the tokens, which are drawn anew: only pairs of neighbors tell the class, single tokens nothing.
///
/// Throws Error that names the file, what was expected and what was found.
SplitSequences load_sequences(const SequenceSettings& settings, std::size_t context,
                              std::uint64_t seed);

}  // namespace starling
