// Asynchronous DiLoCo: every node fetches the shared model theta, takes `period` inner steps to x
// and sends its progress D = theta_fetched - x; a server applies what comes, whoever else is still
// computing. With the outer learning rate eta and momentum mu the server's rule is
//
//   vanilla            a Nesterov step per arrival:
//                      m <- mu m + c D;   theta <- theta - eta (c D + mu m)
//   delayed            a Nesterov step with the mean of `delay` = N arrivals, answered only then
//   delayed_nesterov   B <- B + D, and on every N-th arrival
//                      m <- mu m + B / N;   B <- 0;
//                      theta <- theta - eta ((1 - a N + a) mu m + D / N)
//                      and on all others
//                      theta <- theta - eta (a mu m + D / N)
//
// with c = `weight`, divided by sqrt(1 + s) with stale_progress = damped (s: outer steps since the
// fetch).
//
// With local_steps = by_speed (the paper's dynamic local updates) slower nodes take fewer inner steps, so
// that all blocks last about as long: with every block a node tells how long its steps took, v_i per unit
// of time, and gets beside theta
//
//   H_i <- max(1, floor(period * v_i / max_j v_j))          v_j as last told; `period` at first
//
// With `grace` > 0 the server waits that long after an arrival for others and hands out theta when
// all are merged.
//
// Liu, Chhaparia, Douillard, Kale, Rusu, Shen, Szlam, Ranzato, "Asynchronous Local-SGD Training for
// Language Modeling", 2024; weight 1 / sqrt(nodes) as in the released notebook.
// Defaults: N = nodes, a = 0 (`share`), mu = 0.9, eta = 0.7, for vanilla a tenth of it, as momentum
// of stale progress blows up. The server is a fibre on node 0; a block begun must be whole to be sent.
//
// `compression` is of the progress D, not of theta.

#include <algorithm>
#include <cmath>
#include <set>

#include "algorithms/averaging.hpp"
#include "algorithms/coded_exchange.hpp"
#include "algorithms/companions.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/sums.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

enum class MergeRule { vanilla, delayed, delayed_nesterov };

struct AsyncDilocoSettings {
  Step period;
  MergeRule rule;
  Step delay = 1;     // N
  double share = 0;   // a
  double weight = 1;  // c
  bool damps_stale = false;
  Duration grace{};
  bool is_dynamic = false;  // fewer steps on slower nodes
  Compression compression;  // of progress
  OptimizerSettings outer;
  OptimizerSettings inner;
};

constexpr NodeId server = 0;

/// The shared model and the rule that moves it.
class SharedModel {
 public:
  SharedModel(Node& node, const AsyncDilocoSettings& settings)
      : settings_(settings),
        outer_(settings.outer),
        theta_(node.initial_model()),
        fetched_(static_cast<std::size_t>(node.nodes())) {}

  /// vanilla, delayed_nesterov: applies one arrival.
  void apply(const Message& m) {
    if (settings_.rule == MergeRule::vanilla) {
      Vector d = m.values;
      const auto staleness = static_cast<double>(version_ - fetched(m.source));
      d.scale(settings_.weight / (settings_.damps_stale ? std::sqrt(1 + staleness) : 1));
      outer_.update(theta_, d, theta_, version_);
    } else {
      apply_delayed_nesterov(m.values);
    }
    ++version_;
  }

  /// delayed: one outer step with the mean of `arrivals`.
  void apply_mean(const std::vector<Message>& arrivals) {
    std::vector<Vector> progress;
    progress.reserve(arrivals.size());
    for (const Message& m : arrivals) progress.push_back(m.values);
    outer_.update(theta_, mean(progress), theta_, version_);
    ++version_;
  }

  /// Answers the progress of a block.
  void send(Node& node, NodeId to, Step block) {
    fetched(to) = version_;
    send_in_pieces(node, to, tag_of(Channel::reply, block), theta_, static_cast<double>(version_));
  }

 private:
  Step& fetched(NodeId node) { return fetched_[static_cast<std::size_t>(node)]; }

  void apply_delayed_nesterov(const Vector& d) {
    const auto n = static_cast<double>(settings_.delay);
    const double mu = settings_.outer.momentum;
    const double eta = settings_.outer.learning_rate;
    double share = settings_.share;
    accumulate(buffer_, 1, d);
    if ((version_ + 1) % settings_.delay == 0) {
      buffer_.scale(1 / n);
      accumulate(momentum_, mu, buffer_);
      buffer_ = {};
      share = 1 - share * n + share;
    }
    if (momentum_ && share != 0) theta_.add_scaled(-eta * share * mu, momentum_);
    theta_.add_scaled(-eta / n, d);
  }

