// 1-bit SGD: an allreduce in two phases, both compressed, both with error feedback. Node s owns the s-th of n pieces:
//
//   p_i <- g_i + e_i;   piece s of it goes to node s as Q(p_i[s]);   e_i <- p_i - Q(p_i)
//   owner s    d <- the optimizer's step for mean_i Q(p_i[s]), of its piece alone
//              r_s <- learning_rate * d + f_s;   Q(r_s) goes to everybody;   f_s <- r_s - Q(r_s)
//   x[s] <- x[s] - Q(r_s)
//
// Each node sends 2 (n - 1) / n of a code of the whole model. Q is one bit per entry and two values per column of a weight
// matrix, the weights into one unit; a vector, or a tensor of a model without matrices, is one column, and so is what a piece
// has of one. Q may be any other codec. All replicas stay equal. The published rule of the owners is optimizer = adagrad. Where
// the learning rate changes, e_i is scaled so that what phase 1 lost of a gradient keeps the rate of its own step; published,
// `rescale_residual = no`, is that of the step in which it travels. With steps_by = nodes every node takes its own step first,
//
//   p_i <- learning_rate * (the optimizer's step for g_i) + e_i;   r_s <- mean_i Q(p_i[s]) + f_s
//
// Seide, Fu, Droppo, Li, Yu, "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel
// Distributed Training of Speech DNNs", Interspeech 2014. It begins without compression (`exact_steps`).

#include "algorithms/codec.hpp"
#include "algorithms/column_order.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/shards.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct OneBitSettings {
  SharedCodec codec;
  Step exact_steps;
  bool owners_step;
  bool rescales_residual;  // where owners step
  OptimizerSettings optimizer;
};

/// One node's side of both phases. Pieces are those of vectors in column order.
class CodedPhases {
 public:
  CodedPhases(Node& node, const OneBitSettings& settings, const ColumnOrder& order)
      : node_(node), settings_(settings), rate_(settings.rescales_residual) {
    const auto pieces = static_cast<std::size_t>(node.nodes());
    for (std::size_t s = 0; s < pieces; ++s) {
      const std::size_t begin = s * node.parameters() / pieces;
      const std::size_t size = (s + 1) * node.parameters() / pieces - begin;
      const SharedCodec of_columns = settings.codec->of_columns(order.columns_in(begin, size));
      parts_.push_back({.size = size, .codec = of_columns ? of_columns : settings.codec});
    }
  }

  /// Sends every owner its piece of `p`, which it applies at the learning rate `rate`. At a rate of 0 that is lost, so nothing
  /// that was held back goes along.
  void send_pieces(Step k, const Vector& p, double rate) {
    const double factor = rate_.come_to(rate);
    for (NodeId s = 0; s < node_.nodes(); ++s) {
      if (part(s).size == 0) continue;
      ErrorFeedback without_residual;
      ErrorFeedback& feedback = rate_.loses() ? without_residual : part(s).feedback;
      feedback.scale_residual(factor);
      const Encoded sent =
          feedback.encode(codec(s, k), shard(p, s, node_.nodes()), stream(k, me(), s, 1));
      node_.send_code(s, tag_of(Channel::request, k), sent.code);
    }
  }
  /// The mean of what all nodes sent of the piece that this one owns; nothing of an empty piece.
  Task<Vector> mean_of_own(Step k) {
    const std::size_t size = part(me()).size;
    if (size == 0) co_return Vector{};
    std::vector<Vector> pieces;
    for (NodeId i = 0; i < node_.nodes(); ++i) {
      const Message m = co_await node_.receive(i, tag_of(Channel::request, k));
      pieces.push_back(codec(me(), k).decode(m.values, size, stream(k, i, me(), 1), {}));
    }
    co_return mean(pieces);
  }
  /// Sends everybody the step of the piece that this node owns.
  void send_step(Step k, const Vector& r) {
    const Encoded sent = own_feedback_.encode(codec(me(), k), r, stream(k, me(), me(), 2));
    for (NodeId i = 0; i < node_.nodes(); ++i)
      node_.send_code(i, tag_of(Channel::reply, k), sent.code);
  }
  /// The steps of all pieces.
  Task<Vector> receive_steps(Step k) {
    std::vector<Vector> steps;
    for (NodeId s = 0; s < node_.nodes(); ++s) {
      if (part(s).size == 0) continue;
      const Message m = co_await node_.receive(s, tag_of(Channel::reply, k));
      steps.push_back(codec(s, k).decode(m.values, part(s).size, stream(k, s, s, 2), {}));
    }
    co_return join_shards(steps);
  }

 private:
  /// What the node keeps for one owner.
  struct Part {
    std::size_t size;
    SharedCodec codec;         // after the exact steps
    ErrorFeedback feedback{};  // of phase 1
  };

  NodeId me() const { return node_.id(); }
  Part& part(NodeId owner) { return parts_[static_cast<std::size_t>(owner)]; }
  const Codec& codec(NodeId owner, Step k) {
    return k < settings_.exact_steps ? *exact_ : *part(owner).codec;
  }
  /// Of the code that `sender` makes of an owner's piece.
  Random stream(Step k, NodeId sender, NodeId owner, int phase) const {
    return code_stream(node_, sender, k * node_.nodes() + owner, phase == 1 ? "code" : "downlink");
  }

  Node& node_;
  const OneBitSettings& settings_;
  SharedCodec exact_ = exact_codec();
  std::vector<Part> parts_;     // (owners)
  RateChange rate_;             // from step to step
  ErrorFeedback own_feedback_;  // of phase 2
};

Task<> run(Node& node, const OneBitSettings& settings) {
  const ColumnOrder order(node);
  CodedPhases phases(node, settings, order);
  Optimizer optimizer(settings.optimizer);
  Vector x = node.initial_model();
  for (Step k = 0; k < node.steps(); ++k) {
    const double rate = settings.optimizer.rate(k);
    const Gradient g = co_await node.gradient(x);
    Vector p = g.values;
    if (!settings.owners_step) {
      p = optimizer.direction(p, x);
      p.scale(rate);
    }
    phases.send_pieces(k, order.ordered(p), rate);
    Vector r = co_await phases.mean_of_own(k);
    if (r && settings.owners_step) {
      r = optimizer.direction(r, shard(order.ordered(x), node.id(), node.nodes()));
      r.scale(rate);
    }
    if (r) phases.send_step(k, r);
    const Vector step = co_await phases.receive_steps(k);
    x.add_scaled(-1, order.restored(step));
    node.end_step(k, x);
  }
}

}  // namespace

Program one_bit(const Section& section, const Context& context) {
  OneBitSettings settings;
  settings.codec = read_plain_codec(section, "one_bit");
  settings.exact_steps =
      read_at_least(section, "exact_steps", 0, 0, "steps before compression begins");
  warn_beyond_run(section, "exact_steps", settings.exact_steps, context, "nothing is compressed");
  settings.owners_step =
      section.choice("steps_by", {"owners", "nodes"}, "owners",
                     "who turns gradients into steps: owners of pieces, from the mean, or every "
                     "node before it is sent") == "owners";
  settings.rescales_residual = settings.owners_step && read_rescales_residual(section);
  settings.optimizer = read_optimizer(section, context);
  expect_whole_gradient(section, settings.optimizer, !settings.owners_step,
                        "which no owner has: take steps_by = nodes");
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
