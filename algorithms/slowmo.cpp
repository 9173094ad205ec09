// SlowMo: momentum on the progress of whole blocks of steps of a cheaper base algorithm. After
// `period` base steps from the common model x_0, with the learning rate gamma of the block's last
// step:
//
//   x'  <- mean_i x_i                                exact average
//   u   <- slow_momentum * u + (x_0 - x') / gamma
//   x_i <- x_0 - slow_learning_rate * gamma * u
//
// base = local         x_i <- x_i - gamma * g_i(x_i)                     no exchange inside a block, or models are averaged
//                      after every `local_period`-th step of the run, too (fairscale's local SGD: 3, in blocks of 48)
// base = gossip        x_i <- sum_j W_ij x_j - gamma * g_i(x_i)          D-PSGD inside a block, to its end
// base = sgp           sgp.cpp: the numerators are averaged, and all weights w begin anew with 1
// base = overlap_sgp   overlap_sgp.cpp: the same, when all shares of the block have come (they go in
//                      one piece)
// base = adpsgd        adpsgd.cpp: when all nodes have ended the exchanges of the block; the next
//                      block begins when all have the new model
//
// Wang, Tantia, Ballas, Rabbat, "SlowMo: Improving Communication-Efficient Distributed SGD with
// Slow Momentum", ICLR 2020, Algorithm 1. Dividing by gamma lets u survive a change of the learning
// rate; kept here is gamma u, which knows no division by a gamma that vanishes. What becomes of the
// base's momentum at the end of a block is an option of the paper; reset is the default here.
// `compression` is of what the base sends; with base = local of the mean at the end of a block.

#include <algorithm>
#include <utility>

#include "algorithms/adpsgd.hpp"
#include "algorithms/base_steps.hpp"
#include "algorithms/block_mean.hpp"
#include "algorithms/coded_exchange.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/overlap_sgp.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/sgp.hpp"
#include "algorithms/sums.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct SlowmoSettings {
  Step period;
  double learning_rate;
  double momentum;
  Step local_period = 0;             // of plain averages; 0: none
  MomentumPolicy momentum_policy{};  // of the base, whose keys are read last
  BlockMean::Settings mean{};
};

/// Steps of local SGD or of D-PSGD.
template <bool gossips>
class PlainSteps {
 public:
  struct Settings {
    SharedCodec codec;  // of gossip
    OptimizerSettings optimizer;
  };
  static Settings read(const Section& section, const Context& context) {
    if (gossips) section.note_other("topology");
    return {.codec = gossips ? read_codec(section) : exact_codec(),
            .optimizer = read_optimizer(section, context)};
  }

  PlainSteps(Node& node, const Settings& settings)
      : node_(node),
        mixing_(node, settings.codec),
        optimizer_(settings.optimizer),
        x_(node.initial_model()) {}

  Task<> take(Step first, Step last) {
    for (Step k = first; k <= last; ++k) {
      if (gossips) co_await mixing_.send(k, x_);
      const Gradient g = co_await node_.gradient(x_);
      const Vector old = x_;
      if (gossips) x_ = co_await mixing_.mix(k, x_);
      optimizer_.update(x_, g.values, old, k);
      if (k < last) node_.end_step(k, x_);
    }
  }
  const Vector& model() const { return x_; }
  double weight() const { return 1; }
  Optimizer& optimizer() { return optimizer_; }

  Task<Vector> settle(Step /*last*/) { co_return x_; }
  Task<> restart(Step /*last*/, Vector x) {
    x_ = std::move(x);
    co_return;
  }
  Task<> finish() { co_return; }

 private:
  Node& node_;
  Mixing mixing_;
  Optimizer optimizer_;
  Vector x_;
};

