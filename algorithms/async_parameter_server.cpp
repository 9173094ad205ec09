// Asynchronous parameter server: nobody waits for anybody else's gradient. A node fetches the
// model, computes, pushes its gradient; the server applies every gradient as it comes:
//
//   node     g <- gradient(x);   x <- x - learning_rate * g on its own copy
//            after every `push_period`-th step    push the sum of g since the last push
//            after every `fetch_period`-th step   x <- the server's
//   server   x <- x - learning_rate * c(s) * g;   version <- version + 1
//
// where s = version now - version that the node fetched is the staleness of g, and c(s) = 1
// (Downpour SGD: Dean et al., "Large Scale Distributed Deep Networks", NeurIPS 2012) or 1 / max(1,
// s) (staleness-aware: Zhang, Gupta, Lian, Liu, "Staleness-Aware Async-SGD for Distributed Deep
// Learning", IJCAI 2016).
//
// consistency = bounded (stale synchronous parallel: Ho et al., "More Effective Distributed ML via
// a Stale Synchronous Parallel Parameter Server", NeurIPS 2013): a fetch of a node that has pushed
// more than `staleness_bound` times oftener than the slowest is answered only when that has caught
// up.
//
// The server is a fibre on node 0; with `servers` > 1 nodes 0, 1, .. keep a piece each, and a
// fetched model may mix versions (the inconsistent read of Lian et al., NeurIPS 2015). A node clips each of its
// gradients (`clip_norm`). Momentum and weight decay are the server's, as is Downpour's Adagrad (optimizer = adagrad):
// a push is a gradient to it, however many are summed in it. The metric "staleness" counts
// updates by others between two fetches of a node. A server serves until all nodes have sent all
// their messages. With `patience`, when that long nobody has sent anything: nodes that wait for slower ones go on without
// those; if nobody waits, the server ends, and a node that was only slow ends the run when it fetches. `compression` is of pushes,
// not of fetched models; what it held back of gradients that would have been applied at another learning rate is scaled to the
// rate of the push that takes it along, as if rates were applied before the code is made.

#include <algorithm>
#include <map>

#include <fmt/core.h>

#include "algorithms/coded_exchange.hpp"
#include "algorithms/companions.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/patience.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/shards.hpp"
#include "algorithms/sums.hpp"
#include "sim/base/error.hpp"
#include "sim/base/numbers.hpp"
#include "sim/base/units.hpp"

namespace starling::algorithms {
namespace {

struct AsyncParameterServerSettings {
  NodeId servers;
  Step push_period;
  Step fetch_period;
  bool is_staleness_aware;
  std::optional<Step> staleness_bound;
  Duration patience;
  Compression compression;  // of pushes
  OptimizerSettings optimizer;
  OptimizerSettings of_servers;  // the same without clip_norm, which is of each gradient

  bool pushes_after(Step k, Step steps) const {
    return (k + 1) % push_period == 0 || k + 1 == steps;
  }
  bool fetches_after(Step k, Step steps) const {
    return (k + 1) % fetch_period == 0 || k + 1 == steps;
  }
};

/// Random numbers of the code in message `number` of a node to server `s`.
Random stream_of(const Node& node, NodeId sender, Step number, NodeId s) {
  return code_stream(node, sender, number * node.nodes() + s);
}

/// One piece of the model and what its server knows of the nodes.
class Server {
 public:
  Server(Node& node, const AsyncParameterServerSettings& settings)
      : node_(node),
        settings_(settings),
        optimizer_(settings.of_servers),
        x_(shard(node.initial_model(), node.id(), settings.servers)),
        states_(static_cast<std::size_t>(node.nodes())),
        unfinished_(node.nodes()) {
    for (Step k = 0; k < node.steps(); ++k) {
      messages_of_each_ += settings.pushes_after(k, node.steps()) ? 1 : 0;
      messages_of_each_ += settings.fetches_after(k, node.steps()) ? 1 : 0;
    }
    nodes_by_pushes_[0] = node.nodes();
  }

  /// Whether nodes may still send something.
  bool is_needed() const { return unfinished_ > 0; }
  /// Whether a message, or the first piece of one, came before.
  bool has_seen(const Message& m) const {
    return static_cast<Step>(m.number) < state(m.source).sent;
  }

  /// A message with values is a push, one without a fetch: one tag, so that they stay in order. Both are numbered.
  void handle(const Message& m) {
    NodeState& from = state(m.source);
    from.sent = static_cast<Step>(m.number) + 1;
    if (from.sent == messages_of_each_) --unfinished_;
    const Step fewest = fewest_pushes();
    if (from.is_silent) {
      from.is_silent = false;
      ++nodes_by_pushes_[from.pushes];
    }
    if (!m.values) {
      if (is_ahead(m.source)) {
        fetching_.push_back(m.source);
      } else {
        answer(m.source);
      }
      return;
    }
    apply(m.values, from);
    forget_pushes(from);
    ++nodes_by_pushes_[++from.pushes];
    if (fewest_pushes() != fewest) answer_all();
  }

