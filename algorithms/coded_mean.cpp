#include "algorithms/coded_mean.hpp"

#include <string>
#include <utility>
#include <vector>

#include "algorithms/collectives.hpp"

namespace starling::algorithms {
namespace {

/// Codes of a fixed size are expected to make an average so much cheaper.
void warn_of_gathering(const Section& section, const Codec& codec, NodeId nodes) {
  const double share = codec.bits_of_entry() / 32.0;
  const double models = share * (nodes - 1);
  const double summed = 2.0 * (nodes - 1) / nodes;
  if (models <= summed) return;
  section.warn(
      "compression",
      "= {} sends more than none: each node's code goes to all others, {:.4g} models, where a "
      "ring of sums takes {:.4g}; code_route = owners sends {:.4g}",
      section.peek<std::string>("compression", ""), models, summed, share * summed);
}

}  // namespace

Task<Vector> mean_of_codes(Node& node, std::span<const NodeId> members, Tag tag, SharedCodec codec,
                           Code own, std::size_t size, Step k) {
  Join decoded_mean = [&node, members, codec, size, k](std::span<const Vector> words) {
    std::vector<Vector> decoded;
    for (std::size_t i = 0; i < members.size(); ++i)
      decoded.push_back(codec->decode(words[i], size, code_stream(node, members[i], k), {}));
    return mean(decoded);
  };
  Vector mean = co_await allgather(node, members, tag, std::move(own), std::move(decoded_mean));
  co_await decoding(node, *codec, mean, members.size());
  co_return mean;
}

CodedMean::CodedMean(Node& node, const Settings& settings)
    : node_(node), settings_(settings), compressor_(settings.compression) {}

Task<Vector> CodedMean::of(Tag tag, Vector v, Step number) {
  const Compression& compression = settings_.compression;
  const std::size_t size = v.size();
  if (!settings_.by_owners) {
    co_await encoding(node_, *compression.codec, v);
    const Code own = compressor_.encode(std::move(v), code_stream(node_, node_.id(), number));
    co_return co_await mean_of_codes(node_, node_.everybody(), tag, compression.codec, own, size,
                                     number);
  }
  if (!phases_) {
    const std::vector<SharedCodec> one_for_all{compression.codec};
    phases_.emplace(node_, size, one_for_all, compression.has_feedback);
  }
  const CodedPhases::Round round{tag, number};
  co_await phases_->send_pieces(round, v);
  const Vector own = co_await phases_->mean_of_own(round);
  if (own) co_await phases_->send_result(round, own);
  co_return co_await phases_->receive_results(round);
}

CodedMean::Settings read_mean_compression(const Section& section, const Context& context,
                                          bool feeds_back, Tensors tensors) {
  CodedMean::Settings settings{};
  // Owners know no tensors, but pieces.
  const bool asks_owners = section.peek<std::string>("code_route", "") == "owners";
  settings.compression = read_compression(
      section, feeds_back,
      {.note = "; codes do not add, see code_route", .tensors = asks_owners ? nullptr : tensors});
  if (settings.is_exact()) return settings;
  settings.by_owners = section.choice<bool>(
      "code_route", {{"gather", false}, {"owners", true}}, "gather",
      "how codes become a mean: each node's goes to all others, who add up; or "
      "pieces of it to the nodes that own them, whose means, encoded again, go to "
      "all, message by message whatever network.collectives says");
  if (!settings.by_owners) warn_of_gathering(section, *settings.compression.codec, context.nodes);
  return settings;
}

}  // namespace starling::algorithms
