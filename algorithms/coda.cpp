// CODA: staged, communication-efficient descent-ascent for saddle-point problems, made for AUC
// maximization (workload auc): the model is (v, alpha), minimized over v, maximized over alpha. In
// stage s = 0, 1, .. with learning rate l_s = learning_rate / decay^s, from the center v0, node i does
// T_s = stage_steps * decay^s times
//
//   v_i     <- v_i - l_s (dF_i/dv + (v_i - v0) / gamma)
//   alpha_i <- alpha_i + l_s dF_i/dalpha
//   after every `period`-th step of the stage, v_i and alpha_i <- their means over all nodes
//
// and at the end of the stage
//
//   v_i <- v0 <- mean of v;   alpha_i <- mean over nodes of argmax_alpha F_i(v0, alpha)
//
// The argmax is that of `dual_batches` fresh mini-batches: a Newton step on their gradient, exact as F is quadratic
// in alpha with a known curvature. For AUC it is mean h- - mean h+ in expectation, and exactly so if the batch has the
// share of positives that the data have; the authors' code takes the means of the two classes in the batch, which needs
// both. The center stays put inside a stage.
//
// Guo, Liu, Yuan, Shen, Liu, Yang, "Communication-Efficient Distributed Stochastic AUC Maximization
// with Deep Neural Networks", ICML 2020, Algorithms 1 and 2; defaults are those of the authors' later
// federated code (4000, 3, gamma 500, period 8), which also cuts each entry of dF/dv to +-1; clip_norm, too, cuts the
// gradient alone, before the pull and weight decay, which is of v alone. Without dual parameters it is local SGD in
// stages with a proximal pull.

#include <array>
#include <cmath>

#include "algorithms/block_mean.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/sums.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct CodaSettings {
  Step period;
  double stage_steps;
  double decay;
  double gamma;  // 0: no pull
  std::size_t dual;
  double dual_curvature;
  std::int64_t dual_batches;
  BlockMean::Settings mean;
  OptimizerSettings optimizer;  // its learning rate falls with the stages
  OptimizerSettings steps;  // the same without clip_norm, which is of the gradient, not of the pull
};

/// The model's two parts as one vector.
Vector join(const Vector& v, const Vector& alpha) {
  const std::array<Vector, 2> parts{v, alpha};
  return concatenate(parts);
}

/// What a step subtracts, with the pull of the center in v.
Vector pulled(const CodaSettings& settings, const Vector& g, const Vector& x,
              const Vector& center) {
  if (settings.gamma == 0) return g;
  const std::size_t primal = x.size() - settings.dual;
  Vector d = g.slice(0, primal);
  d.add_scaled(1 / settings.gamma, difference(x.slice(0, primal), center));
  return settings.dual == 0 ? d : join(d, g.slice(primal, settings.dual));
}

/// The end of a stage, from the mean model `x`: the alpha that is best for fresh mini-batches of every node.
Task<Vector> best_dual(Node& node, const CodaSettings& settings, std::span<const NodeId> everybody,
                       Tag tag, Vector x) {
  const std::size_t primal = x.size() - settings.dual;
  Vector alpha = x.slice(primal, settings.dual);
  const double share = 1 / (settings.dual_curvature * static_cast<double>(settings.dual_batches));
  for (std::int64_t batch = 0; batch < settings.dual_batches; ++batch) {
    const Gradient g = co_await node.gradient(x);
    alpha.add_scaled(-share, g.values.slice(primal, settings.dual));
  }
  alpha = alpha.as_numbers();
  alpha = co_await average(node, everybody, tag, alpha, CollectiveKind::recursive_doubling);
  co_return join(x.slice(0, primal), alpha);
}

Task<> run(Node& node, const CodaSettings& settings) {
  Optimizer optimizer(settings.steps);
  BlockMean mean(node, settings.mean);
  const std::span<const NodeId> everybody = node.everybody();
  Vector x = node.initial_model();
  Vector start = x;  // that all had last
  const std::size_t primal = x.size() - settings.dual;
  Vector center = x.slice(0, primal);
  std::size_t stage = 0;
  Step begin = 0;  // of the stage
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    const Vector d = pulled(settings, clipped(settings.optimizer, g.values), x, center);
    const Vector at = settings.dual == 0 ? x : join(x.slice(0, primal), node.zeros(settings.dual));
    optimizer.update(x, d, at, k);  // weight decay is of v alone

    const auto end = static_cast<Step>(settings.optimizer.decay_steps[stage]);
    if (k + 1 == end || (k + 1 - begin) % settings.period == 0) {
      x = co_await mean.of_models(tag_of(Channel::collective, 2 * k), x, start, k);
      start = x;
    }
    if (k + 1 == end) {
      if (settings.dual > 0) {
        x = co_await best_dual(node, settings, everybody, tag_of(Channel::collective, 2 * k + 1),
                               x);
        start = x;
      }
      center = x.slice(0, primal);
      begin = end;
      ++stage;
    }
    node.end_step(k, x);
  }
}

/// The first step after each stage, up to one beyond the run.
std::vector<double> stage_ends(double length, double factor, Step steps) {
  std::vector<double> ends;
  double end = 0;
  while (end <= static_cast<double>(steps)) {
    end += std::floor(length + 0.5);
    ends.push_back(end);
    length *= factor;
  }
  return ends;
}

}  // namespace

Program coda(const Section& section, const Context& context) {
  CodaSettings settings{};
  settings.period = read_period(section, context, 8);
  settings.stage_steps = static_cast<double>(
      read_at_least(section, "stage_steps", 4000, 1, "steps of the first stage"));
  settings.decay = section.optional<double>(
      "decay", 3, "each stage is so many times longer, at a so many times smaller learning rate");
  section.expect(settings.decay >= 1, "decay", "must be at least 1, got {}", settings.decay);
  settings.gamma =
      read_not_negative(section, "gamma", 500,
                        "inverse strength of the pull towards the stage's first model; 0: no pull");
  settings.dual_batches = read_at_least(
      section, "dual_batches", 1, 1,
      "mini-batches of a node that alpha is chosen by at the end of a stage, in one Newton step: "
      "the fewer positive samples they have, the noisier");
  section.expect(settings.dual_batches == 1 || context.workload.dual_parameters > 0, "dual_batches",
                 "must be 1 without dual parameters (workload auc has one), got {}",
                 settings.dual_batches);
  settings.mean = read_block_mean(section, context);
  settings.optimizer = read_optimizer(section, context);
  section.expect(settings.optimizer.schedule == OptimizerSettings::Schedule::constant, "schedule",
                 "must be constant: the stages of coda set the learning rate");
  section.finish();

  settings.dual = context.workload.dual_parameters;
  settings.dual_curvature = context.workload.dual_curvature;
  settings.optimizer.schedule = OptimizerSettings::Schedule::step;
  settings.optimizer.decay_steps = stage_ends(settings.stage_steps, settings.decay, context.steps);
  settings.optimizer.decay_factor = 1 / settings.decay;
  settings.steps = settings.optimizer;
  settings.steps.clip_norm = 0;
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
