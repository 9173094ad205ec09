// RelaySGD: gossip along a tree in which sums of models are passed on, so that every model counts alike everywhere, a step later
// for each node that lies between. At step t, for neighbors j in the tree,
//
//   h_i          <- x_i - learning_rate * g_i(x_i)
//   m_ij, c_ij   <- h_i + sum_{k != j} m_ki, 1 + sum_{k != j} c_ki      of what other neighbors sent at step t - 1;   to j
//   x_i          <- (h_i + sum_j m_ji) / (1 + sum_j c_ji)               of what has come at step t
//
// which is x_i = 1/n sum_j h_j, h_j of d - 1 steps before for a node at the distance d > 0: the mean of all, however unlike their
// data. In the first steps it is that of those whose sums have come. Each node sends one model to each of its neighbors.
//
// The tree is that of a breadth-first search of the topology from node 0, in order of number: a topology that is a tree is its own.
// Mixing weights do not matter. A node adds up in the order of its neighbors: what it got from those before j, from the first on,
// and from those behind j, from the last on.
//
// Vogels, He, Koloskova, Lin, Karimireddy, Stich, Jaggi, "RelaySum for Decentralized Deep Learning on Heterogeneous Data",
// NeurIPS 2021, Algorithm 1. Momentum stays local.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/pieces.hpp"
#include "algorithms/registry.hpp"

namespace starling::algorithms {
namespace {

/// The neighbors of every node, in order.
using Tree = std::vector<std::vector<NodeId>>;

struct RelaySettings {
  std::shared_ptr<const Tree> tree;
  OptimizerSettings optimizer;
};

/// A sum of models, and of how many.
struct Sum {
  Vector values;
  double count = 0;

  void add(const Sum& other) {
    if (!other.values) return;
    if (values) {
      values.add(other.values);
    } else {
      values = other.values;
    }
    count += other.count;
  }
};

/// One node's part in passing sums on.
class Relay {
 public:
  Relay(Node& node, const std::vector<NodeId>& peers)
      : node_(node), peers_(peers), came_(node.pieces().size(), std::vector<Sum>(peers.size())) {}

  /// Exchanges sums at step k, with `h` as the own model; answers the mean of those that have come.
  Task<Vector> mean(Step k, Vector h) {
    const Cut cut(node_, std::move(h));
    const Time begin = node_.begin_exchange();
    const auto peers = static_cast<int>(peers_.size());
    Parts means(cut.count());
    for (std::size_t i = 0; i < cut.count(); ++i) {
      const Tag tag = tag_of_part(tag_of(Channel::program, k), i);
      Sum sum{cut.part(i), 1};
      node_.post_receives(tag);
      co_await node_.stage_out(cut[i], sum.values, begin);
      co_await node_.operate(sum.values, 2 * peers);
      send(tag, sum, came_[i]);
      for (std::size_t p = 0; p < peers_.size(); ++p) {
        const Message m = co_await node_.receive(peers_[p], tag);
        came_[i][p] = {m.values, m.number};
        sum.add(came_[i][p]);
      }
      node_.close_receives(tag);
      co_await node_.sent(tag);
      co_await node_.operate(sum.values, peers + 1);
      sum.values.scale(1 / sum.count);
      node_.stage_in(sum.values);
      means.add(std::move(sum.values));
    }
    co_await node_.staged_in();
    co_return means.join();
  }

 private:
  /// Sends every neighbor `own` and what came from the others.
  void send(Tag tag, Sum own, const std::vector<Sum>& came) {
    std::vector<Sum> behind(peers_.size());
    for (std::size_t p = peers_.size(); p-- > 1;) {
      behind[p - 1] = behind[p];
      behind[p - 1].add(came[p]);
    }
    for (std::size_t p = 0; p < peers_.size(); ++p) {
      Sum sum = own;
      sum.add(behind[p]);
      node_.send_from_host(peers_[p], tag, sum.values, sum.count);
      own.add(came[p]);
    }
  }

  Node& node_;
  const std::vector<NodeId>& peers_;
  std::vector<std::vector<Sum>> came_;  // (pieces, neighbors), at the last step
};

/// That of a breadth-first search from node 0. All topologies are connected.
Tree breadth_first_tree(const Topology& topology) {
  const auto nodes = static_cast<std::size_t>(topology.nodes());
  Tree tree(nodes);
  std::vector<bool> is_found(nodes);
  is_found[0] = true;
  std::vector<NodeId> found{0};
  for (std::size_t next = 0; next < found.size() && found.size() < nodes; ++next) {
    const NodeId parent = found[next];
    for (const Edge& edge : topology.out(parent)) {
      const auto child = static_cast<std::size_t>(edge.peer);
      if (is_found[child]) continue;
      is_found[child] = true;
      found.push_back(edge.peer);
      tree[static_cast<std::size_t>(parent)].push_back(edge.peer);
      tree[child].push_back(parent);
    }
  }
  for (std::vector<NodeId>& peers : tree) std::ranges::sort(peers);
  return tree;
}

Task<> run(Node& node, const RelaySettings& settings) {
  Optimizer optimizer(settings.optimizer);
  Relay relay(node, (*settings.tree)[static_cast<std::size_t>(node.id())]);
  Vector x = node.initial_model();
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    optimizer.update(x, g.values, x, k);
    x = co_await relay.mean(k, x);
    node.end_step(k, x);
  }
}

}  // namespace

Program relay(const Section& section, const Context& context) {
  RelaySettings settings{};
  settings.optimizer = read_optimizer(section, context);
  expect_fixed_symmetric(section, "relay", context.topology);
  settings.tree = std::make_shared<const Tree>(breadth_first_tree(context.topology));
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
