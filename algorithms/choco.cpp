// CHOCO-SGD: gossip averaging whose messages are compressed, with any codec. Every node i keeps a public estimate h_i of its
// model, which all its neighbors can follow because only compressed differences q_i move it, and the weighted sum
// s_i = sum_j W_ij h_j: two vectors beside the model, whatever the degree. Two published orders:
//
//   mix_new   x <- x - learning_rate * g(x);   q = Q(x - h);   h <- h + q;   s_i <- s_i + sum_j W_ij q_j
//             x <- x + consensus_rate * (s - h)
//   mix_old   x <- x - learning_rate * g(x) + consensus_rate * (s - h)
//             q = Q(x - h);   h <- h + q;   s_i <- s_i + sum_j W_ij q_j      codes travel during the next gradient
//
// Koloskova, Stich, Jaggi, "Decentralized Stochastic Optimization and Gossip Algorithms with Compressed Communication",
// ICML 2019, Algorithm 2 (mix_new; without gradients its Algorithm 1, CHOCO-Gossip); Koloskova, Lin, Stich, Jaggi,
// "Decentralized Deep Learning with Arbitrary Communication Compression", ICLR 2020, Algorithm 1 and its code (mix_old).
// With compression none and consensus_rate 1 the first is D-PSGD that adapts, then combines, the second D-PSGD that
// combines while it adapts, both up to rounding. The mean model moves by the mean gradient alone, whatever the codec. A
// lossy codec needs a consensus_rate well below 1 and diverges with 1, and so do codes that may lose more than all there is: levels
// are contractive by default. Released settings: 0.45 with sign and 0.34 with 16 levels on a ring, 0.04 with the largest 1 %.

#include "algorithms/coded_exchange.hpp"
#include "algorithms/consensus_rate.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/sums.hpp"

namespace starling::algorithms {
namespace {

struct ChocoSettings {
  bool mixes_new;
  bool starts_at_model;
  double consensus_rate;
  SharedCodec codec;
  OptimizerSettings optimizer;
};

/// The public estimates as one node knows them.
class Estimates {
 public:
  Estimates(Node& node, const ChocoSettings& settings, const Vector& x)
      : exchange_(node, settings.codec, CodedExchange::Draws::own),
        rate_(settings.consensus_rate),
        own_(settings.starts_at_model ? x : node.zeros(x.size())),
        mixed_(own_) {}  // equal on all nodes, and rows of W sum to one

  /// Sends Q(x - h).
  Task<> send(Step k, Vector x) {
    x.add_scaled(-1, own_);
    code_ = co_await exchange_.send(k, x);
  }
  /// Follows what was sent at step k.
  Task<> receive(Step k) {
    own_.add(code_);
    const Vector mixed = co_await exchange_.mix(k, code_);
    mixed_.add(mixed);
    code_ = {};
  }
  /// x <- x + consensus_rate * (s - h)
  void pull(Vector& x) const {
    x.add_scaled(rate_, mixed_);
    x.add_scaled(-rate_, own_);
  }

 private:
  CodedExchange exchange_;
  double rate_;
  Vector own_;    // h
  Vector mixed_;  // s
  Vector code_;   // q, between send and receive
};

Task<> mix_new(Node& node, const ChocoSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  Vector x = node.initial_model();
  Estimates estimates(node, settings, x);
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    optimizer.update(x, g.values, x, k);
    co_await estimates.send(k, x);
    co_await estimates.receive(k);
    estimates.pull(x);
    node.end_step(k, x);
  }
}

Task<> mix_old(Node& node, const ChocoSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  Vector x = node.initial_model();
  Estimates estimates(node, settings, x);
  for (Step k = 0; k < node.steps(); ++k) {
    if (k > 0) co_await estimates.send(k, x);  // at the end of step k - 1, in the paper's words
    const Gradient g = co_await node.gradient(x);
    if (k > 0) co_await estimates.receive(k);
    const Vector old = x;
    estimates.pull(x);
    optimizer.update(x, g.values, old, k);
    node.end_step(k, x);
  }
}

}  // namespace

Program choco(const Section& section, const Context& context) {
  ChocoSettings settings{};
  settings.mixes_new =
      section.choice<bool>("order", {{"mix_new", true}, {"mix_old", false}}, "mix_new",
                           "mix with the estimates of this step, or of the step "
                           "before, whose codes travel during the gradient");
  settings.starts_at_model = section.choice<bool>(
      "first_estimate", {{"zero", false}, {"model", true}}, "zero",
      "where estimates begin: at zero, as in the papers, or at the model all nodes "
      "start from");
  settings.codec =
      read_plain_codec(section, {.is_contractive = true, .tensors = &context.workload.tensors});
  settings.consensus_rate = read_consensus_rate(section, *settings.codec);
  settings.optimizer = read_optimizer(section, context);
  expect_fixed_symmetric(section, "choco", context.topology);
  section.finish();
  return [settings](Node& node) {
    return settings.mixes_new ? mix_new(node, settings) : mix_old(node, settings);
  };
}

}  // namespace starling::algorithms
