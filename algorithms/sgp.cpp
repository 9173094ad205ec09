// SGP: stochastic gradient push, gossip averaging over directed and changing topologies. Node i
// holds a numerator x_i, a push-sum weight w_i (1 at first), and computes at z_i = x_i / w_i:
//
//   x_i <- x_i - learning_rate * g_i(z_i)
//   x_i <- sum_j p_ij x_j;   w_i <- sum_j p_ij w_j;   z_i <- x_i / w_i      columns of P sum to one
//
// Assran, Loizou, Ballas, Rabbat, "Stochastic Gradient Push for Distributed Deep Learning", ICML
// 2019, Algorithm 1. The gradient is taken at z but applied to x. Schedules and shares are in
// push_shares.hpp (key `peers`); the class that the released code uses by default alternates
// distances +2^j and -2^j instead. Momentum stays local and weight decay acts at z. What is
// evaluated is the plain mean of all z, which is sum x / sum w where every w is one (exponential peers, regular graphs), and
// tends to it elsewhere; the weight w is recorded as `push_sum_weight`.

#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/push_shares.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {
namespace {

Task<> run(Node& node, PushSchedule schedule, const OptimizerSettings& settings) {
  Optimizer optimizer(settings);
  Mass mass{node.initial_model(), 1};
  Vector z = mass.x;
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient_in_pieces(z);
    optimizer.update(mass.x, g.values, z, k);

    const Shares shares = schedule.at(node, k);
    co_await shares.exchange(node, mass, k, schedule.codec());
    co_await node.finish_backward();
    z = mass.model();
    node.record("push_sum_weight", k, mass.w);
    node.end_step(k, z);
  }
}

}  // namespace

Program sgp(const Section& section, const Context& context) {
  const PushSchedule schedule(section, context);
  const OptimizerSettings optimizer = read_optimizer(section, context.steps);
  section.finish();
  return [=](Node& node) { return run(node, schedule, optimizer); };
}

}  // namespace starling::algorithms
