// Overlap SGP (tau-OSGP): stochastic gradient push whose messages travel while nodes compute.
// After its step k a node adds what has arrived of the shares of steps up to k; it waits only if some
// of step k - tau or older are missing.
//
//   x_i <- x_i - learning_rate * g_i(z_i);   send p_ji (x_i, w_i) to j, keep p_ii (x_i, w_i)
//   add the shares of steps <= k - tau (waiting for them) and those up to k that have arrived
//   z_i <- x_i / w_i
//
// Assran, Loizou, Ballas, Rabbat, "Stochastic Gradient Push for Distributed Deep Learning", ICML
// 2019, Algorithm 2. tau = 0 is SGP, bit for bit; tau = 1 hides the transfer behind the next
// gradient, as the released code does. As there, what faster nodes sent in steps that a node has not
// come to yet waits for these. With tau > 1 that code begins no exchange before its last one is
// complete; here every step has one. `debias = no` is the paper's ablation that must fail: x is added
// without w, so what is under way is missing from the model.
//
// While shares are under way w is what is left: shares of the topology must be positive, and a node that hears nothing for so
// long that its model has no digits left ends the run.

#include "algorithms/overlap_sgp.hpp"

#include <utility>

#include "algorithms/base_steps.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/registry.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {

OverlapSgpSteps::Settings OverlapSgpSteps::read(const Section& section, const Context& context) {
  const PushSchedule schedule(section, context);
  const Step tau = read_at_least(section, "tau", 1, 0,
                                 "steps that a share may be under way before anybody waits for it");
  const bool is_debiased =
      section.optional<bool>("debias", true, "divide by the push-sum weight; no: an ablation");
  section.expect(tau == 0 || !is_debiased || schedule.has_positive_shares(context.topology),
                 "weights",
                 "= topology needs mixing weights that are positive, also of nodes to themselves, "
                 "with tau > 0: while shares are under way a node divides by the rest");
  return {.schedule = schedule,
          .tau = tau,
          .is_debiased = is_debiased,
          .optimizer = read_optimizer(section, context)};
}

/// Adds what has arrived of the missing shares.
void OverlapSgpSteps::fold_arrived() {
  std::erase_if(missing_, [this](const Expected& share) {
    const std::optional<Message> m = node_.poll(share.peer, tag_of(Channel::program, share.step));
    if (m) mass_.fold(node_, *m, share.step, codec());
    return m.has_value();
  });
}

/// Waits for and adds the shares of steps up to `last`, in order.
Task<> OverlapSgpSteps::fold_until(Step last) {
  while (!missing_.empty() && missing_.front().step <= last) {
    const Expected share = missing_.front();
    missing_.pop_front();
    const Message m = co_await node_.receive(share.peer, tag_of(Channel::program, share.step));
    mass_.fold(node_, m, share.step, codec());
  }
}

Task<> OverlapSgpSteps::take(Step first, Step last) {
  for (Step k = first; k <= last; ++k) {
    const Gradient g = co_await node_.gradient(z_);
    optimizer_.update(mass_.x, g.values, z_, k);

    const Shares shares = settings_.schedule.at(node_, k);
    co_await encoding(node_, codec(), mass_.x, shares.out.size());
    shares.send(node_, mass_, k, codec());
    for (const NodeId peer : shares.in) missing_.push_back({k, peer});
    const std::size_t expected = missing_.size();
    co_await fold_until(k - settings_.tau);
    fold_arrived();
    co_await decoding(node_, codec(), mass_.x, expected - missing_.size());
    if (settings_.is_debiased) mass_.expect_weight(k);
    z_ = settings_.is_debiased ? mass_.model() : mass_.x;
    node_.record("push_sum_weight", k, mass_.w);
    if (k < last) node_.end_step(k, z_, weight());
  }
}

Task<Vector> OverlapSgpSteps::settle(Step last) {
  co_await fold_until(last);
  co_return mass_.x;
}

Task<> OverlapSgpSteps::restart(Step /*last*/, Vector x) {
  mass_ = {std::move(x), 1};
  z_ = mass_.x;
  co_return;
}

Task<> OverlapSgpSteps::finish() {
  co_await fold_until(node_.steps());
  node_.record("push_sum_weight", node_.steps() - 1, mass_.w);
  node_.set_final_model(settings_.is_debiased ? mass_.model() : mass_.x, weight());
}

Program overlap_sgp(const Section& section, const Context& context) {
  const OverlapSgpSteps::Settings settings = OverlapSgpSteps::read(section, context);
  section.finish();
  return [settings](Node& node) { return run_alone<OverlapSgpSteps>(node, settings); };
}

}  // namespace starling::algorithms
