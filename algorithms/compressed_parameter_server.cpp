// Synchronous parameter server whose messages are compressed, with error feedback on either side:
//
//   node i    p_i <- learning_rate * g_i(x) + e_i,   sends Q(p_i),   e_i <- p_i - Q(p_i)
//   server    u <- mean_i Q(p_i)
//     uplink only        sends u, as positions and values of what is not zero: the union of the nodes' choices
//     both directions    p <- u + e,   sends D(p),   e <- p - D(p)
//   node i    x <- x - what came
//
// All replicas of x stay equal, and x - mean_i e_i - e is x_0 - sum learning_rate * mean_i g_i: nothing is
// lost, only late. The learning rate is inside what is fed back, momentum and weight decay come before it and
// are each node's own. A code covers the whole model, not a layer, unless `unit` says so.
//
// Stich, Cordonnier, Jaggi, "Sparsified SGD with Memory", NeurIPS 2018 (uplink, top-k); Tang, Lian, Yu, Zhang, Liu,
// "DoubleSqueeze", ICML 2019 (both, any codec); Zou, thesis, University of Waterloo, 2022
// (hdl.handle.net/10012/18335): top-k with a thousandth of the entries, the defaults here. Its code sends
// downlink the entries strictly above the k-th largest: `downlink_strict`.
//
// The server is a fibre on node 0 beside that node's own work. Metrics, of node 0:
//   uplink_union          entries of u that are not zero
//   downlink_per_uplink   words sent to one node for one word that it sent; m(n) of the thesis
//   compression_gap       || D(mean_i p_i + e) - what was sent || / || learning_rate * mean_i g_i ||, what Alistarh et al.
//                         ("The Convergence of Sparsified Gradient Methods", NeurIPS 2018) assume bounded by xi; D is Q
//                         in the uplink-only case. Every `gap_period` steps, for which p_i and g_i travel uncharged.

#include <algorithm>
#include <cmath>

#include "algorithms/codec.hpp"
#include "algorithms/companions.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct CompressedParameterServerSettings {
  SharedCodec uplink;
  SharedCodec downlink;
  bool sends_union;  // uplink only: the server sends u without loss
  Step gap_period;   // 0: never
  OptimizerSettings optimizer;

  bool measures_gap(const Vector& x, Step k) const {
    return gap_period > 0 && k % gap_period == 0 && x.has_numbers();
  }
};

/// `v` without loss: positions and values of its `count` entries that are not zero, or all of it where that is no
/// longer. The receiver tells by the size.
Code union_code(const Vector& v, std::size_t count) {
  const auto kept = static_cast<std::uint32_t>(std::max<std::size_t>(count, 1));
  if (2 * std::size_t{kept} >= v.size()) return {v, 4 * static_cast<std::int64_t>(v.size())};
  return {transformed(transforms::KeepLargest{kept}, {v}), 8 * std::int64_t{kept}};
}

Vector read_union_code(const Vector& words, std::size_t size) {
  if (words.size() == size) return words;
  return transformed(transforms::Scatter{static_cast<std::uint32_t>(size)}, {words});
}

/// What a node sends: its code and, at steps whose gap is measured, uncharged, what it is the code of.
struct Push {
  Vector words;
  Vector wanted;  // p_i
  Vector step;    // learning_rate * g_i

  Code pack(const Code& code) const {
    if (!wanted) return code;
    const Vector pieces[] = {code.words, wanted, step};
    return {concatenate(pieces), code.bytes};
  }
  static Push unpack(const Vector& values, std::size_t size, bool has_rest) {
    if (!has_rest) return {values, {}, {}};
    const std::size_t words = values.size() - 2 * size;
    return {values.slice(0, words), values.slice(words, size), values.slice(words + size, size)};
  }
};

Random downlink_stream(const Node& node, Step k) { return code_stream(node, 0, k, "downlink"); }

class CodedServer {
 public:
  CodedServer(Node& node, const CompressedParameterServerSettings& settings)
      : node_(node), settings_(settings) {}

  /// From the messages of all nodes, in order of node, to the code that each of them gets.
  Code step(Step k, const std::vector<Vector>& messages) {
    const std::size_t size = node_.parameters();
    std::vector<Vector> updates, wanted, steps;
    std::size_t words = 0;
    std::size_t entries = 0;
    for (NodeId i = 0; i < node_.nodes(); ++i) {
      const Push push = Push::unpack(messages[static_cast<std::size_t>(i)], size,
                                     settings_.measures_gap(messages[0], k));
      updates.push_back(settings_.uplink->decode(push.words, size, code_stream(node_, i, k), {}));
      if (push.wanted) wanted.push_back(push.wanted);
      if (push.step) steps.push_back(push.step);
      words += push.words.size();
      entries += settings_.uplink->entries_of(push.words.size(), size);
    }
    Vector target;  // of the gap: what the node's codec was not allowed to see
    if (!wanted.empty()) target = mean(wanted);
    if (target && feedback_.residual()) target.add(feedback_.residual());

    const Encoded sent = encode_update(mean(updates), k, std::min(entries, size));
    node_.record(
        "downlink_per_uplink", k,
        static_cast<double>(sent.code.words.size()) * node_.nodes() / static_cast<double>(words));
    if (target) record_gap(target, sent.decoded, mean(steps), k);
    return sent.code;
  }

