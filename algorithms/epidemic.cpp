// Epidemic learning: in every round a node sends its model to s nodes drawn at random, and takes
// the plain mean of its own model and all that it gets.
//
//   x_i <- x_i - learning_rate * g_i(x_i)   (H times)
//   x_i <- (x_i + sum of received models) / (1 + number received)
//
//   local    every node draws its s receivers for itself; how many models a node gets is
//            random, so averaging keeps the mean model only in expectation
//   oracle   the round's graph is regular: s out, s in, so the mean model is kept
//
// de Vos, Farhadkhani, Guerraoui, Kermarrec, Pires, Sharma, "Epidemic Learning: Boosting
// Decentralized Learning with Randomized Communication", NeurIPS 2023, Algorithm 1. There the
// oracle draws a random s-regular undirected graph; here a directed one: i sends to those s random
// distances further on a random circle. A receiver must know when its round is complete. By default
// all draws come from shared streams, so everybody knows who sends to whom; with `notices`
// everybody tells everybody else that nothing will come, in n - 1 - s empty messages a round, as in
// the released code. The numbers are the same. With `deadline` nobody knows: a round ends `timeout` after the
// node has sent its model, with the models of the same round that have come by then. Later ones are dropped;
// models of later rounds wait for these. Models go in one piece then. Momentum stays on its node.

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "algorithms/averaging.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/round_cache.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct EpidemicSettings {
  NodeId receivers;  // s
  bool is_oracle;
  /// How a node knows that a round is complete.
  enum class End { shared_random, notices, deadline } end;
  Duration timeout{};
  Step local_steps;  // H
  OptimizerSettings optimizer;
};

/// Who sends to whom in one round.
struct DrawnRound {
  std::vector<std::vector<NodeId>> out;  // (nodes), each in order of sending
  std::vector<std::vector<NodeId>> in;   // (nodes), each sorted
};

/// `count` of 0 .. bound-1, without repetition.
std::vector<NodeId> sample(Random& random, NodeId bound, NodeId count) {
  std::vector<NodeId> chosen;  // Floyd's method: every subset is equally likely
  for (NodeId last = bound - count; last < bound; ++last) {
    const auto candidate = static_cast<NodeId>(random.below(static_cast<std::uint64_t>(last) + 1));
    chosen.push_back(std::ranges::find(chosen, candidate) == chosen.end() ? candidate : last);
  }
  return chosen;
}

/// Whom node i sends to in a round whose receivers every node draws for itself: from the one above it and around.
std::vector<NodeId> draw_receivers(const Node& node, Step number, NodeId i, NodeId count) {
  const NodeId n = node.nodes();
  Random random = node.shared_random("epidemic receivers", number * n + i);
  std::vector<NodeId> receivers = sample(random, n - 1, count);
  for (NodeId& j : receivers) j = j < i ? j : j + 1;
  std::ranges::sort(receivers);
  std::ranges::rotate(receivers, std::ranges::upper_bound(receivers, i));
  return receivers;
}

DrawnRound draw_round(const Node& node, Step number, const EpidemicSettings& settings) {
  const NodeId n = node.nodes();
  DrawnRound round;
  round.out.resize(static_cast<std::size_t>(n));
  round.in.resize(static_cast<std::size_t>(n));
  const auto connect = [&](NodeId from, NodeId to) {
    round.out[static_cast<std::size_t>(from)].push_back(to);
    round.in[static_cast<std::size_t>(to)].push_back(from);
  };
  if (settings.is_oracle) {
    Random random = node.shared_random("epidemic oracle", number);
    const std::span<const NodeId> everybody = node.everybody();
    std::vector<NodeId> circle(everybody.begin(), everybody.end());
    random.shuffle(circle);
    for (const NodeId distance : sample(random, n - 1, settings.receivers)) {
      for (NodeId i = 0; i < n; ++i) {
        connect(circle[static_cast<std::size_t>(i)],
                circle[static_cast<std::size_t>((i + distance + 1) % n)]);
      }
    }
  } else {
    for (NodeId i = 0; i < n; ++i) {
      for (const NodeId j : draw_receivers(node, number, i, settings.receivers)) connect(i, j);
    }
  }
  for (std::vector<NodeId>& peers : round.in) std::ranges::sort(peers);
  return round;
}

/// The models of the rounds that a node is in and will be in, by sender.
class Arrivals {
 public:
  /// Waits until `deadline` for the models that others sent in `round`, the own one included in the
  /// answer: in order of sender.
  Task<std::vector<Vector>> collect(Node& node, Step round, Vector own, Time deadline) {
    by_round_.erase(by_round_.begin(), by_round_.lower_bound(round));
    by_round_[round].insert_or_assign(node.id(), std::move(own));
    const Pattern patterns[] = {{any_source, any_tag}};
    for (;;) {
      const Node::Select::Result got = co_await node.select(patterns, deadline);
      if (got.index != 0) break;
      // As by tag_of(Channel::program, ..).
      const auto sent_in = static_cast<Step>(got.message.tag);
      if (sent_in >= round) by_round_[sent_in].emplace(got.message.source, got.message.values);
    }
    std::vector<Vector> models;
    for (const auto& [sender, model] : by_round_[round]) models.push_back(model);
    co_return models;
  }