  /// Lets those who wait go on without those who do not; false if nobody waits.
  bool give_up_on_silent() {
    if (fetching_.empty()) return false;
    for (NodeState& state : states_) state.is_silent = true;
    nodes_by_pushes_.clear();
    for (const NodeId i : fetching_) {
      state(i).is_silent = false;
      ++nodes_by_pushes_[state(i).pushes];
    }
    answer_all();
    return true;
  }

  /// Answers without a model whoever may still fetch.
  void close() {
    for (NodeId i = 0; i < node_.nodes(); ++i) {
      if (state(i).sent < messages_of_each_) node_.send(i, reply_tag(i));
    }
  }

  std::size_t size() const { return x_.size(); }

 private:
  struct NodeState {
    Step sent = 0;  // messages, as far as known here
    Step pushes = 0;
    Step answers = 0;
    Step version = 0;        // of the model it has
    bool is_silent = false;  // nobody waits for it
  };

  NodeState& state(NodeId i) { return states_[static_cast<std::size_t>(i)]; }
  const NodeState& state(NodeId i) const { return states_[static_cast<std::size_t>(i)]; }
  Tag reply_tag(NodeId i) const { return tag_of(Channel::reply, state(i).answers); }

  void apply(Vector g, const NodeState& from) {
    const Step staleness = version_ - from.version;
    if (settings_.is_staleness_aware)
      g.scale(1.0 / static_cast<double>(std::max<Step>(1, staleness)));
    // The schedule's step: what every node has made on average.
    optimizer_.update(x_, g, x_, version_ * settings_.push_period / node_.nodes());
    ++version_;
  }

  /// Whether a node is too far ahead of the slowest to be answered.
  bool is_ahead(NodeId i) const {
    return settings_.staleness_bound &&
           state(i).pushes - fewest_pushes() > *settings_.staleness_bound;
  }

  /// Answers all that wait but those too far ahead.
  void answer_all() {
    std::erase_if(fetching_, [&](NodeId i) {
      if (is_ahead(i)) return false;
      answer(i);
      return true;
    });
  }

  void answer(NodeId i) {
    NodeState& to = state(i);
    send_in_pieces(node_, i, reply_tag(i), x_, static_cast<double>(version_));
    to.version = version_;
    ++to.answers;
  }

  Step fewest_pushes() const { return nodes_by_pushes_.begin()->first; }

  /// `from` no longer counts with its number of pushes.
  void forget_pushes(const NodeState& from) {
    const auto same = nodes_by_pushes_.find(from.pushes);
    if (--same->second == 0) nodes_by_pushes_.erase(same);
  }

  Node& node_;
  const AsyncParameterServerSettings& settings_;
  Optimizer optimizer_;
  Vector x_;
  Step messages_of_each_ = 0;
  Step version_ = 0;                        // updates so far
  std::vector<NodeState> states_;           // (nodes)
  NodeId unfinished_;                       // nodes that may still send something
  std::map<Step, NodeId> nodes_by_pushes_;  // how many have pushed so often, silent ones left out
  std::vector<NodeId> fetching_;            // that wait, in order of asking
};

Task<> serve(Node& node, const AsyncParameterServerSettings& settings) {
  Server server(node, settings);
  const Pattern patterns[] = {{any_source, tag_of(Channel::request)}};
  node.post_receives(tag_of(Channel::request));
  while (server.is_needed()) {
    const std::optional<Time> until = patience_ends(node, settings.patience);
    Node::Select::Result got = co_await node.select(patterns, until);
    if (got.index > 0) {
      if (server.give_up_on_silent()) continue;
      break;
    }
    Message m = std::move(got.message);
    if (server.has_seen(m)) continue;
    if (m.values) {
      const Random stream = stream_of(node, m.source, static_cast<Step>(m.number), node.id());
      m = co_await receive_compressed(node, std::move(m), server.size(), settings.compression,
                                      stream);
    }
    server.handle(m);
  }
  node.close_receives(tag_of(Channel::request));
  server.close();
}

/// The servers as one node sees them.
class Servers {
 public:
  Servers(Node& node, const AsyncParameterServerSettings& settings)
      : node_(node),
        settings_(settings),
        compressors_(static_cast<std::size_t>(settings.servers), Compressor(settings.compression)) {
  }