  const AsyncDilocoSettings& settings_;
  Optimizer outer_;
  Vector theta_;
  Vector momentum_;  // m; empty while zero
  Vector buffer_;    // B; empty while zero
  Step version_ = 0;
  std::vector<Step> fetched_;  // (nodes) version that each has
};

/// The blocks of all nodes, as the server plans them.
class BlockPlans {
 public:
  BlockPlans(const Node& node, const AsyncDilocoSettings& settings)
      : period_(settings.period), plans_(static_cast<std::size_t>(node.nodes())) {
    for (Plan& plan : plans_) plan = {.left = node.steps(), .length = settings.period};
  }

  /// Whether the block that `node` is in will end.
  bool will_end(NodeId node) const { return plan(node).left >= plan(node).length; }
  /// The block of `node` has ended, whose steps took `pace` each, if that is known; plans its next one.
  void end(NodeId node, double pace) {
    Plan& own = plans_[static_cast<std::size_t>(node)];
    own.left -= own.length;
    ++own.ended;
    if (own.pace > 0) paces_.erase(paces_.find(own.pace));
    own.pace = pace;
    if (!(pace > 0)) return;
    paces_.insert(pace);
    constexpr double rounding = 1e-12;  // 7 steps of 9 ms are 6.999999999999999 of 9 ms
    const double length =
        std::floor(static_cast<double>(period_) * *paces_.begin() / pace * (1 + rounding));
    own.length = std::max<Step>(1, static_cast<Step>(length));
  }
  Step length(NodeId node) const { return plan(node).length; }
  /// Blocks of `node` that have ended.
  Step ended(NodeId node) const { return plan(node).ended; }

 private:
  struct Plan {
    Step left = 0;    // before the block
    Step length = 0;  // of the block
    Step ended = 0;
    double pace = 0;  // time of a step as last told; 0: not yet
  };
  const Plan& plan(NodeId node) const { return plans_[static_cast<std::size_t>(node)]; }

  Step period_;
  std::vector<Plan> plans_;
  std::multiset<double> paces_;  // of all nodes that have told one
};

/// The progress whose first message has come, as its code tells it; its block has ended then.
Task<Message> receive_progress(Node& node, const AsyncDilocoSettings& settings, BlockPlans& blocks,
                               Message first) {
  const auto block = static_cast<Step>(first.number);
  const Random stream = code_stream(node, first.source, block);
  Message m = co_await receive_compressed(node, std::move(first), node.parameters(),
                                          settings.compression, stream);
  double pace = 0;
  if (settings.is_dynamic) {
    const Message told = co_await node.receive(m.source, tag_of(Channel::entry, block));
    pace = told.number;
  }
  blocks.end(m.source, pace);
  co_return m;
}

/// Sends the node whose progress is `m` the model, and how long its next block is.
void answer(Node& node, const AsyncDilocoSettings& settings, const BlockPlans& blocks,
            SharedModel& model, const Message& m) {
  const auto block = static_cast<Step>(m.number);
  if (settings.is_dynamic) {
    const Tag tag = tag_of(Channel::program, block);
    node.send(m.source, tag, {}, static_cast<double>(blocks.length(m.source)));
  }
  model.send(node, m.source, block);
}

Task<> serve(Node& node, const AsyncDilocoSettings& settings) {
  SharedModel model(node, settings);
  BlockPlans blocks(node, settings);
  // Nodes that will come without being answered first.
  NodeId computing = blocks.will_end(server) ? node.nodes() : 0;
  const Pattern patterns[] = {{any_source, tag_of(Channel::request)}};
  std::vector<Message> arrivals;  // to be answered together
  std::optional<Time> deadline;   // by which
  node.post_receives(tag_of(Channel::request));
  while (computing > 0) {
    Node::Select::Result got = co_await node.select(patterns, deadline);
    if (got.index == 0) {
      const auto block = static_cast<Step>(got.message.number);
      if (block < blocks.ended(got.message.source)) continue;  // came twice
      if (arrivals.empty() && settings.rule != MergeRule::delayed)
        deadline = after(node.now(), settings.grace);
      Message m = co_await receive_progress(node, settings, blocks, std::move(got.message));
      arrivals.push_back(std::move(m));
      --computing;
    }
    const bool is_full = settings.rule == MergeRule::delayed
                             ? std::ssize(arrivals) == settings.delay
                             : settings.grace == Duration{};
    if (got.index == 0 && !is_full && computing > 0) continue;

    if (settings.rule == MergeRule::delayed) {
      model.apply_mean(arrivals);
    } else {
      for (const Message& m : arrivals) model.apply(m);
    }
    for (const Message& m : arrivals) {
      answer(node, settings, blocks, model, m);
      if (blocks.will_end(m.source)) ++computing;
    }
    arrivals.clear();
    deadline.reset();
  }
  node.close_receives(tag_of(Channel::request));
}

