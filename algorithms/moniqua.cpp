// Moniqua: gossip averaging of models sent modulo a bound, a few bits per entry and no further state. While models of
// neighbors differ by less than theta in every entry, the position within a period of length B is enough to find the
// other's model beside one's own:
//
//   B = 2 theta / (1 - 2 d),   d = 2^-(bits + 1)       the quantizer's error, as a share of B
//   x_i <- x_i + consensus_rate * sum_j W_ij (Q(x_j) - Q(x_i)) - learning_rate * g_i(x_i)
//
// Q(x_j) is the multiple of B / 2^bits nearest to x_j. Lu, De Sa, "Moniqua: Modulo Quantized Communication in
// Decentralized SGD", ICML 2020, Algorithm 1. Counting one's own model as quantized, too, keeps the mean model exact. With
// `rounding = shifted` all nodes shift the quantizer by the same random offsets, which makes it unbiased (section 6
// there: shared randomness). Where models differ by more than theta, what is read is plausible and wrong: a theta that is
// too small shows as loss that grows. Other algorithms take the same codes as compression = lattice, with
// cell = 2 theta / (2^bits - 1).

#include <limits>

#include "algorithms/coded_exchange.hpp"
#include "algorithms/consensus_rate.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct MoniquaSettings {
  double consensus_rate;
  SharedCodec codec;
  OptimizerSettings optimizer;
};

Task<> run(Node& node, const MoniquaSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  Mixing mixing(node, settings.codec, Channel::program, settings.consensus_rate);
  Vector x = node.initial_model();
  for (Step k = 0; k < node.steps(); ++k) {
    co_await mixing.send(k, x);
    const Gradient g = co_await node.gradient(x);
    const Vector old = x;
    x = co_await mixing.mix(k, x);
    optimizer.update(x, g.values, old, k);
    node.end_step(k, x);
  }
}

}  // namespace

Program moniqua(const Section& section, const Context& context) {
  MoniquaSettings settings{};
  const double theta = read_positive(section, "theta", 1,
                                     "bound on the difference of neighbors' models, in any entry");
  // It bounds differences of floats, and the cells of the lattice are smaller still.
  using Floats = std::numeric_limits<float>;
  section.expect(theta >= Floats::min() && theta <= Floats::max(), "theta",
                 "must be from {:.3g} to {:.3g}, got {}", Floats::min(), Floats::max(), theta);
  const std::int64_t bits = read_whole(section, "bits", 8, 1, 24, "bits of an entry");
  const bool is_shifted =
      section.choice<bool>("rounding", {{"nearest", false}, {"shifted", true}}, "nearest",
                           "to the nearest point, or after a random shift that all "
                           "nodes share, which is unbiased");
  settings.codec = lattice_codec(theta, static_cast<std::uint32_t>(bits), is_shifted);
  settings.consensus_rate = read_consensus_rate(section, 1, "few bits");
  settings.optimizer = read_optimizer(section, context);
  section.note_other("topology");
  section.expect(has_unit_columns(context.topology), "kind",
                 "= moniqua needs mixing weights whose columns sum to one");
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
