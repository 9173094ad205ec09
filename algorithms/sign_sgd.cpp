// signSGD with majority vote: of a step only its signs travel, up and down, one bit per entry. With sign(0) = 1, at step k
//
//   node i    m_i <- the optimizer's step for g_i(x), without weight decay;   sends sign(m_i)
//   server    v <- sign(sum_i sign(m_i)), what most nodes say, up where they are equally many;   sends v
//   node i    x <- x - learning_rate * (v + weight_decay * x)
//
// Every entry moves by the learning rate, so that it is to be much smaller than that of SGD, and has to fall. All replicas stay
// equal. With optimizer = sgd and a momentum this is Signum, as the length of m_i does not matter. Wrong votes of a few
// nodes change nothing where most others agree. One server is a fibre on node 0 beside that node's own work; several keep a
// piece of the model each.
//
// Bernstein, Wang, Azizzadenesheli, Anandkumar, "signSGD: Compressed Optimisation for Non-Convex Problems", ICML 2018,
// Algorithm 3; Bernstein, Zhao, Azizzadenesheli, Anandkumar, "signSGD with Majority Vote is Communication Efficient and Fault
// Tolerant", ICLR 2019, Algorithm 1 (with momentum and weight decay). The codec `sign` (algorithms/codec.hpp) keeps a
// magnitude, too, for error feedback.

#include <utility>
#include <vector>

#include "algorithms/companions.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/shards.hpp"
#include "algorithms/sums.hpp"

namespace starling::algorithms {
namespace {

using namespace transforms;

struct SignSgdSettings {
  NodeId servers;
  double weight_decay;
  OptimizerSettings optimizer;  // without it
};

/// The signs of `v`, 1 or -1, as one bit each: set where negative.
Code signs_of(const Vector& v) {
  return {transformed(ToIntegers{1}, {transformed(Signs{}, {v})}),
          static_cast<std::int64_t>((v.size() + 7) / 8)};
}

/// The signs again: a bit that is set is -1 in two's complement, and one that is not 0.
Vector read_signs(const Message& m, std::size_t size) {
  const auto entries = static_cast<std::uint32_t>(size);
  return transformed(Signs{}, {transformed(FromIntegers{1, entries}, {m.values})});
}

Task<> serve(Node& node, std::size_t size) {
  for (Step k = 0; k < node.steps(); ++k) {
    Vector votes;  // whole numbers: exact
    node.post_receives(tag_of(Channel::request, k));
    for (NodeId i = 0; i < node.nodes(); ++i) {
      const Message m = co_await node.receive(i, tag_of(Channel::request, k));
      accumulate(votes, 1, read_signs(m, size));
    }
    node.close_receives(tag_of(Channel::request, k));
    co_await node.decode(votes, static_cast<std::size_t>(node.nodes()));
    co_await node.encode(votes);
    const Code code = signs_of(votes);
    for (NodeId i = 0; i < node.nodes(); ++i) node.send_code(i, tag_of(Channel::reply, k), code);
  }
}

Task<> run(Node& node, const SignSgdSettings& settings) {
  Companions companions(node);
  Optimizer optimizer(settings.optimizer);
  Vector x = node.initial_model();
  const NodeId servers = settings.servers;
  if (node.id() < servers) companions.spawn(serve(node, shard(x, node.id(), servers).size()));
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    const Vector step = optimizer.direction(g.values, x);
    co_await node.encode(step);
    for (NodeId s = 0; s < servers; ++s)
      node.send_code(s, tag_of(Channel::request, k), signs_of(shard(step, s, servers)));
    std::vector<Vector> votes;
    for (NodeId s = 0; s < servers; ++s) {
      const Message m = co_await node.receive(s, tag_of(Channel::reply, k));
      votes.push_back(read_signs(m, shard(x, s, servers).size()));
    }
    co_await node.decode(x);
    const double rate = settings.optimizer.rate(k);
    x.scale(1 - rate * settings.weight_decay);
    x.add_scaled(-rate, join_shards(votes));
    node.end_step(k, x);
  }
  co_await companions.join();
}

}  // namespace

Program sign_sgd(const Section& section, const Context& context) {
  SignSgdSettings settings{};
  settings.servers = read_servers(section, context.nodes);
  settings.optimizer = read_optimizer(section, context);
  settings.weight_decay = std::exchange(settings.optimizer.weight_decay, 0);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
