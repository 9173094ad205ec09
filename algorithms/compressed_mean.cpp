#include "algorithms/compressed_mean.hpp"

#include <utility>
#include <vector>

#include "algorithms/collectives.hpp"

namespace starling::algorithms {

Task<Vector> mean_of_codes(Node& node, std::span<const NodeId> members, Tag tag, SharedCodec codec,
                           Code own, std::size_t size, Step k) {
  Join decoded_mean = [&node, members, codec, size, k](std::span<const Vector> words) {
    std::vector<Vector> decoded;
    for (std::size_t i = 0; i < members.size(); ++i)
      decoded.push_back(codec->decode(words[i], size, code_stream(node, members[i], k), {}));
    return mean(decoded);
  };
  co_return co_await allgather(node, members, tag, std::move(own), std::move(decoded_mean));
}

Compression read_mean_compression(const Section& section, bool feeds_back, Tensors tensors) {
  return read_compression(section, feeds_back, "; codes do not add: each node's goes to all others",
                          tensors);
}

}  // namespace starling::algorithms
