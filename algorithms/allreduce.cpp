// Synchronous SGD: gradients are averaged over all nodes at every step, so all models stay equal.
//
//   x <- x - learning_rate * mean_i g_i(x)
//
// Goyal et al., "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour", 2017. The baseline of the field.
//
// Frameworks keep the gradient of an embedding as a list of rows, which does not add: Horovod gathers the lists of all
// nodes (`gathered` bytes of each; github.com/horovod/horovod/issues/433). Values are the same.
//
// With `compression` the mean is of codes (algorithms/codec.hpp names them and their sources, coded_mean.hpp how they travel):
//
//   without error feedback   x <- x - learning_rate * mean_i Q(g_i),   momentum and weight decay after the mean
//   with                     p_i <- learning_rate * g_i + e_i,   e_i <- p_i - Q(p_i),   x <- x - mean_i Q(p_i),
//                            momentum and weight decay before it, each node's own

#include "algorithms/coded_mean.hpp"
#include "algorithms/collectives.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {
namespace {

struct AllreduceSettings {
  CollectiveKind collective;
  std::int64_t gathered;  // bytes; 0: all is summed
  CodedMean::Settings coded;
  OptimizerSettings optimizer;
};

Task<> run(Node& node, const AllreduceSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  const std::span<const NodeId> everybody = node.everybody();
  Vector x = node.initial_model();
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient_in_pieces(x);
    const Time begin = node.now();
    Vector mean = co_await allreduce(node, everybody, tag_of(Channel::collective, k), g.values,
                                     settings.collective, settings.gathered);
    node.record("exchange_time", k, to_seconds(node.now() - begin));
    mean.scale(1.0 / node.nodes());
    optimizer.update(x, mean, x, k);
    co_await node.finish_backward();
    node.end_step(k, x);
  }
}

Task<> run_compressed(Node& node, const AllreduceSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  const bool has_feedback = settings.coded.compression.has_feedback;
  CodedMean coded(node, settings.coded);
  Vector x = node.initial_model();
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient_in_pieces(x);
    Vector sent = g.values;
    if (has_feedback) {
      sent = optimizer.direction(g.values, x);
      sent.scale(settings.optimizer.rate(k));
    }
    const Vector mean = co_await coded.of(tag_of(Channel::collective, k), sent, k);
    if (has_feedback) {
      x.add_scaled(-1, mean);
    } else {
      optimizer.update(x, mean, x, k);
    }
    co_await node.finish_backward();
    node.end_step(k, x);
  }
}

}  // namespace

Program allreduce(const Section& section, const Context& context) {
  AllreduceSettings settings{};
  const bool feeds_back = true;
  settings.coded = read_mean_compression(section, context, feeds_back, &context.workload.tensors);
  const bool is_compressed = !settings.coded.is_exact();
  if (!is_compressed) {
    settings.collective = read_collective(section);
    settings.gathered =
        section
            .optional<Bytes>(
                "gathered", Bytes{0},
                "list of rows that each node sends in place of the last piece, which is "
                "then gathered, not summed; 0 B: none")
            .count;
    constexpr std::int64_t most = std::int64_t{1} << 40;
    section.expect(settings.gathered >= 0 && settings.gathered <= most, "gathered",
                   "must be from 0 to {} B, got {} B", most, settings.gathered);
  }
  settings.optimizer = read_optimizer(section, context);
  if (settings.coded.compression.has_feedback) expect_steps_by_piece(section, settings.optimizer);
  section.finish();
  return [settings, is_compressed](Node& node) {
    return is_compressed ? run_compressed(node, settings) : run(node, settings);
  };
}

}  // namespace starling::algorithms
