// Every sample has a stream of its own, of its node and its number there: z_0, z_1, .. and then r. y is summed in double, with one
// fma per term, for k from 0.
#include "kernels/data/made_regression.hpp"

#include <cmath>
#include <numeric>

#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"

namespace starling {
namespace {

Dataset room_for(std::size_t samples, std::size_t features) {
  Dataset data{.samples = samples, .features = features};
  data.x.resize(samples * features);
  data.target.resize(samples);
  return data;
}

void draw(const MadeRegression& made, const std::vector<double>& weights, Random random,
          Dataset& data, std::size_t at) {
  double y = 0;
  for (std::size_t k = 0; k < made.features; ++k) {
    const auto z = static_cast<float>(random.normal());
    data.x[at * made.features + k] = z;
    y = std::fma(weights[k], double{z}, y);
  }
  if (made.noise > 0) y = std::fma(made.noise, random.normal(), y);
  data.target[at] = static_cast<float>(y);
}

}  // namespace

std::vector<double> true_weights(const MadeRegression& made, NodeId node) {
  Random shared(made.seed, "linear weights");
  Random own(made.seed, "linear weights of a node", node);
  std::vector<double> weights(made.features);
  for (double& weight : weights) {
    weight = shared.normal();
    if (made.node_spread > 0) weight = std::fma(made.node_spread, own.normal(), weight);
  }
  return weights;
}

std::vector<std::vector<std::int32_t>> parts_of(const MadeRegression& made) {
  ensure(made.nodes > 0 && made.samples >= static_cast<std::size_t>(made.nodes),
         "a made regression needs samples for all nodes");
  const auto nodes = static_cast<std::size_t>(made.nodes);
  std::vector<std::vector<std::int32_t>> parts(nodes);
  std::int32_t at = 0;
  for (std::size_t i = 0; i < nodes; ++i) {
    parts[i].resize(made.samples / nodes + (i < made.samples % nodes ? 1 : 0));
    std::iota(parts[i].begin(), parts[i].end(), at);
    at += static_cast<std::int32_t>(parts[i].size());
  }
  return parts;
}

SplitDataset make_samples(const MadeRegression& made) {
  ensure(made.features > 0 && made.test_samples > 0,
         "a made regression needs features and samples to be tested on");
  SplitDataset split{.train = room_for(made.samples, made.features),
                     .test = room_for(made.test_samples, made.features)};
  const Random trained_on(made.seed, "linear samples");
  const Random held_out(made.seed, "linear test samples");
  const auto nodes = static_cast<std::size_t>(made.nodes);
  std::size_t at = 0;
  const auto parts = parts_of(made);
  for (NodeId i = 0; i < made.nodes; ++i) {
    const std::vector<double> weights = true_weights(made, i);
    const auto own = static_cast<Step>(parts[static_cast<std::size_t>(i)].size());
    for (Step s = 0; s < own; ++s) draw(made, weights, trained_on.at(i, s), split.train, at++);
    for (auto t = static_cast<std::size_t>(i); t < made.test_samples; t += nodes)
      draw(made, weights, held_out.at(i, static_cast<Step>(t)), split.test, t);
  }
  split.description = fmt::format("{} made samples of {} features, noise {}, {} held out",
                                  made.samples, made.features, made.noise, made.test_samples);
  return split;
}

}  // namespace starling
