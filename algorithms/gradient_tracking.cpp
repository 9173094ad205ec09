// Gradient tracking (DSGT, DIGing): beside its model, every node mixes an estimate y_i of the mean
// gradient, so that heterogeneous data leave no bias. With g_i(k) the gradient of step k at x_i(k),
// y_i(0) = g_i(0), and either
//
//   adapt_then_combine    x_i(k+1) = sum_j W_ij(k) (x_j(k) - learning_rate * y_j(k))
//                         y_i(k+1) = sum_j W_ij(k) (y_j(k) + g_j(k+1) - g_j(k))
//   dsgt                  x_i(k+1) = sum_j W_ij(k) (x_j(k) - learning_rate * y_j(k))
//                         y_i(k+1) = sum_j W_ij(k) y_j(k) + g_i(k+1) - g_i(k)
//   combine_while_adapt   x_i(k+1) = sum_j W_ij(k) x_j(k) - learning_rate * y_i(k)
//                         y_i(k+1) = sum_j W_ij(k+1) y_j(k) + g_i(k+1) - g_i(k)
//
// The first is Aug-DGM (Xu, Zhu, Soh, Xie, "Augmented Distributed Gradient Methods for Multi-Agent Optimization Under
// Uncoordinated Constant Stepsizes", CDC 2015), or ATC-DIGing; the second DSGT (Pu, Nedic, "Distributed Stochastic Gradient
// Tracking Methods", Math. Programming 187, 2021); the third DIGing (Nedic, Olshevsky, Shi, "Achieving Geometric
// Convergence for Distributed Optimization over Time-Varying Graphs", SIAM J. Optimization 27(4), 2017). The first needs
// two dependent exchanges a step, the second one, in which one message carries x and y. In the third
// that message, with x(k) and y(k-1), is under way while the gradient is computed, so that y is mixed with the weights of the
// next step where the topology changes; DIGing has W(k) for both. g(k) is the same mini-batch in both differences. The
// shared update rule takes y for the gradient.

#include "algorithms/coded_exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {
namespace {

enum class Order { adapt_then_combine, dsgt, combine_while_adapt };

struct GradientTrackingSettings {
  Order order;
  SharedCodec codec;
  OptimizerSettings optimizer;
};

Task<> adapt_then_combine(Node& node, const GradientTrackingSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  Mixing models(node, settings.codec);
  Mixing trackers(node, settings.codec, Channel::tracker);
  Vector x = node.initial_model();
  Vector y;
  Vector previous;  // gradient
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    if (k == 0) {
      y = g.values;
    } else {
      y.add(g.values);
      y.add_scaled(-1, previous);
      co_await trackers.send(k - 1, y);  // with the weights that x was mixed with
      y = co_await trackers.mix(k - 1, y);
    }
    previous = g.values;
    optimizer.update(x, y, x, k);
    co_await models.send(k, x);
    x = co_await models.mix(k, x);
    node.end_step(k, x);
  }
}

Task<> dsgt(Node& node, const GradientTrackingSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  Mixing mixing(node, settings.codec);
  Vector x = node.initial_model();
  const std::size_t size = x.size();
  Vector y = node.zeros(size);  // mixed; with these, y(0) = W 0 + g(0) - 0
  Vector previous = y;          // gradient
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    y.add(g.values);
    y.add_scaled(-1, previous);
    previous = g.values;
    optimizer.update(x, y, x, k);
    const Vector pieces[] = {x, y};
    const Vector both = concatenate(pieces);
    co_await mixing.send(k, both);
    const Vector mixed = co_await mixing.mix(k, both);
    x = mixed.slice(0, size);
    y = mixed.slice(size, size);
    node.end_step(k, x);
  }
}

Task<> combine_while_adapt(Node& node, const GradientTrackingSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  Mixing mixing(node, settings.codec);
  Vector x = node.initial_model();
  const std::size_t size = x.size();
  Vector y = node.zeros(size);  // with these, y(0) = W 0 + g(0) - 0
  Vector previous = y;
  for (Step k = 0; k < node.steps(); ++k) {
    const Vector pieces[] = {x, y};
    const Vector both = concatenate(pieces);
    co_await mixing.send(k, both);
    const Gradient g = co_await node.gradient(x);
    const Vector mixed = co_await mixing.mix(k, both);
    y = mixed.slice(size, size);
    y.add(g.values);
    y.add_scaled(-1, previous);
    previous = g.values;
    const Vector old = x;
    x = mixed.slice(0, size);
    optimizer.update(x, y, old, k);
    node.end_step(k, x);
  }
}

}  // namespace

Program gradient_tracking(const Section& section, const Context& context) {
  GradientTrackingSettings settings{};
  settings.order = section.choice<Order>("order",
                                         {{"adapt_then_combine", Order::adapt_then_combine},
                                          {"dsgt", Order::dsgt},
                                          {"combine_while_adapt", Order::combine_while_adapt}},
                                         "adapt_then_combine",
                                         "average and step: step first, of models and estimates in "
                                         "turn (Aug-DGM) or of models alone, both in one message "
                                         "(DSGT); or at once (DIGing)");
  if (settings.order != Order::adapt_then_combine)
    expect_whole(section,
                 "order = combine_while_adapt or dsgt: model and estimate go in one message");
  settings.codec = read_codec(section);
  settings.optimizer = read_optimizer(section, context);
  section.note_other("topology");
  section.expect(has_unit_columns(context.topology), "kind",
                 "= gradient_tracking needs mixing weights whose columns sum to one");
  section.finish();
  return [settings](Node& node) {
    switch (settings.order) {
      case Order::adapt_then_combine:
        return adapt_then_combine(node, settings);
      case Order::dsgt:
        return dsgt(node, settings);
      case Order::combine_while_adapt:
        break;
    }
    return combine_while_adapt(node, settings);
  };
}

}  // namespace starling::algorithms
