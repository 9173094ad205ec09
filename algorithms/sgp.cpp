// SGP: stochastic gradient push, gossip averaging over directed and changing topologies. Node i
// holds a numerator x_i, a push-sum weight w_i (1 at first), and computes at z_i = x_i / w_i:
//
//   x_i <- x_i - learning_rate * g_i(z_i)
//   x_i <- sum_j p_ij x_j;   w_i <- sum_j p_ij w_j;   z_i <- x_i / w_i      columns of P sum to one
//
// Assran, Loizou, Ballas, Rabbat, "Stochastic Gradient Push for Distributed Deep Learning", ICML
// 2019, Algorithm 1. The gradient is taken at z but applied to x. Schedules and shares are in
// push_shares.hpp (key `peers`). Momentum stays local and weight decay acts at z. What is
// evaluated is sum x / sum w; the weight w is recorded as `push_sum_weight`.
//
// With `local_steps` H > 1 only every H-th step ends with an exchange, which counts as one of the schedule. The "swarm" of the
// WAGMA-SGD paper's code is local_steps = 2, peers = two_peer.

#include "algorithms/sgp.hpp"

#include <utility>

#include "algorithms/averaging.hpp"
#include "algorithms/base_steps.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {

SgpSteps::Settings SgpSteps::read(const Section& section, const Context& context) {
  return {.schedule = PushSchedule(section, context),
          .optimizer = read_optimizer(section, context)};
}

Task<> SgpSteps::take(Step first, Step last) {
  for (Step k = first; k <= last; ++k) {
    const Gradient g = co_await node_.gradient_in_pieces(z_);
    optimizer_.update(mass_.x, g.values, z_, k);

    if ((k + 1) % settings_.local_steps == 0) {
      const Shares shares = settings_.schedule.at(node_, k / settings_.local_steps);
      co_await shares.exchange(node_, mass_, k, settings_.schedule.codec());
    }
    co_await node_.finish_backward();
    z_ = mass_.model();
    node_.record("push_sum_weight", k, mass_.w);
    if (k < last) node_.end_step(k, z_, weight());
  }
}

Task<Vector> SgpSteps::settle(Step /*last*/) { co_return mass_.x; }

Task<> SgpSteps::restart(Step /*last*/, Vector x) {
  mass_ = {std::move(x), 1};
  z_ = mass_.x;
  co_return;
}

Task<> SgpSteps::finish() { co_return; }

Program sgp(const Section& section, const Context& context) {
  SgpSteps::Settings settings = SgpSteps::read(section, context);
  expect_steps_by_piece(section, settings.optimizer);
  settings.local_steps =
      read_period(section, context, 1, "local_steps", "steps between two exchanges");
  section.finish();
  return [settings](Node& node) { return run_alone<SgpSteps>(node, settings); };
}

}  // namespace starling::algorithms
