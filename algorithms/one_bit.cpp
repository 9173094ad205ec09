// 1-bit SGD: an allreduce in two phases, both compressed, both with error feedback. Node s owns the s-th of n pieces:
//
//   p_i <- g_i + e_i;   piece s of it goes to node s as Q(p_i[s]);   e_i <- p_i - Q(p_i)
//   owner s    d <- the optimizer's step for mean_i Q(p_i[s]), of its piece alone
//              r_s <- learning_rate * d + f_s;   Q(r_s) goes to everybody;   f_s <- r_s - Q(r_s)
//   x[s] <- x[s] - Q(r_s)
//
// Each node sends 2 (n - 1) / n of a code of the whole model. Q is one bit per entry and two values per column of a weight
// matrix, the weights into one unit; a vector, or a tensor of a model without matrices, is one column, and so is what a piece
// has of one. Q may be any other codec. All replicas stay equal. The published rule of the owners is optimizer = adagrad. What
// phase 1 loses of a gradient takes the learning rate of the step in which it travels. With steps_by = nodes every node takes
// its own step first,
//
//   p_i <- learning_rate * (the optimizer's step for g_i) + e_i;   r_s <- mean_i Q(p_i[s]) + f_s
//
// Seide, Fu, Droppo, Li, Yu, "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel
// Distributed Training of Speech DNNs", Interspeech 2014. It begins without compression (`exact_steps`).

#include "algorithms/codec.hpp"
#include "algorithms/column_order.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/numbers.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/shards.hpp"

namespace starling::algorithms {
namespace {

struct Settings {
  SharedCodec codec;
  Step exact_steps;
  bool owners_step;
  OptimizerSettings optimizer;
};

/// Codes of node `sender` at step k in phase 1, one for each owner, or its one in phase 2.
Random stream_of(const Node& node, NodeId sender, Step k, NodeId owner, int phase) {
  return code_stream(node, sender, k * node.nodes() + owner, phase == 1 ? "code" : "downlink");
}

/// How the pieces are encoded, by owner.
std::vector<SharedCodec> codecs_of(const Node& node, const ColumnOrder& order,
                                   const SharedCodec& codec) {
  std::vector<SharedCodec> codecs;
  const auto pieces = static_cast<std::size_t>(node.nodes());
  for (std::size_t s = 0; s < pieces; ++s) {
    const std::size_t begin = s * node.parameters() / pieces;
    const std::size_t end = (s + 1) * node.parameters() / pieces;
    const SharedCodec of_columns = codec->of_columns(order.columns_in(begin, end - begin));
    codecs.push_back(of_columns ? of_columns : codec);
  }
  return codecs;
}

Task<> run(Node& node, const Settings& settings) {
  const NodeId n = node.nodes();
  const ColumnOrder order(node);
  const std::vector<SharedCodec> coded = codecs_of(node, order, settings.codec);
  const std::vector<SharedCodec> exact(coded.size(), exact_codec());
  Optimizer optimizer(settings.optimizer);
  std::vector<ErrorFeedback> feedback(coded.size());  // by owner of the piece
  ErrorFeedback own_feedback;                         // of the piece owned
  Vector x = node.initial_model();
  const std::size_t own_size = shard(x, node.id(), n).size();
  for (Step k = 0; k < node.steps(); ++k) {
    const auto codec_of = [&](NodeId s) -> const Codec& {
      return *(k < settings.exact_steps ? exact : coded)[static_cast<std::size_t>(s)];
    };
    const double rate = settings.optimizer.rate(k);
    const Gradient g = co_await node.gradient(x);
    Vector p = g.values;
    if (!settings.owners_step) {
      p = optimizer.direction(p, x);
      p.scale(rate);
    }
    p = order.ordered(p);
    for (NodeId s = 0; s < n; ++s) {
      const Vector piece = shard(p, s, n);
      if (piece.size() == 0) continue;
      const Encoded sent = feedback[static_cast<std::size_t>(s)].encode(
          codec_of(s), piece, stream_of(node, node.id(), k, s, 1));
      node.send_code(s, tag_of(Channel::request, k), sent.code);
    }
    std::vector<Vector> pieces;
    for (NodeId i = 0; i < n && own_size > 0; ++i) {
      const Message m = co_await node.receive(i, tag_of(Channel::request, k));
      pieces.push_back(
          codec_of(node.id()).decode(m.values, own_size, stream_of(node, i, k, node.id(), 1), {}));
    }
    if (own_size > 0) {
      Vector r = mean(pieces);
      if (settings.owners_step) {
        r = optimizer.direction(r, shard(order.ordered(x), node.id(), n));
        r.scale(rate);
      }
      const Encoded sent =
          own_feedback.encode(codec_of(node.id()), r, stream_of(node, node.id(), k, node.id(), 2));
      for (NodeId i = 0; i < n; ++i) node.send_code(i, tag_of(Channel::reply, k), sent.code);
    }
    std::vector<Vector> updates;
    for (NodeId s = 0; s < n; ++s) {
      const std::size_t size = shard(x, s, n).size();
      if (size == 0) continue;
      const Message m = co_await node.receive(s, tag_of(Channel::reply, k));
      updates.push_back(codec_of(s).decode(m.values, size, stream_of(node, s, k, s, 2), {}));
    }
    x.add_scaled(-1, order.restored(join_shards(updates)));
    node.end_step(k, x);
  }
}

}  // namespace

Program one_bit(const Section& section, const Context& context) {
  Settings settings;
  settings.codec = read_plain_codec(section, "one_bit");
  settings.exact_steps =
      read_at_least(section, "exact_steps", 0, 0, "steps before compression begins");
  warn_beyond_run(section, "exact_steps", settings.exact_steps, context, "nothing is compressed");
  settings.owners_step =
      section.choice("steps_by", {"owners", "nodes"}, "owners",
                     "who turns gradients into steps: owners of pieces, from the mean, or every "
                     "node before it is sent") == "owners";
  settings.optimizer = read_optimizer(section, context);
  section.expect(!settings.owners_step || settings.optimizer.clip_norm == 0, "clip_norm",
                 "needs the whole gradient, which no owner has: take steps_by = nodes");
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
