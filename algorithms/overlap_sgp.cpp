// Overlap SGP (tau-OSGP): stochastic gradient push whose messages travel while nodes compute.
// Shares are added whenever they arrive; a node waits only if shares of step k - tau or older are
// missing after its step k.
//
//   x_i <- x_i - learning_rate * g_i(z_i);   send p_ji (x_i, w_i) to j, keep p_ii (x_i, w_i)
//   add the shares of steps <= k - tau (waiting for them) and later ones that have arrived
//   z_i <- x_i / w_i
//
// Assran, Loizou, Ballas, Rabbat, "Stochastic Gradient Push for Distributed Deep Learning", ICML
// 2019, Algorithm 2. tau = 0 is SGP, bit for bit; tau = 1 hides the transfer behind the next
// gradient, as the released code does. `debias = no` is the paper's ablation that must fail: x is
// added without w, so what is under way is missing from the model.

#include <deque>

#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/push_shares.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {
namespace {

struct Settings {
  Step tau;
  bool is_debiased;
  OptimizerSettings optimizer;
};

/// A share that has been sent, or will be.
struct Expected {
  Step step;
  NodeId peer;
};

/// Adds what has arrived of `missing`.
void fold_arrived(Node& node, Mass& mass, std::deque<Expected>& missing, const Codec& codec) {
  std::erase_if(missing, [&](const Expected& share) {
    const std::optional<Message> m = node.poll(share.peer, tag_of(Channel::program, share.step));
    if (m) mass.fold(node, *m, share.step, codec);
    return m.has_value();
  });
}

/// Waits for and adds the shares of steps up to `last`, in order.
Task<> fold_until(Node& node, Mass& mass, std::deque<Expected>& missing, Step last,
                  const Codec& codec) {
  while (!missing.empty() && missing.front().step <= last) {
    const Expected share = missing.front();
    missing.pop_front();
    const Message m = co_await node.receive(share.peer, tag_of(Channel::program, share.step));
    mass.fold(node, m, share.step, codec);
  }
}

Task<> run(Node& node, PushSchedule schedule, const Settings& settings) {
  Optimizer optimizer(settings.optimizer);
  Mass mass{node.initial_model(), 1};
  Vector z = mass.x;
  std::deque<Expected> missing;  // in order of step, then of peer
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(z);
    optimizer.update(mass.x, g.values, z, k);

    const Shares shares = schedule.at(node, k);
    shares.send(node, mass, k, schedule.codec());
    for (const NodeId peer : shares.in) missing.push_back({k, peer});
    co_await fold_until(node, mass, missing, k - settings.tau, schedule.codec());
    fold_arrived(node, mass, missing, schedule.codec());
    z = settings.is_debiased ? mass.model() : mass.x;
    node.record("push_sum_weight", k, mass.w);
    node.end_step(k, z);
  }
  co_await fold_until(node, mass, missing, node.steps(), schedule.codec());
  if (node.steps() > 0) node.record("push_sum_weight", node.steps() - 1, mass.w);
  node.set_final_model(settings.is_debiased ? mass.model() : mass.x);
}

}  // namespace

Program overlap_sgp(const Section& section, const Context& context) {
  const PushSchedule schedule(section, context);
  Settings settings;
  settings.tau = section.optional<std::int64_t>(
      "tau", 1, "steps that a share may be under way before anybody waits for it");
  section.expect(settings.tau >= 0, "tau", "must not be negative, got {}", settings.tau);
  settings.is_debiased =
      section.optional<bool>("debias", true, "divide by the push-sum weight; no: an ablation");
  settings.optimizer = read_optimizer(section, context.steps);
  section.finish();
  return [=](Node& node) { return run(node, schedule, settings); };
}

}  // namespace starling::algorithms
