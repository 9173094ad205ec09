// DEF: detached error feedback. Gradients are taken a part of the way ahead, where the node's own residual
// will bring the model; one random block of the model, the same on all nodes, travels per exchange, so that
// compressed pieces add:
//
//   y_i <- x - lambda * e_i,   p_i <- e_i
//   `period` times:   s <- learning_rate * m_i(g_i(y_i)),   y_i <- y_i - s,   p_i <- p_i + s
//   x <- x - mean_i C(p_i),    e_i <- p_i - C(p_i)
//
// C keeps of every tensor one of `blocks` nearly equal blocks, drawn by all nodes alike; with `unit = model` one
// block of the whole model. m_i is the node's momentum and weight decay. lambda = 0 is error feedback, lambda = 1
// looks all the way ahead; blocks = 1 and period = 1 is allreduce SGD. `evaluate = averaged` is DEF-A: what counts as
// model of a node is x - e_i, so that their mean is x - mean_i e_i. The shared x lags behind that by what has not
// travelled yet. The last period of a run may be shorter: its steps travel after the last one.
//
// lambda = 1 with `residual_period` H is SAEF: after every H-th exchange, and when y_i is set, all e_i become their mean, for which
// a whole model travels.
//
// Xu and Huang, "Detached Error Feedback for Distributed SGD with Random Sparsification", ICML 2022; defaults are those of
// their code, momentum 0.9 included. Xu, Huo, Huang, "Step-Ahead Error Feedback for Distributed Training with Compressed
// Gradient", AAAI 2021 (SAEF).

#include "algorithms/averaging.hpp"
#include "algorithms/collectives.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/random_blocks.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/tensor_codec.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct DefSettings {
  double lambda;
  std::size_t blocks;
  std::vector<std::size_t> tensors;  // empty: the model is one
  Step period;
  Step residual_period;  // in exchanges; 0: none
  bool is_averaged;
  CollectiveKind collective;
  OptimizerSettings optimizer;

  /// Whether residuals are averaged after step k.
  bool averages_residuals(Step k) const {
    return residual_period > 0 && (k + 1) % period == 0 && (k + 1) / period % residual_period == 0;
  }
};

Task<> run(Node& node, const DefSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  const std::span<const NodeId> everybody = node.everybody();
  Vector x = node.initial_model();
  Vector p = node.zeros(x.size());  // what has not travelled yet; e_i right after an exchange
  Vector y = x;
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(y);
    Vector step = optimizer.direction(g.values, y);
    step.scale(settings.optimizer.rate(k));
    y.add_scaled(-1, step);
    p.add(step);
    if ((k + 1) % settings.period == 0 || k + 1 == node.steps()) {
      const Blocks blocks =
          draw_blocks(node.shared_random("block", k), settings.blocks, settings.tensors, x.size());
      const Vector update = co_await average(node, everybody, tag_of(Channel::collective, k),
                                             gather(blocks, p), settings.collective);
      Vector moved = gather(blocks, x);
      moved.add_scaled(-1, update);
      x = scatter(blocks, x, moved);
      p = scatter(blocks, p, node.zeros(update.size()));
      y = x;
      y.add_scaled(-settings.lambda, p);
    }
    if (settings.averages_residuals(k))
      p = co_await average(node, everybody, tag_of(Channel::tracker, k), p, settings.collective);
    Vector model = x;
    if (settings.is_averaged) model.add_scaled(-1, p);
    node.end_step(k, model);
  }
}

}  // namespace

Program def(const Section& section, const Context& context) {
  DefSettings settings{};
  settings.lambda = read_between(section, "lambda", 0.3, 0, 1,
                                 "how far ahead gradients are taken, as a share of the residual");
  settings.blocks = static_cast<std::size_t>(read_at_least(
      section, "blocks", 64, 1, "blocks of a tensor, of which one travels per exchange"));
  settings.tensors = read_unit(section, context.workload.tensors, "tensors");
  settings.period = read_period(section, context, 1);
  settings.residual_period =
      read_at_least(section, "residual_period", 0, 0,
                    "exchanges between two averages of the residuals of all nodes; 0: none");
  settings.is_averaged =
      section.choice<bool>("evaluate", {{"shared", false}, {"averaged", true}}, "shared",
                           "model that is evaluated: x, or x less the mean residual (DEF-A)");
  settings.collective = read_collective(section);
  settings.optimizer = read_optimizer(section, context, 0.9);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
