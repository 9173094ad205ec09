#include "algorithms/compressed_mean.hpp"

#include "algorithms/collectives.hpp"

namespace starling::algorithms {

Task<Vector> mean_of_codes(Node& node, std::span<const NodeId> members, Tag tag, SharedCodec codec,
                           Code own, std::size_t size, Step k) {
  const std::vector<Vector> words = co_await allgather(node, members, tag, own);
  std::vector<Vector> decoded;
  for (std::size_t i = 0; i < members.size(); ++i) {
    decoded.push_back(codec->decode(words[i], size, code_stream(node, members[i], k), {}));
  }
  co_return mean(decoded);
}

Compression read_mean_compression(const Section& section, bool feeds_back, Tensors tensors) {
  return read_compression(section, feeds_back, "; codes do not add: each node's goes to all others",
                          tensors);
}

}  // namespace starling::algorithms
