// DeepSqueeze: gossip averaging of compressed models with error feedback.
//
//   x_i <- x_i - learning_rate * g_i(x_i)
//   v_i = x_i + e_i;   e_i <- v_i - Q(v_i)
//   x_i <- x_i + consensus_rate * sum_j W_ij (Q(v_j) - Q(v_i))
//
// Tang, Lian, Qiu, Yuan, Zhang, Zhang, Liu, "DeepSqueeze: Decentralization Meets Error-Compensated Compression", 2019,
// Algorithm 1. The mean model moves by the mean gradient alone, whatever the codec; biased codecs are allowed. Without
// compression and with consensus_rate 1 it is D-PSGD that adapts, then combines, up to rounding. The whole model is compressed,
// not a difference that vanishes, so models keep a distance that falls with consensus_rate.

#include "algorithms/coded_exchange.hpp"
#include "algorithms/consensus_rate.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {
namespace {

struct DeepSqueezeSettings {
  double consensus_rate;
  SharedCodec codec;
  OptimizerSettings optimizer;
};

Task<> run(Node& node, const DeepSqueezeSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  CodedExchange exchange(node, settings.codec, CodedExchange::Draws::shared);
  Vector x = node.initial_model();
  Vector error = node.zeros(x.size());
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    optimizer.update(x, g.values, x, k);
    error.add(x);  // v
    const Vector own = co_await exchange.send(k, error);
    error.add_scaled(-1, own);
    const Vector mixed = co_await exchange.mix(k, own);
    x.add_scaled(settings.consensus_rate, mixed);
    x.add_scaled(-settings.consensus_rate, own);
    node.end_step(k, x);
  }
}

}  // namespace

Program deep_squeeze(const Section& section, const Context& context) {
  DeepSqueezeSettings settings{};
  settings.codec =
      read_plain_codec(section, {.is_contractive = true, .tensors = &context.workload.tensors});
  settings.consensus_rate = read_consensus_rate(section, *settings.codec);
  settings.optimizer = read_optimizer(section, context);
  expect_fixed_symmetric(section, "deep_squeeze", context.topology);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
