// 1-bit SGD: an allreduce in two phases, both compressed, both with error feedback. Node s owns the s-th of n pieces:
//
//   p_i <- learning_rate * g_i + e_i;   piece s of it goes to node s as Q(p_i[s]);   e_i <- p_i - Q(p_i)
//   owner s    r_s <- mean_i Q(p_i[s]) + f_s;   Q(r_s) goes to everybody;            f_s <- r_s - Q(r_s)
//   x[s] <- x[s] - Q(r_s)
//
// Each node sends 2 (n - 1) / n of a code of the whole model. Q is one bit per entry and two values per piece, or any
// other codec. Momentum and weight decay come before p_i and are the node's own. All replicas stay equal.
//
// Seide, Fu, Droppo, Li, Yu, "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel
// Distributed Training of Speech DNNs", Interspeech 2014. It begins without compression (`exact_steps`). There two values
// per column of a matrix, and AdaGrad between the phases.

#include "algorithms/codec.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/shards.hpp"

namespace starling::algorithms {
namespace {

struct Settings {
  SharedCodec codec;
  Step exact_steps;
  OptimizerSettings optimizer;
};

/// Codes of node `sender` at step k in phase 1, one for each owner, or its one in phase 2.
Random stream_of(const Node& node, NodeId sender, Step k, NodeId owner, int phase) {
  return code_stream(node, sender, k * node.nodes() + owner, phase == 1 ? "code" : "downlink");
}

Task<> run(Node& node, const Settings& settings) {
  const NodeId n = node.nodes();
  const SharedCodec exact = exact_codec();
  Optimizer optimizer(settings.optimizer);
  std::vector<ErrorFeedback> feedback(static_cast<std::size_t>(n));  // by owner of the piece
  ErrorFeedback own_feedback;                                        // of the piece owned
  Vector x = node.initial_model();
  for (Step k = 0; k < node.steps(); ++k) {
    const Codec& codec = k < settings.exact_steps ? *exact : *settings.codec;
    const Gradient g = co_await node.gradient(x);
    Vector step = optimizer.direction(g.values, x);
    step.scale(settings.optimizer.rate(k));
    for (NodeId s = 0; s < n; ++s) {
      const Vector piece = shard(step, s, n);
      if (piece.size() == 0) continue;
      const Encoded sent = feedback[static_cast<std::size_t>(s)].encode(
          codec, piece, stream_of(node, node.id(), k, s, 1));
      node.send_code(s, tag_of(Channel::request, k), sent.code);
    }
    const std::size_t own_size = shard(x, node.id(), n).size();
    std::vector<Vector> pieces;
    for (NodeId i = 0; i < n && own_size > 0; ++i) {
      const Message m = co_await node.receive(i, tag_of(Channel::request, k));
      pieces.push_back(codec.decode(m.values, own_size, stream_of(node, i, k, node.id(), 1), {}));
    }
    if (own_size > 0) {
      const Encoded sent =
          own_feedback.encode(codec, mean(pieces), stream_of(node, node.id(), k, node.id(), 2));
      for (NodeId i = 0; i < n; ++i) node.send_code(i, tag_of(Channel::reply, k), sent.code);
    }
    std::vector<Vector> updates;
    for (NodeId s = 0; s < n; ++s) {
      const std::size_t size = shard(x, s, n).size();
      if (size == 0) continue;
      const Message m = co_await node.receive(s, tag_of(Channel::reply, k));
      updates.push_back(codec.decode(m.values, size, stream_of(node, s, k, s, 2), {}));
    }
    x.add_scaled(-1, join_shards(updates));
    node.end_step(k, x);
  }
}

}  // namespace

Program one_bit(const Section& section, const Context& context) {
  Settings settings;
  settings.codec = read_codec(section, "one_bit");
  section.expect(!settings.codec->needs_reference(), "compression",
                 "must not need a reference vector: gradients are near nothing");
  settings.exact_steps =
      section.optional<std::int64_t>("exact_steps", 0, "steps before compression begins");
  section.expect(settings.exact_steps >= 0, "exact_steps", "must not be negative, got {}",
                 settings.exact_steps);
  settings.optimizer = read_optimizer(section, context.steps);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
