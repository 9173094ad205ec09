// DEF: detached error feedback. Gradients are taken a part of the way ahead, where the node's own residual
// will bring the model; one random block of the model, the same on all nodes, travels per exchange, so that
// compressed pieces add:
//
//   y_i <- x - lambda * e_i,   p_i <- e_i
//   `period` times:   s <- learning_rate * m_i(g_i(y_i)),   y_i <- y_i - s,   p_i <- p_i + s
//   x <- x - mean_i C(p_i),    e_i <- p_i - C(p_i)
//
// C keeps one of `blocks` nearly equal blocks, drawn by all nodes alike; m_i is the node's momentum and
// weight decay. lambda = 0 is error feedback, lambda = 1 looks all the way ahead; blocks = 1 and period = 1
// is allreduce SGD. `evaluate = averaged` is DEF-A: what counts as model of a node is x - e_i, so that their
// mean is x - mean_i e_i. The shared x lags behind that by what has not travelled yet.
//
// Xu and Huang, "Detached Error Feedback for Distributed SGD with Random Sparsification", ICML 2022. Its code
// draws one block per layer; here blocks are of the whole model.

#include <algorithm>

#include "algorithms/averaging.hpp"
#include "algorithms/collectives.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {
namespace {

struct Settings {
  double lambda;
  std::size_t blocks;
  Step period;
  bool is_averaged;
  CollectiveKind collective;
  OptimizerSettings optimizer;
};

/// Part [begin, end) of a model.
struct Block {
  std::size_t begin, end;

  Vector of(const Vector& v) const { return v.slice(begin, end - begin); }
  /// `v` with `piece` in this place.
  Vector replaced(const Vector& v, const Vector& piece) const {
    std::vector<Vector> pieces;
    if (begin > 0) pieces.push_back(v.slice(0, begin));
    pieces.push_back(piece);
    if (end < v.size()) pieces.push_back(v.slice(end, v.size() - end));
    return pieces.size() == 1 ? piece : concatenate(pieces);
  }
};

/// The block that travels after step k; no more blocks than numbers.
Block draw_block(const Node& node, std::size_t blocks, std::size_t size, Step k) {
  const std::size_t count = std::min(blocks, size);
  const std::size_t b = node.shared_random("block", k).below(count);
  return {b * size / count, (b + 1) * size / count};
}

Task<> run(Node& node, const Settings& settings) {
  Optimizer optimizer(settings.optimizer);
  const std::vector<NodeId> everybody = all_nodes(node);
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
      const Block block = draw_block(node, settings.blocks, x.size(), k);
      const Vector update = co_await average(node, everybody, tag_of(Channel::collective, k),
                                             block.of(p), settings.collective);
      Vector moved = block.of(x);
      moved.add_scaled(-1, update);
      x = block.replaced(x, moved);
      p = block.replaced(p, node.zeros(update.size()));
      y = x;
      y.add_scaled(-settings.lambda, p);
    }
    Vector model = x;
    if (settings.is_averaged) model.add_scaled(-1, p);
    node.end_step(k, model);
  }
}

}  // namespace

Program def(const Section& section, const Context& context) {
  Settings settings;
  settings.lambda = read_between(section, "lambda", 0.3, 0, 1,
                                 "how far ahead gradients are taken, as a share of the residual");
  const auto blocks = section.optional<std::int64_t>(
      "blocks", 64, "blocks of the model, of which one travels per exchange");
  section.expect(blocks >= 1, "blocks", "must be at least 1, got {}", blocks);
  settings.blocks = static_cast<std::size_t>(blocks);
  settings.period = read_period(section, 1);
  settings.is_averaged =
      section.choice("evaluate", {"shared", "averaged"}, "shared",
                     "model that is evaluated: x, or x less the mean residual (DEF-A)") ==
      "averaged";
  settings.collective = read_collective(section);
  settings.optimizer = read_optimizer(section, context.steps);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
