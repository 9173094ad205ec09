// gTop-k: synchronous SGD whose nodes agree on the k largest entries of the sum of their k largest. Codes go up a binomial tree
// to node 0, each node adding what comes to its own and keeping the k largest again, and the result goes back down:
//
//   p_i <- learning_rate * m_i(g_i(x)) + e_i,    q_i <- top_k(p_i)
//   s <- q_0 (+) q_1 (+) ..,                     a (+) b = top_k(a + b)
//   e_i <- p_i - q_i + (q_i where s is 0),       x <- x - s / n
//
// so what a node sent for nothing stays with it. Where other nodes brought an entry up, what a node's part of the tree has lost of it
// is neither applied nor kept, as published. m_i is the node's momentum and weight decay, before the choice, as error feedback has it.
// A step takes 2 ceil(log2 n) messages of 8 k bytes one after the other, where codes that go around a ring take n - 1.
// keep = 1 is allreduce SGD. Shares are of the whole model; with `unit = tensors` of each tensor.
//
// Shi, Wang, Zhao, Tang, Wang, Huang, Chu, "A Distributed Synchronous SGD Algorithm with Global Top-k Sparsification for Low
// Bandwidth Networks", ICDCS 2019, Algorithms 3 and 4; `warmup_keep` was 0.25, 0.0725, 0.015, 0.004, an epoch each.

#include "algorithms/exchange.hpp"
#include "algorithms/keep_schedule.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/tensor_codec.hpp"

namespace starling::algorithms {
namespace {

struct GtopKSettings {
  KeepSchedule keep;
  OptimizerSettings optimizer;
};

/// s, for vectors of `size` floats; the same on all nodes.
Task<Vector> global_top_k(Node& node, Step k, const Codec& codec, Encoded own) {
  const Tag tag = tag_of(Channel::collective, k);
  const std::size_t size = own.decoded.size();
  const Random stream = code_stream(node, node.id(), k);  // of which top-k takes nothing
  const auto decode = [&](const Vector& words) { return codec.decode(words, size, stream, {}); };
  const auto send = [&](NodeId to) {
    node.send_code(to, tag, own.code, static_cast<double>(own.code.bytes));
  };
  const NodeId me = node.id();
  NodeId bit = 1;
  for (; bit < node.nodes() && (me & bit) == 0; bit *= 2) {
    if ((me | bit) >= node.nodes()) continue;
    const Message m = co_await node.receive(me | bit, tag);
    co_await decoding(node, codec, own.decoded);
    own.decoded.add(decode(m.values));
    co_await encoding(node, codec, own.decoded);
    own = encode(codec, own.decoded, stream);
  }
  if (me != 0) {  // `bit` is the lowest of the own number: the way to the parent
    send(me ^ bit);
    const Message m = co_await node.receive(me ^ bit, tag);
    co_await node.sent(tag);
    own.code = {.words = m.values, .bytes = static_cast<std::int64_t>(m.number)};
    co_await decoding(node, codec, own.decoded);
    own.decoded = decode(m.values);
  }
  for (bit /= 2; bit > 0; bit /= 2) {
    if ((me | bit) >= node.nodes()) continue;
    send(me | bit);
    co_await node.sent(tag);
  }
  co_return own.decoded;
}

Task<> run(Node& node, const GtopKSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  ErrorFeedback feedback;
  Vector x = node.initial_model();
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    Vector step = optimizer.direction(g.values, x);
    step.scale(settings.optimizer.rate(k));
    const Codec& codec = *settings.keep.codec(k);
    co_await encoding(node, codec, step);
    const Encoded own = feedback.encode(codec, step, code_stream(node, node.id(), k));
    const Vector sum = co_await global_top_k(node, k, codec, own);
    if (Vector& e = feedback.residual())
      e.add(transformed(transforms::ClearWhere{}, {own.decoded, sum}));
    x.add_scaled(-1.0 / node.nodes(), sum);
    node.end_step(k, x);
  }
}

}  // namespace

Program gtop_k(const Section& section, const Context& context) {
  GtopKSettings settings{};
  settings.keep =
      read_keep_schedule(section, context, read_unit(section, context.workload.tensors, "model"));
  settings.optimizer = read_optimizer(section, context);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