 private:
  std::map<Step, std::map<NodeId, Vector>> by_round_;
};

/// One round that ends at a deadline; answers the mean.
Task<Vector> round_until_deadline(Node& node, Arrivals& arrivals, Step k, Vector x,
                                  std::vector<NodeId> receivers, Duration timeout) {
  for (const NodeId peer : receivers) {
    node.send(peer, tag_of(Channel::program, k), x);
  }
  const Time deadline = after(node.now(), timeout);
  const std::vector<Vector> models = co_await arrivals.collect(node, k, x, deadline);
  co_return mean(models);
}

/// One round that ends when all of `senders` have sent their models, or said that they send none; answers the mean. Tells
/// those of `told` that are no receivers that nothing will come.
Task<Vector> complete_round(Node& node, Step k, Vector x, std::vector<NodeId> receivers,
                            std::vector<NodeId> senders, std::vector<NodeId> told) {
  const Tag tag = tag_of(Channel::program, k);
  node.post_receives(tag);
  for (const NodeId peer : receivers) send_in_pieces(node, peer, tag, x);
  std::ranges::sort(receivers);
  std::ranges::rotate(told, std::ranges::upper_bound(told, node.id()));  // from the one above on
  for (const NodeId peer : told) {
    if (!std::ranges::binary_search(receivers, peer)) node.send(peer, tag);
  }
  std::vector<Vector> models{x};
  for (const NodeId peer : senders) {
    Message first = co_await node.receive(peer, tag);
    if (!first.values) continue;
    const Message m = co_await receive_rest(node, std::move(first), x.size());
    models.push_back(m.values);
  }
  node.close_receives(tag);
  co_await node.sent(tag);
  co_return mean(models);
}

/// `rounds` is shared by all nodes of the run: they ask it the same questions.
Task<> run(Node& node, std::shared_ptr<RoundCache<DrawnRound>> rounds,
           const EpidemicSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  const auto me = static_cast<std::size_t>(node.id());
  const bool sends_notices = settings.end == EpidemicSettings::End::notices;
  std::vector<NodeId> others;
  if (sends_notices) {
    others.assign(node.everybody().begin(), node.everybody().end());
    others.erase(others.begin() + node.id());
  }
  Arrivals arrivals;
  Vector x = node.initial_model();
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    optimizer.update(x, g.values, x, k);
    const bool ends_round = (k + 1) % settings.local_steps == 0;
    const auto round_of_all = [&]() -> const DrawnRound& {
      return rounds->at(k, [&] { return draw_round(node, k, settings); });
    };
    if (ends_round && settings.end == EpidemicSettings::End::deadline) {
      // Nobody waits, so nodes may be any number of rounds apart: each draws for itself alone.
      std::vector<NodeId> receivers = settings.is_oracle
                                          ? round_of_all().out[me]
                                          : draw_receivers(node, k, node.id(), settings.receivers);
      x = co_await round_until_deadline(node, arrivals, k, x, std::move(receivers),
                                        settings.timeout);
    } else if (ends_round) {
      const DrawnRound& round = round_of_all();
      std::vector<NodeId> receivers = round.out[me];
      std::vector<NodeId> senders = sends_notices ? others : round.in[me];
      x = co_await complete_round(node, k, x, std::move(receivers), std::move(senders), others);
    }
    node.end_step(k, x);
  }
}

}  // namespace

Program epidemic(const Section& section, const Context& context) {
  EpidemicSettings settings{};
  NodeId logarithm = 0;
  while ((NodeId{1} << logarithm) < context.nodes) ++logarithm;
  const std::int64_t receivers = read_whole(
      section, "receivers", std::max(std::min(logarithm, context.nodes - 1), 0), 0,
      context.nodes - 1, "nodes that each model is sent to, s; log2 of the nodes if not given");
  settings.receivers = static_cast<NodeId>(receivers);
  settings.is_oracle =
      section.choice<bool>("graph", {{"local", false}, {"oracle", true}}, "local",
                           "receivers drawn by each node for itself, or a regular graph for all");
  using End = EpidemicSettings::End;
  settings.end =
      section.choice<End>("agreement",
                          {{"shared_random", End::shared_random},
                           {"notices", End::notices},
                           {"deadline", End::deadline}},
                          "shared_random",
                          "how a node knows that a round is complete: from shared random numbers, "
                          "because those that do "
                          "not send say so, or not at all: it ends after a timeout");
  if (settings.end == End::deadline) {
    settings.timeout = section.required<Duration>(
        "timeout", "time that a node waits for models after it has sent its own");
    expect_whole(section, "agreement = deadline: models go in one piece");
  }
  settings.local_steps =
      read_period(section, context, 1, "local_steps", "steps between two rounds");
  settings.optimizer = read_optimizer(section, context);
  section.finish();
  // A node's two lists, and it in the lists of others.
  const auto bytes =
      2 * (sizeof(std::vector<NodeId>) + sizeof(NodeId) * static_cast<std::size_t>(receivers));
  const auto rounds = std::make_shared<RoundCache<DrawnRound>>(
      context.nodes, bytes * static_cast<std::size_t>(context.nodes));
  return [settings, rounds](Node& node) { return run(node, rounds, settings); };
}

}  // namespace starling::algorithms
