#include "algorithms/coded_mean.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/pieces.hpp"

namespace starling::algorithms {
namespace {

/// Codes of a fixed size are expected to make an average so much cheaper.
void warn_of_gathering(const Section& section, const Codec& codec, NodeId nodes) {
  const double share = codec.bits_of_entry() / 32.0;
  const double models = share * (nodes - 1);
  const double summed = 2.0 * (nodes - 1) / nodes;
  if (models <= summed) return;
  const auto compression = section.peek<std::string>("compression", "");
  section.warn(
      "compression",
      "= {} sends more than none: each node's code goes to all others, {:.4g} models, where a "
      "ring of sums takes {:.4g}; code_route = owners{} sends {:.4g}",
      compression, models, summed,
      compression == "half" || compression == "bfloat" ? " or sums" : "", share * summed);
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

NameOfPiece name_of_piece(const Node& node, Tag tag, Step number, std::size_t i,
                          std::size_t count) {
  const std::size_t tags = std::max<std::size_t>(node.everybody().size(), 2);
  return {tag_of_part(tag, i * tags), number * static_cast<Step>(count) + static_cast<Step>(i)};
}

CodedMean::CodedMean(Node& node, const Settings& settings) : node_(node), settings_(settings) {}

Task<Vector> CodedMean::of(Tag tag, Vector v, Step number) {
  Vector mean;
  if (settings_.route == CodeRoute::sums) {
    mean = co_await sum(tag, std::move(v), number);
    co_return mean;
  }
  const Cut cut(node_, std::move(v));
  const std::size_t count = cut.count();
  pieces_.reserve(count);
  while (pieces_.size() < count) pieces_.push_back({Compressor(settings_.compression)});
  Parts means(count);
  for (std::size_t i = 0; i < count; ++i) {
    co_await node_.reached(cut[i]);
    const NameOfPiece name = name_of_piece(node_, tag, number, i, count);
    mean = co_await of_piece(pieces_[i], name.tag, cut.part(i), name.number);
    means.add(std::move(mean));
  }
  co_return means.join();
}

/// Of all pieces, by numbers of half precision.
Task<Vector> CodedMean::sum(Tag tag, Vector v, Step number) {
  const Compression& compression = settings_.compression;
  v.scale(1.0 / node_.nodes());
  if (compression.has_feedback) {
    v = feedback_.encode(*compression.codec, std::move(v), code_stream(node_, node_.id(), number))
            .decoded;
  }
  Vector mean = co_await allreduce(node_, node_.everybody(), tag, std::move(v),
                                   settings_.collective, 0, compression.codec.get());
  co_return mean;
}

Task<Vector> CodedMean::of_piece(OfPiece& piece, Tag tag, Vector v, Step number) {
  const Compression& compression = settings_.compression;
  const std::size_t size = v.size();
  Vector mean;
  if (settings_.route == CodeRoute::gather) {
    co_await encoding(node_, *compression.codec, v);
    const Code own = piece.compressor.encode(std::move(v), code_stream(node_, node_.id(), number));
    mean =
        co_await mean_of_codes(node_, node_.everybody(), tag, compression.codec, own, size, number);
    co_return mean;
  }
  if (!piece.phases) {
    const std::vector<SharedCodec> one_for_all{compression.codec};
    piece.phases.emplace(node_, size, one_for_all, compression.has_feedback);
  }
  CodedPhases& phases = *piece.phases;
  const CodedPhases::Round round{tag, number};
  co_await phases.send_pieces(round, v);
  const Vector own = co_await phases.mean_of_own(round);
  if (own) co_await phases.send_result(round, own);
  mean = co_await phases.receive_results(round);
  co_return mean;
}

CodedMean::Settings read_mean_compression(const Section& section, const Context& context,
                                          bool feeds_back, Tensors tensors) {
  CodedMean::Settings settings{};
  // Owners know no tensors, but pieces.
  const auto route = section.peek<std::string>("code_route", "gather");
  settings.compression = read_compression(section, feeds_back,
                                          {.note = "; codes do not add, see code_route",
                                           .tensors = route == "gather" ? tensors : nullptr});
  if (settings.is_exact()) return settings;
  const auto exchange = section.peek<std::string>("exchange", "whole");
  section.expect(exchange == "whole" || section.peek<std::string>("unit", "model") == "model",
                 "unit", "must be model with exchange = {}: each piece is coded by itself",
                 exchange);
  settings.route = section.choice<CodeRoute>(
      "code_route",
      {{"gather", CodeRoute::gather}, {"owners", CodeRoute::owners}, {"sums", CodeRoute::sums}},
      "gather",
      "how codes become a mean: each node's goes to all others, who add up; "
      "pieces of it to the nodes that own them, whose means, encoded again, go to "
      "all, message by message whatever network.collectives says; or, of half precision, "
      "`collective` adds up numbers of two bytes");
  if (settings.route == CodeRoute::gather)
    warn_of_gathering(section, *settings.compression.codec, context.nodes);
  if (settings.route == CodeRoute::sums) {
    const auto compression = section.peek<std::string>("compression", "");
    section.expect(compression == "half" || compression == "bfloat", "code_route",
                   "= sums adds up numbers of half precision, not codes of compression = {}",
                   compression);
    settings.collective = read_collective(section);
  }
  return settings;
}

}  // namespace starling::algorithms