/// The base's steps of a block, with the plain averages among them; but for one where the slow step comes, if that `is_whole`.
template <class Base>
Task<> take_block(Node& node, const SlowmoSettings& slow, Base& base, Step first, Step last,
                  bool is_whole) {
  const Step period = slow.local_period;
  for (;;) {
    const Step end = period > 0 ? std::min(last, first - first % period + period - 1) : last;
    co_await base.take(first, end);
    const bool is_due = period > 0 && (end + 1) % period == 0;
    if (end == last && (is_whole || !is_due)) co_return;
    Vector x = co_await average(node, node.everybody(), tag_of(Channel::collective, 2 * end),
                                base.model(), slow.mean.collective);
    co_await base.restart(end, x);
    if (end == last) co_return;
    node.end_step(end, base.model(), base.weight());
    first = end + 1;
  }
}

template <class Base>
Task<> run(Node& node, const SlowmoSettings& slow, const typename Base::Settings& settings) {
  Base base(node, settings);
  BlockMean mean(node, slow.mean);
  const std::span<const NodeId> everybody = node.everybody();
  Vector start = base.model();          // of the block
  Vector v = node.zeros(start.size());  // gamma u
  double last_rate = 0;
  for (Step first = 0; first < node.steps(); first += slow.period) {
    const Step k = std::min(first + slow.period, node.steps()) - 1;  // last of the block
    const bool is_whole = k + 1 == first + slow.period;
    co_await take_block(node, slow, base, first, k, is_whole);
    if (is_whole) {
      // A block that ends at a rate of 0 was made at others.
      const double last = settings.optimizer.rate(k);
      const double rate = last > 0 ? last : last_rate;
      Vector x = co_await base.settle(k);
      x = co_await mean.of_models(tag_of(Channel::collective, 2 * k), x, start, k);
      v.scale(last_rate > 0 ? slow.momentum * (rate / last_rate) : slow.momentum);
      v.add(difference(start, x));
      start.add_scaled(-slow.learning_rate, v);
      last_rate = rate;
      co_await apply_momentum_policy(node, everybody, tag_of(Channel::collective, 2 * k + 1),
                                     slow.momentum_policy, base.optimizer(), slow.mean.collective);
      co_await base.restart(k, start);
    }
    node.end_step(k, base.model(), base.weight());
  }
  co_await base.finish();
}

/// SlowMo over `Base`, whose keys are read here. `compression` is of what the base sends; of the mean of a block where it
/// sends nothing.
template <class Base, bool sends = true>
Program over(SlowmoSettings slow, const Section& section, const Context& context) {
  const typename Base::Settings settings = Base::read(section, context);
  slow.momentum_policy = read_momentum_policy(section, settings.optimizer, MomentumPolicy::reset);
  if (sends) {
    slow.mean.collective = read_collective(section);
  } else {
    slow.mean = read_block_mean(section, context, slow.momentum_policy);
    slow.local_period =
        read_at_least(section, "local_period", 0, 0,
                      "steps between two plain averages of the models within a block; 0: none");
    section.expect(slow.local_period < slow.period, "local_period",
                   "must be less than period ({}), got {}", slow.period, slow.local_period);
    section.expect(slow.local_period == 0 || slow.mean.coded.is_exact(), "local_period",
                   "must be 0 with compression, which is for the mean of a block");
  }
  section.finish();
  return [slow, settings](Node& node) { return run<Base>(node, slow, settings); };
}

}  // namespace

Program slowmo(const Section& section, const Context& context) {
  SlowmoSettings slow{};
  slow.period = read_period(section, context, 12);
  slow.learning_rate =
      read_positive(section, "slow_learning_rate", 1.0, "factor of the slow step (alpha)");
  slow.momentum =
      read_share_below_1(section, "slow_momentum", 0.5, "share of the last slow step kept (beta)");
  using Maker = Program(SlowmoSettings, const Section&, const Context&);
  const auto make = section.choice<Maker*>("base",
                                           {{"local", over<PlainSteps<false>, false>},
                                            {"gossip", over<PlainSteps<true>>},
                                            {"sgp", over<SgpSteps>},
                                            {"overlap_sgp", over<OverlapSgpSteps>},
                                            {"adpsgd", over<AdpsgdSteps>}},
                                           "local", "what happens inside a block");
  return make(slow, section, context);
}

}  // namespace starling::algorithms
