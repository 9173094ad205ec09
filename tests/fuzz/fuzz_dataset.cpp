// Any bytes as data: the first says whether as images or labels of MNIST's format (plain or gzip), CIFAR-10's records, an
// HDF5 file with features or with sequences, a table of digits, or a text.

#include <string>

#include "kernels/dataset.hpp"
#include "kernels/sequences.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace starling;

namespace {

/// Labels, and what else is indexed by them, are within bounds.
void check(const Dataset& data) {
  ensure(data.y.size() == data.samples, "a label per sample");
  ensure(data.x.size() == data.samples * data.features, "all features of every sample");
  ensure(data.length.empty() || data.length.size() == data.samples, "a length per sample");
  for (const std::int32_t label : data.y)
    ensure(label >= 0 && label < data.classes, "a label is a class");
}

void check(const Sequences& sequences, int vocabulary) {
  ensure(sequences.begin.size() == sequences.samples.samples, "every sequence begins");
  for (std::size_t i = 0; i < sequences.begin.size(); ++i) {
    ensure(sequences.length(i) > 0 &&
               sequences.begin[i] + sequences.length(i) <= sequences.tokens.size(),
           "a sequence lies within the tokens");
  }
  for (const std::int32_t token : sequences.tokens)
    ensure(token >= 0 && token < vocabulary, "a token is a word");
}

void load(const DatasetSettings& settings) {
  const SplitDataset split = load_dataset(settings, 1);
  check(split.train);
  check(split.test);
}

void load(const SequenceSettings& settings) {
  const SplitSequences split = load_sequences(settings, 16, 1);
  check(split.train, split.vocabulary);
  check(split.test, split.vocabulary);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const test::TemporaryDirectory directory;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  static const std::string images =
      directory.write("images", std::string("\0\0\x08\x03\0\0\0\2\0\0\0\1\0\0\0\1\x10\x20", 18));
  static const std::string labels =
      directory.write("labels", std::string("\0\0\x08\x01\0\0\0\2\0\1", 10));
  test::allow_refusal([&] {
    switch (data[0] % 7) {
      case 0:
      case 1: {
        const std::string path = directory.write("any", bytes);
        const bool is_images = data[0] % 7 == 0;
        load(DatasetSettings{.kind = "idx",
                             .train_images = is_images ? path : images,
                             .train_labels = is_images ? labels : path,
                             .test_images = images,
                             .test_labels = labels});
        break;
      }
      case 2: {
        for (int part = 1; part <= 5; ++part)
          directory.write("data_batch_" + std::to_string(part) + ".bin", bytes);
        const std::string batch = directory.write("test_batch.bin", bytes);
        load(DatasetSettings{.kind = "cifar10",
                             .directory = std::filesystem::path(batch).parent_path().string()});
        break;
      }
      case 3:
        load(DatasetSettings{.kind = "hdf5", .path = directory.write("any.h5", bytes)});
        break;
      case 4:
        load(SequenceSettings{
            .kind = "hdf5", .path = directory.write("any.h5", bytes), .test_fraction = 0.2});
        break;
      case 5:
        load(DatasetSettings{.kind = "digits", .path = directory.write("any.csv", bytes)});
        break;
      default:
        load(SequenceSettings{
            .kind = "text", .path = directory.write("any.txt", bytes), .test_fraction = 0.2});
    }
  });
  return 0;
}
