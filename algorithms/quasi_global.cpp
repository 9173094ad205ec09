// QG-DSGDm: gossip whose momentum is made of what models really moved, mixing included, not of a node's own gradients, which
// point elsewhere on every node where data differ.
//
//   m_i <- momentum * q_i + g_i(x_i)
//   y_i  = x_i - learning_rate * m_i        or, with nesterov, x_i - learning_rate * (g_i(x_i) + momentum * m_i)
//   z_i  = sum_j W_ij y_j
//   q_i <- momentum * q_i + (1 - momentum) (x_i - z_i) / learning_rate;   x_i <- z_i
//
// q_i begins at zero and never travels: messages are those of D-PSGD that adapts, then combines, which it is with
// momentum = 0. On one node, or where everybody averages with everybody, it is quasi-hyperbolic momentum (Ma, Yarats, ICLR 2019).
//
// Lin, Karimireddy, Stich, Jaggi, "Quasi-Global Momentum: Accelerating Decentralized Deep Learning on Heterogeneous Data",
// ICML 2021, Algorithm 1, with one momentum for beta and mu (the authors' code has mu = 0.9 by default). Weight decay is part of g,
// as in their code.

#include "algorithms/coded_exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/sums.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct QuasiGlobalSettings {
  SharedCodec codec;
  OptimizerSettings optimizer;
};

Task<> run(Node& node, const QuasiGlobalSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  Mixing mixing(node, settings.codec);
  const double momentum = settings.optimizer.momentum;
  Vector x = node.initial_model();
  Vector moved;  // q; empty: zero
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    const Vector before = x;
    if (moved) optimizer.set_moments(moved);
    optimizer.update(x, g.values, before, k);
    co_await mixing.send(k, x);
    x = co_await mixing.mix(k, x);
    const double rate = settings.optimizer.rate(k);
    if (momentum > 0 && rate >= least_float) {  // else the inverse is no float: q stays
      Vector step = difference(before, x);
      step.scale((1 - momentum) / rate);
      accumulate(moved, momentum, step);
    }
    node.end_step(k, x);
  }
}

}  // namespace

Program quasi_global(const Section& section, const Context& context) {
  QuasiGlobalSettings settings{};
  settings.codec = read_codec(section);
  settings.optimizer = read_optimizer(section, context, 0.9);
  section.expect(settings.optimizer.is_sgd(), "optimizer",
                 "must be sgd, whose momentum is made quasi-global");
  section.note_other("topology");
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
