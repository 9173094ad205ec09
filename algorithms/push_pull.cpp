// Push-pull gradient tracking: for directed graphs, on which no weights can be doubly stochastic in general.
// Models are pulled with a row-stochastic R, estimates y of the summed gradient are pushed with a
// column-stochastic C. With g_i(k) the gradient of step k at x_i(k), y_i(0) = g_i(0), and either
//
//   adapt_then_combine    x_i(k+1) = sum_j R_ij (x_j(k) - learning_rate * y_j(k))
//   combine_while_adapt   x_i(k+1) = sum_j R_ij x_j(k) - learning_rate * y_i(k)
//   both                  y_i(k+1) = sum_j C_ij y_j(k) + g_i(k+1) - g_i(k)
//
// Columns of C sum to one, so sum_i y_i = sum_i g_i at all times; rows of R do, so equal models stay
// equal: where nothing moves, every node is at the optimum, whatever the degrees. R is the topology's
// mixing matrix; C_ij = 1 / (1 + out-degree of j). One message carries both vectors; in the second order
// it is under way while the gradient is computed and brings x(k) with y(k-1), so that a C that changes is
// one step ahead. g(k) is the same mini-batch in both differences. The shared update rule takes y for the
// gradient, but for weight decay: where nothing moves, the y_i are in the proportions of C's eigenvector, not equal, so
// that weight_decay * x_i, which belongs to f_i, is added to g_i before it is tracked (that of adamw, sgdp and adamp, which
// is no part of the gradient, after).
//
// Pu, Shi, Xu, Nedic, "Push-Pull Gradient Methods for Distributed Optimization in Networks", IEEE
// Transactions on Automatic Control 66(1), 2021, Algorithm 1 (the first order); Xin, Khan, "A Linear
// Algorithm for Optimization over Directed Graphs with Geometric Convergence", IEEE Control Systems
// Letters 2(3), 2018 (AB, the second).

#include <utility>

#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {
namespace {

struct PushPullSettings {
  bool adapt_then_combine;
  double weight_decay;          // of the gradients that are tracked
  OptimizerSettings optimizer;  // without it
};

/// A model that is pulled and an estimate that is pushed.
struct Pair {
  Vector x;
  Vector y;
};

/// Sends x_i and C_ji y_i to every out-neighbor j; answers what the node keeps, W_ii x_i and C_ii y_i.
Pair send(Node& node, Step k, Pair own) {
  own.y.scale(1.0 / static_cast<double>(node.out(k).size() + 1));
  const Vector both[] = {own.x, own.y};
  const Vector message = concatenate(both);
  node.post_receives(tag_of(Channel::program, k));
  for_each_receiver(node, k,
                    [&](NodeId peer) { node.send(peer, tag_of(Channel::program, k), message); });
  own.x.scale(node.self_weight(k));
  return own;
}

/// sum_j R_ij x_j and sum_j C_ij y_j: what was kept and what in-neighbors sent, in order of peer.
Task<Pair> receive(Node& node, Step k, Pair kept) {
  const std::size_t size = kept.x.size();
  const Tag tag = tag_of(Channel::program, k);
  for (const Edge& edge : node.in(k)) {
    const Message m = co_await node.receive(edge.peer, tag);
    kept.x.add_scaled(edge.weight, m.values.slice(0, size));
    kept.y.add(m.values.slice(size, size));
  }
  node.close_receives(tag);
  co_await node.sent(tag);
  co_return kept;
}

/// The gradient at x, with what weight decay adds to it.
Task<Vector> gradient(Node& node, const PushPullSettings& settings, Vector x) {
  Gradient g = co_await node.gradient(x);
  if (settings.weight_decay != 0) g.values.add_scaled(settings.weight_decay, x);
  co_return std::move(g.values);
}

Task<> adapt_then_combine(Node& node, const PushPullSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  Pair pair{.x = node.initial_model(), .y = {}};
  Vector previous = node.zeros(pair.x.size());  // gradient
  pair.y = previous;                            // with these, y(0) = C 0 + g(0) - 0
  for (Step k = 0; k < node.steps(); ++k) {
    const Vector g = co_await gradient(node, settings, pair.x);
    pair.y.add(g);
    pair.y.add_scaled(-1, std::exchange(previous, g));
    optimizer.update(pair.x, pair.y, pair.x, k);
    const Pair kept = send(node, k, pair);
    pair = co_await receive(node, k, kept);
    node.end_step(k, pair.x);
  }
}

Task<> combine_while_adapt(Node& node, const PushPullSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  Pair pair{.x = node.initial_model(), .y = {}};
  Vector previous = node.zeros(pair.x.size());
  pair.y = previous;
  for (Step k = 0; k < node.steps(); ++k) {
    const Pair kept = send(node, k, pair);
    const Vector g = co_await gradient(node, settings, pair.x);
    const Vector old = pair.x;
    pair = co_await receive(node, k, kept);
    pair.y.add(g);
    pair.y.add_scaled(-1, std::exchange(previous, g));
    optimizer.update(pair.x, pair.y, old, k);
    node.end_step(k, pair.x);
  }
}

}  // namespace

Program push_pull(const Section& section, const Context& context) {
  PushPullSettings settings{};
  settings.adapt_then_combine = section.choice<bool>(
      "order", {{"adapt_then_combine", true}, {"combine_while_adapt", false}}, "adapt_then_combine",
      "average and step: step first, and models travel after the gradient, or "
      "at once, and they travel during it");
  settings.optimizer = read_optimizer(section, context);
  const bool tracks_decay = !settings.optimizer.decouples_decay;
  settings.weight_decay = tracks_decay ? std::exchange(settings.optimizer.weight_decay, 0) : 0;
  section.note_other("topology");
  section.finish();
  return [settings](Node& node) {
    return settings.adapt_then_combine ? adapt_then_combine(node, settings)
                                       : combine_while_adapt(node, settings);
  };
}

}  // namespace starling::algorithms
