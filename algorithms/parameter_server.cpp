// Synchronous parameter server, optionally with backup nodes. All nodes send their gradients to the
// server, which takes the step and sends the model back:
//
//   x_{k+1} <- x_k - learning_rate * mean of the first n - backup_nodes gradients taken at x_k
//
// Gradients that come later are dropped. A node that finds x_{k+1} already there when it is about
// to begin with x_k takes it over without computing, so a slow node returns to the others after
// each gradient that came too late.
//
// The server is a fibre on node 0 beside that node's own work; with `servers` > 1 nodes 0, 1, ..
// keep a piece of the model each. Momentum and weight decay are the server's. All other nodes send
// to it at once (incast): that is for the network model to charge. When all have come it adds them
// up, one after the other (Node::reduce()).
//
// Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014; backup
// nodes: Chen, Pan, Monga, Bengio, Jozefowicz, "Revisiting Distributed Synchronous SGD", 2016.

#include "algorithms/companions.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/shards.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct ParameterServerSettings {
  NodeId servers;
  NodeId backup_nodes;
  OptimizerSettings optimizer;
};

/// Keeps this node's piece of the model. Whose gradients are taken depends on time, the order of
/// their sum does not.
Task<> serve(Node& node, const ParameterServerSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  Vector x = shard(node.initial_model(), node.id(), settings.servers);
  const auto needed = static_cast<std::size_t>(node.nodes() - settings.backup_nodes);
  node.post_receives(tag_of(Channel::request));
  for (Step k = 0; k < node.steps(); ++k) {
    std::vector<Vector> pushes(static_cast<std::size_t>(node.nodes()));  // empty until they come
    for (std::size_t count = 0; count < needed;) {
      Message first = co_await node.receive(any_source, tag_of(Channel::request));
      Vector& push = pushes[static_cast<std::size_t>(first.source)];
      if (static_cast<Step>(first.number) != k || push) continue;
      const Message m = co_await receive_rest(node, std::move(first), x.size());
      push = m.values;
      ++count;
    }
    std::erase_if(pushes, [](const Vector& push) { return !push; });
    for (std::size_t i = 1; i < pushes.size(); ++i) co_await node.reduce(pushes[i].wire_bytes());
    optimizer.update(x, mean(pushes), x, k);
    for (NodeId i = 0; i < node.nodes(); ++i) {
      send_in_pieces(node, i, tag_of(Channel::reply, k), x);
    }
  }
  node.close_receives(tag_of(Channel::request));
}

Task<> run(Node& node, const ParameterServerSettings& settings) {
  Companions companions(node);
  Vector x = node.initial_model();
  if (node.id() < settings.servers) companions.spawn(serve(node, settings));
  for (Step k = 0; k < node.steps(); ++k) {
    std::optional<Message> early;
    if (settings.backup_nodes > 0) early = node.poll(0, tag_of(Channel::reply, k));
    if (!early) {
      const Gradient g = co_await node.gradient(x);
      for (NodeId s = 0; s < settings.servers; ++s) {
        send_in_pieces(node, s, tag_of(Channel::request), shard(g.values, s, settings.servers),
                       static_cast<double>(k));
      }
    }
    std::vector<Vector> shards;
    if (early) {
      const std::size_t size = shard(x, 0, settings.servers).size();
      const Message m = co_await receive_rest(node, std::move(*early), size);
      shards.push_back(m.values);
    }
    for (NodeId s = early ? 1 : 0; s < settings.servers; ++s) {
      const std::size_t size = shard(x, s, settings.servers).size();
      const Message m = co_await receive_in_pieces(node, s, tag_of(Channel::reply, k), size);
      shards.push_back(m.values);
    }
    x = join_shards(shards);
    node.end_step(k, x);
  }
  co_await companions.join();
}

}  // namespace

Program parameter_server(const Section& section, const Context& context) {
  ParameterServerSettings settings{};
  settings.servers = read_servers(section, context.nodes);
  settings.backup_nodes = static_cast<NodeId>(
      read_whole(section, "backup_nodes", 0, 0, context.nodes - 1,
                 "nodes whose gradients a step need not wait for; samples and throughput count "
                 "theirs, too"));
  settings.optimizer = read_optimizer(section, context);
  expect_whole_at_server(section, settings.optimizer, settings.servers);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
