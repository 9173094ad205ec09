// CSER: SGD with error reset. Every step is averaged over all nodes in one random block, the same on all nodes, and
// taken by the node alone elsewhere, so that models differ; e_i, by which they do, is averaged likewise now and then:
//
//   s <- learning_rate * m_i(g_i(x_i)),   x_i <- x_i - P(s),   e_i <- e_i - R(s)
//   every `reset_period` steps:   x_i <- x_i - e_i + P'(e_i),   e_i <- R'(e_i)
//
// P(v), partial synchronization, is v with the mean over all nodes in a block, and R(v) is v with zeros there. One of
// `blocks` nearly equal blocks of every tensor travels per step, one of `reset_blocks` per reset; with `unit = model`
// one of the whole model. m_i is the node's momentum and weight decay. x_i - e_i is the same on all nodes, and the mean
// of all x_i moves by the mean of all steps at once, as in allreduce SGD; error feedback is late with what has not
// travelled.
//
// blocks = 1 is allreduce SGD. blocks = 0, with which steps do not travel, is CSER-PL, local SGD whose models are averaged
// in parts, and with reset_blocks = 1 local SGD.
//
// Xie, Zheng, Koyejo, Gupta, Li, Lin, "CSER: Communication-efficient SGD with Error Reset", NeurIPS 2020, Algorithm 2, with
// momentum as in the code of Xu and Huang (see def.cpp). The paper tunes the three numbers to each rate of compression;
// the defaults, which send a thirty-second of a gradient per step, are ours.

#include "algorithms/averaging.hpp"
#include "algorithms/collectives.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/random_blocks.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/tensor_codec.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct CserSettings {
  std::size_t blocks;  // 0: steps do not travel
  Step reset_period;   // 0: no resets
  std::size_t reset_blocks;
  std::vector<std::size_t> tensors;  // empty: the model is one
  CollectiveKind collective;
  OptimizerSettings optimizer;
};

/// P(v) and R(v).
struct Synchronized {
  Vector v;
  Vector rest;
};

/// All nodes call it with the same `blocks`.
Task<Synchronized> synchronize(Node& node, Tag tag, const Blocks& blocks, const Vector& v,
                               CollectiveKind collective) {
  const Vector mean = co_await average(node, node.everybody(), tag, gather(blocks, v), collective);
  co_return {scatter(blocks, v, mean), scatter(blocks, v, node.zeros(mean.size()))};
}

Task<> run(Node& node, const CserSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  Vector x = node.initial_model();
  Vector e = node.zeros(x.size());
  const auto draw = [&](std::string_view stream, Step k, std::size_t count) {
    return draw_blocks(node.shared_random(stream, k), count, settings.tensors, x.size());
  };
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    Vector step = optimizer.direction(g.values, x);
    step.scale(settings.optimizer.rate(k));
    Synchronized taken{step, step};
    if (settings.blocks > 0) {
      const Blocks blocks = draw("block", k, settings.blocks);
      taken = co_await synchronize(node, tag_of(Channel::collective, k), blocks, step,
                                   settings.collective);
    }
    x.add_scaled(-1, taken.v);
    e.add_scaled(-1, taken.rest);
    if (settings.reset_period > 0 && (k + 1) % settings.reset_period == 0) {
      const Blocks blocks = draw("reset", k, settings.reset_blocks);
      const Synchronized reset =
          co_await synchronize(node, tag_of(Channel::tracker, k), blocks, e, settings.collective);
      x.add_scaled(-1, e);
      x.add(reset.v);
      e = reset.rest;
    }
    node.end_step(k, x);
  }
}

}  // namespace

Program cser(const Section& section, const Context& context) {
  CserSettings settings{};
  settings.blocks = static_cast<std::size_t>(
      read_at_least(section, "blocks", 64, 0,
                    "blocks of a tensor, of which one travels per step; 0: steps do not travel"));
  settings.reset_period = read_at_least(section, "reset_period", 8, 0,
                                        "steps between two resets of the error; 0: none");
  settings.reset_blocks = static_cast<std::size_t>(read_at_least(
      section, "reset_blocks", 4, 1, "blocks of a tensor, of which one travels per reset"));
  section.expect(settings.blocks > 0 || settings.reset_period > 0, "reset_period",
                 "must be at least 1 with blocks = 0: nothing would travel");
  warn_beyond_run(section, "reset_period", settings.reset_period, context, "no error is reset");
  settings.tensors = read_unit(section, context.workload.tensors, "tensors");
  settings.collective = read_collective(section);
  settings.optimizer = read_optimizer(section, context, 0.9);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
