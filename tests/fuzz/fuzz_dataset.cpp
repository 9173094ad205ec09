// Any bytes as data: the first says whether as images or labels of MNIST's format (plain or gzip), CIFAR-10's records, a
// table of digits, or a text.

#include <string>

#include "tests/fuzz/fuzz_data.hpp"

using namespace starling;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const test::TemporaryDirectory directory;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  static const std::string images =
      directory.write("images", std::string("\0\0\x08\x03\0\0\0\2\0\0\0\1\0\0\0\1\x10\x20", 18));
  static const std::string labels =
      directory.write("labels", std::string("\0\0\x08\x01\0\0\0\2\0\1", 10));
  DatasetSettings samples;
  SequenceSettings sequences;
  sequences.test_fraction = 0.2;
  samples.train_images = samples.test_images = images;
  samples.train_labels = samples.test_labels = labels;
  const auto load_samples = [&](const char* kind, const std::string& path) {
    samples.kind = kind;
    samples.path = path;
    test::allow_refusal([&] { test::load(samples); });
  };
  const auto load_sequences = [&](const char* kind, const std::string& path) {
    sequences.kind = kind;
    sequences.path = path;
    test::allow_refusal([&] { test::load(sequences); });
  };
  switch (data[0] % 5) {
    case 0:
      samples.train_images = directory.write("any", bytes);
      load_samples("idx", "");
      break;
    case 1:
      samples.train_labels = directory.write("any", bytes);
      load_samples("idx", "");
      break;
    case 2:
      samples.batches.assign(6, directory.write("batch.bin", bytes));
      load_samples("cifar10", "");
      break;
    case 3:
      load_samples("digits", directory.write("any.csv", bytes));
      break;
    default:
      load_sequences("text", directory.write("any.txt", bytes));
  }
  return 0;
}