 private:
  /// `most` is a bound on the entries of `u` that are not zero, for runs without numbers.
  Encoded encode_update(const Vector& u, Step k, std::size_t most) {
    Scalar entries;
    if (u.has_numbers()) {
      entries = measured(transforms::CountNonzero{}, {u});
      node_.record("uplink_union", k, entries);
    }
    if (!settings_.sends_union)
      return feedback_.encode(*settings_.downlink, u, downlink_stream(node_, k));
    return {union_code(u, entries ? static_cast<std::size_t>(entries.value()) : most), u};
  }

  void record_gap(const Vector& target, const Vector& sent, const Vector& step, Step k) {
    const Codec& codec = settings_.sends_union ? *settings_.uplink : *settings_.downlink;
    const Vector best = encode(codec, target, downlink_stream(node_, k)).decoded;
    const Scalar gap = squared_distance(best, sent);
    const Scalar whole = squared_distance(step, node_.zeros(step.size()));
    node_.record("compression_gap", k, std::sqrt(gap.value() / whole.value()));
  }

  Node& node_;
  const CompressedParameterServerSettings& settings_;
  ErrorFeedback feedback_;
};

Task<> serve(Node& node, const CompressedParameterServerSettings& settings) {
  CodedServer server(node, settings);
  const Vector model = node.initial_model();  // as large as what is decoded
  for (Step k = 0; k < node.steps(); ++k) {
    std::vector<Vector> messages;
    node.post_receives(tag_of(Channel::request, k));
    for (NodeId i = 0; i < node.nodes(); ++i) {
      const Message m = co_await node.receive(i, tag_of(Channel::request, k));
      messages.push_back(m.values);
    }
    node.close_receives(tag_of(Channel::request, k));
    co_await decoding(node, *settings.uplink, model, messages.size());
    const Code code = server.step(k, messages);
    co_await encoding(node, *settings.downlink, model);
    for (NodeId i = 0; i < node.nodes(); ++i) {
      node.send_code(i, tag_of(Channel::reply, k), code);
    }
  }
}

Task<> run(Node& node, const CompressedParameterServerSettings& settings) {
  Companions companions(node);
  if (node.id() == 0) companions.spawn(serve(node, settings));
  Optimizer optimizer(settings.optimizer);
  ErrorFeedback feedback;
  Vector x = node.initial_model();
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    Push push;
    Vector step = optimizer.direction(g.values, x);
    step.scale(settings.optimizer.rate(k));
    if (settings.measures_gap(x, k)) {
      push.step = step;
      push.wanted = step;
      if (feedback.residual()) push.wanted.add(feedback.residual());
    }
    co_await encoding(node, *settings.uplink, step);
    const Encoded sent = feedback.encode(*settings.uplink, step, code_stream(node, node.id(), k));
    node.send_code(0, tag_of(Channel::request, k), push.pack(sent.code));

    const Message m = co_await node.receive(0, tag_of(Channel::reply, k));
    const Vector update =
        settings.sends_union
            ? read_union_code(m.values, x.size())
            : settings.downlink->decode(m.values, x.size(), downlink_stream(node, k), {});
    const Codec& answers = settings.sends_union ? *settings.uplink : *settings.downlink;
    co_await decoding(node, answers, x);
    x.add_scaled(-1, update);
    node.end_step(k, x);
  }
  co_await companions.join();
}

}  // namespace

Program compressed_parameter_server(const Section& section, const Context& context) {
  CompressedParameterServerSettings settings{};
  enum class Direction { uplink, both, downlink };
  const auto direction = section.choice<Direction>(
      "direction",
      {{"uplink", Direction::uplink}, {"both", Direction::both}, {"downlink", Direction::downlink}},
      "uplink", "which messages are compressed: to the server, from it");
  settings.sends_union = direction == Direction::uplink;
  settings.uplink = exact_codec();
  settings.downlink = exact_codec();
  const Tensors tensors = &context.workload.tensors;
  if (direction != Direction::downlink)
    settings.uplink = read_plain_codec(section, {.fallback = "top_k", .tensors = tensors});
  if (direction != Direction::uplink)
    settings.downlink =
        read_plain_codec(section, {.fallback = "top_k", .prefix = "downlink_", .tensors = tensors});
  settings.gap_period = read_at_least(section, "gap_period", 0, 0,
                                      "steps between two records of compression_gap; 0: never");
  warn_beyond_run(section, "gap_period", settings.gap_period, context,
                  "only the first step has a record");
  settings.optimizer = read_optimizer(section, context);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