  /// Sends a sum of gradients, which would be applied at the learning rate `rate` had all nodes come as far. What is sent at a
  /// rate of 0 is lost, so nothing that was held back goes along.
  void push(const Vector& sum, double rate) {
    const double factor = rate_.come_to(rate);
    for (Compressor& compressor : compressors_) compressor.scale_residual(factor);
    for (NodeId s = 0; s < settings_.servers; ++s) {
      Compressor without_residual(settings_.compression);
      send_compressed(node_, s, tag_of(Channel::request), shard(sum, s, settings_.servers),
                      static_cast<double>(sent_),
                      rate_.loses() ? without_residual : compressors_[static_cast<std::size_t>(s)],
                      stream_of(node_, node_.id(), sent_, s));
    }
    ++sent_;
    ++pushes_;
  }

  /// Their model after step k, of the size of `x`.
  Task<Vector> fetch(Step k, Vector x) {
    for (NodeId s = 0; s < settings_.servers; ++s) {
      node_.send(s, tag_of(Channel::request), {}, static_cast<double>(sent_));
    }
    ++sent_;
    std::vector<Vector> shards;
    for (NodeId s = 0; s < settings_.servers; ++s) {
      const std::size_t size = shard(x, s, settings_.servers).size();
      const Message m = co_await receive_shard(s, size);
      if (s == 0) {
        node_.record("staleness", k, m.number - version_ - static_cast<double>(pushes_));
        version_ = m.number;
      }
      shards.push_back(m.values);
    }
    pushes_ = 0;
    ++fetches_;
    co_return join_shards(shards);
  }

 private:
  Task<Message> receive_shard(NodeId s, std::size_t size) {
    Message first = co_await node_.receive(s, tag_of(Channel::reply, fetches_));
    if (!first.values) {
      throw Error(
          fmt::format("the parameter server on node {} ended before node {} fetched: "
                      "it had no message for {} (algorithm.patience)",
                      s, node_.id(), to_text(settings_.patience)));
    }
    Message whole = co_await receive_rest(node_, std::move(first), size);
    co_return whole;
  }

  Node& node_;
  const AsyncParameterServerSettings& settings_;
  std::vector<Compressor> compressors_;  // (servers)
  RateChange rate_;                      // from push to push
  double version_ = 0;                   // of the first server's piece, as fetched last
  Step pushes_ = 0;                      // since the last fetch
  Step sent_ = 0;                        // messages to each server
  Step fetches_ = 0;
};

Task<> run(Node& node, const AsyncParameterServerSettings& settings) {
  Companions companions(node);
  Vector x = node.initial_model();
  if (node.id() < settings.servers) companions.spawn(serve(node, settings));
  Servers servers(node, settings);
  Vector sum;  // of gradients not yet pushed
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient gradient = co_await node.gradient(x);
    const Vector g = clipped(settings.optimizer, gradient.values);
    if (settings.fetch_period > 1) x.add_scaled(-settings.optimizer.rate(k), g);
    accumulate(sum, 1, g);
    if (settings.pushes_after(k, node.steps())) {
      co_await encoding(node, *settings.compression.codec, sum);
      servers.push(sum, settings.optimizer.rate(k - k % settings.push_period));
      sum = {};
    }
    if (settings.fetches_after(k, node.steps())) x = co_await servers.fetch(k, x);
    node.end_step(k, x);
  }
  co_await companions.join();
}

}  // namespace

Program async_parameter_server(const Section& section, const Context& context) {
  AsyncParameterServerSettings settings{};
  settings.servers = read_servers(section, context.nodes);
  settings.push_period = read_at_least(section, "push_period", 1, 1,
                                       "steps whose gradients go to the server together");
  settings.fetch_period =
      read_at_least(section, "fetch_period", 1, 1, "steps on one fetched model");
  warn_beyond_run(section, "push_period", settings.push_period, context,
                  "nodes push once, at their end");
  settings.push_period = std::min(settings.push_period, context.steps);  // what servers count by
  warn_beyond_run(section, "fetch_period", settings.fetch_period, context,
                  "nodes fetch once, at their end");
  settings.is_staleness_aware =
      section.choice<bool>("stale_gradients", {{"full", false}, {"divided", true}}, "full",
                           "whether a gradient is divided by its staleness");
  const bool is_bounded = section.choice<bool>("consistency", {{"none", false}, {"bounded", true}},
                                               "none", "whether fast nodes wait for slow ones");
  if (is_bounded) {
    settings.staleness_bound =
        read_at_least(section, "staleness_bound", 3, 0,
                      "pushes by which a node that fetches may be ahead of the slowest");
  }
  settings.patience = read_patience(section);
  settings.compression = read_compression(section);
  settings.optimizer = read_optimizer(section, context);
  settings.of_servers = settings.optimizer;
  settings.of_servers.clip_norm = 0;
  expect_whole_at_server(section, settings.of_servers, settings.servers);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