/// Time of one of `steps` steps.
double pace(Duration duration, Step steps) {
  return static_cast<double>(duration.count()) / static_cast<double>(steps);
}

Task<> run(Node& node, const AsyncDilocoSettings& settings) {
  Optimizer inner(settings.inner);
  Companions companions(node);
  Compressor compressor(settings.compression);
  Vector x = node.initial_model();
  Vector theta = x;
  double version = 0;
  Step first = 0;              // of the block
  Step end = settings.period;  // of the block
  Step blocks = 0;             // that have ended
  Time begun = settings.is_dynamic ? node.now() : Time{};
  if (node.id() == server) companions.spawn(serve(node, settings));
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    inner.update(x, g.values, x, k);
    if (k + 1 == end) {
      const Tag told = tag_of(Channel::entry, blocks);
      if (settings.is_dynamic) node.send(server, told, {}, pace(node.now() - begun, end - first));
      const Vector progress = difference(theta, x);
      co_await encoding(node, *settings.compression.codec, progress);
      send_compressed(node, server, tag_of(Channel::request), progress, static_cast<double>(blocks),
                      compressor, code_stream(node, node.id(), blocks));
      const Tag answer = tag_of(Channel::reply, blocks);
      const Message m = co_await receive_in_pieces(node, server, answer, x.size());
      node.record("staleness", k, m.number - version - 1);  // outer steps besides the own one
      theta = m.values;
      version = m.number;
      x = theta;
      first = end;
      end += settings.period;
      if (settings.is_dynamic) {
        const Message planned = co_await node.receive(server, tag_of(Channel::program, blocks));
        end = first + static_cast<Step>(planned.number);
        node.record("local_steps", k, planned.number);
        begun = node.now();
      }
      ++blocks;
    }
    node.end_step(k, x);
  }
  co_await companions.join();
}

}  // namespace

Program async_diloco(const Section& section, const Context& context) {
  AsyncDilocoSettings settings{};
  settings.period = read_period(section, context, 50);
  settings.rule =
      section.choice<MergeRule>("rule",
                                {{"delayed_nesterov", MergeRule::delayed_nesterov},
                                 {"delayed", MergeRule::delayed},
                                 {"vanilla", MergeRule::vanilla}},
                                "delayed_nesterov", "how the server applies what arrives");
  if (settings.rule == MergeRule::vanilla) {
    settings.weight = read_positive(
        section, "weight", 1 / std::sqrt(static_cast<double>(context.nodes)),
        "factor before the progress of one arrival; 1 / sqrt(run.nodes) if not given");
    settings.damps_stale =
        section.choice<bool>("stale_progress", {{"full", false}, {"damped", true}}, "full",
                             "whether progress is divided by sqrt(1 + staleness)");
  } else {
    settings.delay =
        read_at_least(section, "delay", context.nodes, 1,
                      "arrivals per step of the outer momentum; run.nodes if not given");
    section.expect(settings.rule != MergeRule::delayed || settings.delay <= context.nodes, "delay",
                   "must be at most run.nodes = {} with rule = delayed, which answers nobody "
                   "before, got {}",
                   context.nodes, settings.delay);
  }
  if (settings.rule == MergeRule::delayed_nesterov) {
    settings.share =
        section.optional<double>("share", 0, "share of the momentum that other arrivals apply");
    section.expect(settings.share >= 0 && settings.share * static_cast<double>(settings.delay) <= 1,
                   "share", "must be from 0 to 1 / delay = {}, got {}",
                   1 / static_cast<double>(settings.delay), settings.share);
  }
  if (settings.rule != MergeRule::delayed) {
    settings.grace = section.optional<Duration>(
        "grace", Duration{}, "time the server waits for others after an arrival");
  }
  settings.is_dynamic =
      section.choice<bool>("local_steps", {{"fixed", false}, {"by_speed", true}}, "fixed",
                           "inner steps of a block: period, or fewer on slower nodes");
  settings.outer =
      read_outer_optimizer(section, settings.rule == MergeRule::vanilla ? 0.07 : 0.7, 0.9);
  section.expect(settings.rule != MergeRule::delayed_nesterov ||
                     settings.outer.rule == OptimizerSettings::Rule::sgd,
                 "outer_optimizer", "must be sgd for rule = delayed_nesterov, which is its own");
  settings.inner = read_optimizer(section, context);
  settings.compression = read_compression(section);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
