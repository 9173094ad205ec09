// Push-sum gossip without waiting: a node keeps half of its numerator s and weight w, sends the
// other half to a random neighbor, and adds whatever has arrived; its model is z = s / w.
//
//   g <- gradient(z);   apply it
//   with chance `send_chance`:  (s, w) <- (s, w) / 2, the other half to a random neighbor
//   for every share that has arrived: (s, w) <- (s, w) + share;   z <- s / w
//
// Kempe, Dobra, Gehrke, "Gossip-Based Computation of Aggregate Information", FOCS 2003, Protocol
// Push-Sum (no gradients, rounds in step); Blot, Picard, Cord, Thome, "Gossip Training for Deep
// Learning", 2016 (GoSGD: with gradients). Sums of s and of w over nodes and messages are
// conserved. The gradient is applied
//
//   to the model       z <- z - learning_rate * g, that is s <- s - w * learning_rate * g
//   to the numerator   s <- s - learning_rate * g, as in SGP
//
// The first is GoSGD's and the default. The second weighs all gradients alike, but moves z far
// where w is small, and w becomes as small as 2^-m in m steps without mail.
//
// At the end a node waits for the last shares of all who may send it some; with `patience` no longer
// than that after the last message. Shares that are lost, or reach a node that has stopped, are mass
// that is gone: the estimates stay means, weighted by what is left.

#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/patience.hpp"
#include "algorithms/push_shares.hpp"
#include "algorithms/registry.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct PushSumSettings {
  double send_chance;
  bool is_applied_to_model;
  Duration patience;
  OptimizerSettings optimizer;
};

/// One that may send shares, each with the number of its step. A message without a share says that it is done; it has the
/// tag of the last share, so it stays behind that where messages are staged.
struct Sender {
  NodeId id;
  Step next = 0;  // steps before this one send no more
  bool is_done = false;
};

std::vector<Sender> all_senders(const Node& node) {
  std::vector<Sender> senders;
  for (const NodeId id : node.topology().senders(node.id())) senders.push_back({.id = id});
  return senders;
}

void apply(Optimizer& optimizer, Mass& mass, const Vector& z, const Vector& g, Step k,
           bool to_model) {
  if (!to_model) {
    optimizer.update(mass.x, g, z, k);
    return;
  }
  Vector updated = z;
  optimizer.update(updated, g, z, k);
  mass.x.add_scaled(mass.w, updated);
  mass.x.add_scaled(-mass.w, z);
}

/// Adds a share, unless it came before: what comes twice would be mass that nobody gave.
void take(const Message& m, Mass& mass, std::vector<Sender>& senders) {
  Sender& sender = *std::ranges::lower_bound(senders, m.source, {}, &Sender::id);
  const auto k = static_cast<Step>(m.tag);  // as by tag_of(Channel::program, k)
  if (!m.values) {
    sender.is_done = true;
  } else if (k >= sender.next) {
    sender.next = k + 1;
    mass.fold(m);
  }
}

Task<> run(Node& node, const PushSumSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  const Neighbors peers = node.topology().neighbors(node.id());
  Mass mass{node.initial_model(), 1};
  Vector z = mass.x;
  std::vector<Sender> senders = all_senders(node);
  std::vector<Tag> last(peers.size(), tag_of(Channel::program));  // of each peer's newest share
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(z);
    apply(optimizer, mass, z, g.values, k, settings.is_applied_to_model);

    Random random = node.random("push", k);
    if (!peers.empty() && random.uniform() < settings.send_chance) {
      const std::size_t p = random.below(peers.size());
      const Shares half{.kept = 0.5, .out = {{peers[static_cast<NodeId>(p)], 0.5}}, .in = {}};
      last[p] = tag_of(Channel::program, k);
      half.send(node, mass, last[p]);
    }
    for (auto m = node.poll(any_source, any_tag); m; m = node.poll(any_source, any_tag))
      take(*m, mass, senders);
    mass.expect_weight(k);
    z = mass.model();
    node.record("push_sum_weight", k, mass.w);
    node.end_step(k, z, mass.w);
  }

  auto tag = last.begin();
  for (const NodeId peer : peers) node.send(peer, *tag++);
  const Pattern patterns[] = {{any_source, any_tag}};
  while (!std::ranges::all_of(senders, &Sender::is_done)) {
    const std::optional<Time> until = patience_ends(node, settings.patience);
    const Node::Select::Result got = co_await node.select(patterns, until);
    if (got.index > 0) break;
    take(got.message, mass, senders);
  }
  node.record("push_sum_weight", node.steps() - 1, mass.w);
  node.set_final_model(mass.model(), mass.w);
}

}  // namespace

Program push_sum(const Section& section, const Context& context) {
  PushSumSettings settings{};
  settings.send_chance =
      read_share_above_0(section, "send_chance", 1.0, "chance that a node sends after a step");
  settings.is_applied_to_model =
      section.choice<bool>("gradient", {{"model", true}, {"numerator", false}}, "model",
                           "what a step is subtracted from: s / w, or s");
  settings.patience = read_patience(section);
  settings.optimizer = read_optimizer(section, context);
  section.note_other("topology");
  const auto chance = [](double from, double) { return 1 / from; };
  if (settings.is_applied_to_model && context.workload.has_numbers &&
      !is_balanced(context.topology, chance)) {
    section.warn("gradient",
                 "= model weighs the losses of nodes by how much is sent to them, which differs "
                 "here: the optimum is another one; numerator, or a regular topology, weighs all "
                 "alike");
  }
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
