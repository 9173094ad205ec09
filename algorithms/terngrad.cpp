// TernGrad: synchronous SGD whose gradients have three values, and whose nodes share the size of these, so that sums keep to
// a grid. For every tensor l of the model, at every step:
//
//   node i    g_i <- gradient, each entry cut to +-clip_deviations standard deviations of its tensor,
//             around zero, as one of equal entries has none around its mean
//             sends max |g_i[l]|;   the server answers with the largest, s[l]
//             t_i <- sign(g_i) with probability |g_i| / s[l], else 0;   sends t_i in 2 bits per entry
//   server    sends sum_i t_i: 2 n + 1 values, 1 + ceil(log2(n + 1)) bits per entry
//   node i    x <- x - learning_rate * s[l] / n * sum_i t_i,   momentum and weight decay after the mean
//
// Without clipping (clip_deviations = 0) the mean is unbiased. All replicas stay equal. The server is a fibre on node 0
// beside that node's own work.
//
// Wen, Xu, Yan, Wu, Wang, Chen, Li, "TernGrad: Ternary Gradients to Reduce Communication in Distributed Deep Learning",
// NIPS 2017: layer-wise ternarizing, scaler sharing, gradient clipping. The codec `ternary` (algorithms/codec.hpp) is the
// same with each node's own scale, for any algorithm that compresses.

#include <algorithm>

#include "algorithms/companions.hpp"
#include "algorithms/exchange.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/sums.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

using namespace transforms;

struct TerngradSettings {
  double clip_deviations;  // 0: none
  OptimizerSettings optimizer;
};

/// The two exchanges of a step with the server.
Tag tag_of_scales(Channel channel, Step k) { return tag_of(channel, 2 * k); }
Tag tag_of_values(Channel channel, Step k) { return tag_of(channel, 2 * k + 1); }

/// `v`, whole numbers, in fields of so many bits.
Code pack(const Vector& v, std::uint32_t bits) {
  const std::size_t bytes = (v.size() * bits + 7) / 8;
  return {transformed(ToIntegers{bits}, {v}), static_cast<std::int64_t>(bytes)};
}

Vector unpack(const Message& m, std::uint32_t bits, std::size_t size) {
  return transformed(FromIntegers{bits, static_cast<std::uint32_t>(size)}, {m.values});
}

constexpr std::uint32_t ternary_bits = 2;
std::uint32_t sum_bits(const Node& node) {
  return level_bits(static_cast<std::uint32_t>(node.nodes()));
}

Task<> serve(Node& node) {
  for (Step k = 0; k < node.steps(); ++k) {
    Vector scales;
    node.post_receives(tag_of_scales(Channel::request, k));
    node.post_receives(tag_of_values(Channel::request, k));
    for (NodeId i = 0; i < node.nodes(); ++i) {
      const Message m = co_await node.receive(i, tag_of_scales(Channel::request, k));
      scales = scales ? transformed(Larger{}, {scales, m.values}) : m.values;
    }
    for (NodeId i = 0; i < node.nodes(); ++i) {
      node.send(i, tag_of_scales(Channel::reply, k), scales.as_numbers());
    }
    Vector sum;  // of whole numbers: exact
    for (NodeId i = 0; i < node.nodes(); ++i) {
      const Message m = co_await node.receive(i, tag_of_values(Channel::request, k));
      accumulate(sum, 1, unpack(m, ternary_bits, node.parameters()));
    }
    node.close_receives(tag_of_scales(Channel::request, k));
    node.close_receives(tag_of_values(Channel::request, k));
    co_await node.decode(sum, static_cast<std::size_t>(node.nodes()));
    co_await node.encode(sum);
    const Code code = pack(sum, sum_bits(node));
    for (NodeId i = 0; i < node.nodes(); ++i) {
      node.send_code(i, tag_of_values(Channel::reply, k), code);
    }
  }
}

/// The tensors of a gradient, clipped; none of sizes alone.
std::vector<Vector> clipped(const Node& node, const Vector& g, double deviations) {
  if (!g.has_numbers()) return {};
  std::vector<Vector> tensors = cut_into_tensors(node, g);
  if (deviations > 0) {
    const ClipDeviations clip{static_cast<float>(deviations)};
    for (Vector& tensor : tensors) tensor = transformed(clip, {tensor});
  }
  return tensors;
}

/// The largest magnitude of every one of the `tensors` of `g`.
Vector largest_of(const Node& node, const Vector& g, const std::vector<Vector>& tensors) {
  if (!g.has_numbers()) return g.slice(0, std::max<std::size_t>(1, node.tensors().size()));
  std::vector<Vector> largest;
  for (const Vector& tensor : tensors) largest.push_back(transformed(LargestMagnitude{}, {tensor}));
  return concatenate(largest);
}

/// The `tensors` of `g` in three values, as one vector.
Vector ternarized(const Node& node, Step k, const Vector& g, const std::vector<Vector>& tensors,
                  const Vector& scales) {
  if (!g.has_numbers()) return g;
  std::vector<Vector> ternaries;
  for (std::size_t l = 0; l < tensors.size(); ++l) {
    const auto draw = k * static_cast<Step>(tensors.size()) + static_cast<Step>(l);
    ternaries.push_back(
        transformed(Ternarize{node.random("code", draw)}, {tensors[l], scales.slice(l, 1)}));
  }
  return concatenate(ternaries);
}

/// Every tensor of `v` times its scale and `factor`.
Vector scaled(const Node& node, const Vector& v, const Vector& scales, double factor) {
  if (!v.has_numbers()) return v;
  std::vector<Vector> tensors = cut_into_tensors(node, v);
  for (std::size_t l = 0; l < tensors.size(); ++l) {
    tensors[l] = transformed(ScaleBy{static_cast<float>(factor)}, {tensors[l], scales.slice(l, 1)});
  }
  return concatenate(tensors);
}

Task<> run(Node& node, const TerngradSettings& settings) {
  Companions companions(node);
  if (node.id() == 0) companions.spawn(serve(node));
  Optimizer optimizer(settings.optimizer);
  Vector x = node.initial_model();
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(x);
    const std::vector<Vector> tensors = clipped(node, g.values, settings.clip_deviations);
    node.send(0, tag_of_scales(Channel::request, k),
              largest_of(node, g.values, tensors).as_numbers());
    const Message scales = co_await node.receive(0, tag_of_scales(Channel::reply, k));
    co_await node.encode(g.values);
    const Vector own = ternarized(node, k, g.values, tensors, scales.values);
    node.send_code(0, tag_of_values(Channel::request, k), pack(own, ternary_bits));
    const Message m = co_await node.receive(0, tag_of_values(Channel::reply, k));
    const Vector sum = unpack(m, sum_bits(node), x.size());
    co_await node.decode(sum);
    optimizer.update(x, scaled(node, sum, scales.values, 1.0 / node.nodes()), x, k);
    node.end_step(k, x);
  }
  co_await companions.join();
}

}  // namespace

Program terngrad(const Section& section, const Context& context) {
  TerngradSettings settings{};
  settings.clip_deviations =
      read_not_negative(section, "clip_deviations", 2.5,
                        "standard deviations of a tensor that its entries are cut to; 0: none");
  settings.optimizer = read_optimizer(section, context);
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
