// Deep Gradient Compression: top-k gradients whose momentum is accumulated where it belongs, before the selection.
//
//   g_i <- clipped to norm <= clip_norm / sqrt(n),  + weight_decay * x
//   u_i <- momentum * u_i + g_i,      v_i <- v_i + u_i
//   u_i <- momentum * (u_i + g_i),    v_i <- v_i + u_i + g_i    in the Nesterov form
//   sends the `keep` share of v_i that is largest; v_i, and with `masking` u_i, become 0 there
//   x <- x - learning_rate * mean_i of what was sent
//
// Codes go around a ring (coded_mean.hpp), of the whole or, with exchange = tensors, of one tensor after the other, as hooks of
// frameworks have it. Clipping and choosing go by tensor, each by itself; `unit = model` takes the model as one. At least one entry
// of each is sent: biases and other small tensors, too, which the authors' code sends whole. `warmup_keep` lists shares for the
// first stretches of `warmup_period` steps; the paper takes 0.25, 0.0625, 0.016, 0.004, an epoch each, before 0.001. With
// keep = 1 masking erases all momentum: plain SGD; without masking that is momentum SGD. With momentum 0 it is error
// feedback: where the learning rate changes, v_i is scaled so that what waits in it keeps the rate of its own step; published,
// `rescale_residual = no`, is that of the step in which it travels.
//
// Lin, Han, Mao, Wang, Dally, "Deep Gradient Compression", ICLR 2018; momentum 0.9 is theirs. They find the threshold of a
// tensor from a sample; here the selection is exact (compression = gradient_dropping samples).

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/coded_mean.hpp"
#include "algorithms/keep_schedule.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/pieces.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/sums.hpp"
#include "algorithms/tensor_codec.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct DgcSettings {
  KeepSchedule keep;
  bool is_masking;
  bool rescales_residual;
  double clip_norm;  // 0: none
  /// Clipped and chosen from each by itself; empty: the whole.
  std::vector<std::size_t> tensors;
  OptimizerSettings optimizer;
};

/// Each tensor of the gradient cut to `limit`.
Vector clipped(const Vector& g, const std::vector<std::size_t>& tensors, float limit) {
  const transforms::ClipNorm clip{limit};
  if (tensors.empty()) return transformed(clip, {g});
  std::vector<Vector> pieces;
  std::size_t begin = 0;
  for (const std::size_t size : tensors) {
    pieces.push_back(transformed(clip, {g.slice(begin, size)}));
    begin += size;
  }
  return concatenate(pieces);
}

Task<> run(Node& node, const DgcSettings& settings) {
  const std::span<const NodeId> everybody = node.everybody();
  const double momentum = settings.optimizer.momentum;
  Vector x = node.initial_model();
  Vector u, v;
  RateChange rate_change(settings.rescales_residual);
  for (Step k = 0; k < node.steps(); ++k) {
    const double rate = settings.optimizer.rate(k);
    const Gradient gradient = co_await node.gradient_in_pieces(x);
    Vector g = gradient.values;
    if (settings.clip_norm > 0) {
      const auto limit = static_cast<float>(settings.clip_norm / std::sqrt(node.nodes()));
      g = clipped(g, settings.tensors, limit);
    }
    if (settings.optimizer.weight_decay > 0) g.add_scaled(settings.optimizer.weight_decay, x);

    accumulate(u, settings.optimizer.nesterov ? 1 : momentum, g);
    if (settings.optimizer.nesterov) u.scale(momentum);
    // What is sent at a rate of 0 is lost: nothing that waits goes along.
    const double factor = rate_change.come_to(rate);
    const Vector waiting = rate_change.loses() ? std::exchange(v, {}) : Vector{};
    if (v && factor != 1) v.scale(factor);
    accumulate(v, 1, u);
    if (settings.optimizer.nesterov) v.add(g);
    const SharedCodec codec = settings.keep.codec(k);
    const Cut cut(node, v);
    Parts sent(cut.count());
    Parts means(cut.count());
    for (std::size_t i = 0; i < cut.count(); ++i) {
      const NameOfPiece name =
          name_of_piece(node, tag_of(Channel::collective, k), k, i, cut.count());
      co_await node.reached(cut[i]);
      const Vector part = cut.part(i);
      co_await encoding(node, *codec, part);
      Encoded own = encode(*codec, part, code_stream(node, node.id(), name.number));
      sent.add(std::move(own.decoded));
      Vector mean = co_await mean_of_codes(node, everybody, name.tag, codec, own.code, part.size(),
                                           name.number);
      means.add(std::move(mean));
    }
    const Vector own = sent.join();
    v.add_scaled(-1, own);
    if (rate_change.loses()) v = waiting;
    if (settings.is_masking) u = transformed(transforms::ClearWhere{}, {u, own});
    x.add_scaled(-rate, means.join());
    co_await node.finish_backward();
    node.end_step(k, x);
  }
}

}  // namespace

Program dgc(const Section& section, const Context& context) {
  DgcSettings settings{};
  settings.tensors = read_unit(section, context.workload.tensors, "tensors");
  // A piece is one of them; chosen from as a whole is.
  const auto exchange = section.peek<std::string>("exchange", "whole");
  section.expect(exchange == "whole" || exchange == "tensors", "exchange",
                 "must be whole or tensors: entries are chosen tensor by tensor, got {}", exchange);
  section.expect(exchange == "whole" || section.peek<std::string>("unit", "tensors") == "tensors",
                 "unit", "must be tensors with exchange = tensors: each is sent by itself");
  settings.keep = read_keep_schedule(
      section, context, exchange == "whole" ? settings.tensors : std::vector<std::size_t>{});
  settings.is_masking =
      section.optional<bool>("masking", true, "forget the momentum of what is sent");
  settings.rescales_residual = read_rescales_residual(section);
  settings.clip_norm = read_not_negative(
      section, "clip_norm", 0,
      "largest norm of the sum of all nodes' gradients if they are independent; 0: any");
  settings.optimizer = read_optimizer(section, context, 0.9);
  section.expect(settings.optimizer.is_sgd(), "optimizer",
                 "must be sgd: momentum is applied before entries are chosen");
  section.finish();
  return [settings](Node& node) { return run(node, settings); };
}

}  // namespace starling::algorithms
