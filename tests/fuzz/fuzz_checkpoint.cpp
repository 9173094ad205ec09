// Any bytes as a checkpoint. The first says whether the checksums are put right first, so that what they guard is
// reached, too.

#include <cstring>
#include <string>
#include <vector>

#include "sim/base/checksum.hpp"
#include "sim/record/checkpoint.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace starling;

namespace {

/// Walks over what could be sections and corrects their checksums.
void mend(std::string& bytes) {
  constexpr std::size_t preamble = 24, heading = 16, ending = 8;
  std::size_t at = preamble;
  while (at + heading + ending <= bytes.size()) {
    std::uint64_t content = 0;
    std::memcpy(&content, bytes.data() + at + 8, sizeof content);
    if (content > bytes.size() - at - heading - ending) return;
    const std::size_t length = heading + (content + 7) / 8 * 8;
    if (at + length + ending > bytes.size()) return;
    const std::uint32_t checksum = crc32c(std::as_bytes(std::span(bytes.data() + at, length)));
    std::memcpy(bytes.data() + at + length, &checksum, sizeof checksum);
    at += length + ending;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const test::TemporaryDirectory directory;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if ((data[0] & 1) != 0) mend(bytes);
  const std::string path = directory.write("run.h5.checkpoint", bytes);
  test::allow_refusal([&] {
    const CheckpointFile file(path);
    const Checkpoint& content = file.content();
    ensure(content.legs.size() >= 2, "a checkpoint has a place");
    double sum = 0;
    for (const double number : content.journal) sum += number;
    for (std::size_t i = 0; i < content.vectors.size(); ++i) {
      const std::span<const float> vector = file.vector(i);
      ensure(vector.size() == content.vectors[i].size, "a vector is as long as it says");
      for (const float x : vector) sum += static_cast<double>(x);
    }
    ensure(sum == sum || sum != sum, "all numbers can be read");
  });
  return 0;
}
