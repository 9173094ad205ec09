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

#include "algorithms/coded_phases.hpp"
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

/// What codes pieces of a model in column order.
std::vector<SharedCodec> codecs_of_pieces(const Node& node, const SharedCodec& codec,
                                          const ColumnOrder& order) {
  std::vector<SharedCodec> codecs;
  for (NodeId s = 0; s < node.nodes(); ++s) {
    const std::size_t begin = shard_begin(s, node.nodes(), node.parameters());
    const std::size_t end = shard_begin(s + 1, node.nodes(), node.parameters());
    const SharedCodec of_columns = codec->of_columns(order.columns_in(begin, end - begin));
    if (!of_columns) return {codec};  // it knows no columns
    codecs.push_back(of_columns);
  }
  return codecs;
}

Task<> run(Node& node, const OneBitSettings& settings) {
  const ColumnOrder order(node);
  const bool has_feedback = true;
  CodedPhases phases(node, node.parameters(), codecs_of_pieces(node, settings.codec, order),
                     has_feedback);
  RateChange rate_change(settings.rescales_residual);
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
    const CodedPhases::Round round{tag_of(Channel::collective, k), k, k < settings.exact_steps};
    phases.scale_residual(rate_change.come_to(rate));
    const Vector ordered = order.ordered(p);
    co_await phases.send_pieces(round, ordered, !rate_change.loses());
    Vector r = co_await phases.mean_of_own(round);
    if (r && settings.owners_step) {
      r = optimizer.direction(r, shard(order.ordered(x), node.id(), node.nodes()));
      r.scale(rate);
    }
    if (r) co_await phases.send_result(round, r);
    const Vector step = co_await phases.receive_results(round);
    x.add_scaled(-1, order.restored(step));
    node.end_step(k, x);
  }
}

}  // namespace

Program one_bit(const Section& section, const Context& context) {
  OneBitSettings settings{};
  settings.codec = read_plain_codec(section, {.fallback = "one_bit"});
  settings.exact_steps =
      read_at_least(section, "exact_steps", 0, 0, "steps before compression begins");
  warn_beyond_run(section, "exact_steps", settings.exact_steps, context, "nothing is compressed");
  settings.owners_step = section.choice<bool>(
      "steps_by", {{"owners", true}, {"nodes", false}}, "owners",
      "who turns gradients into steps: owners of pieces, from the mean, or every "
      "node before it is sent");
  settings.rescales_residual = settings.owners_step && read_rescales_residual(section);
  settings.optimizer = read_optimizer(section, context);
  expect_whole_gradient(section, settings.optimizer, !settings.owners_step,
                        "which no owner has: take steps_by = nodes");
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
