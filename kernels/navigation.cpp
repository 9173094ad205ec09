#include "kernels/navigation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>

#include <fmt/core.h>

#include "kernels/finite.hpp"
#include "kernels/for_all.hpp"
#include "kernels/keys.hpp"
#include "kernels/model_facts.hpp"
#include "kernels/registry.hpp"
#include "sim/base/elementary.hpp"
#include "sim/base/error.hpp"
#include "sim/base/memory.hpp"
#include "sim/base/numbers.hpp"
#include "sim/base/random.hpp"

namespace starling {
namespace {

constexpr std::size_t outputs = Episode::moves + 1;  // logits, then the value
constexpr std::size_t episodes_at_once = 25;         // episodes played side by side
// What else a move is takes as long as so many multiplications.
constexpr double beside_layers = 5e4;
constexpr double reward_nearer = 0.1, reward_move = -0.01, reward_goal = 1;

/// Probabilities of the four moves, their logarithms and entropy.
struct Policy {
  std::array<double, Episode::moves> log_p, p;
  double entropy = 0;

  Policy() = default;
  explicit Policy(const float* logits) {
    const double highest = *std::max_element(logits, logits + Episode::moves);
    double sum = 0;
    for (std::size_t m = 0; m < p.size(); ++m) sum += exact_exp(double{logits[m]} - highest);
    const double log_sum = exact_log(sum);
    for (std::size_t m = 0; m < p.size(); ++m) {
      log_p[m] = (double{logits[m]} - highest) - log_sum;
      p[m] = exact_exp(log_p[m]);
      entropy -= p[m] * log_p[m];
    }
  }

  int draw(Random& random) const {
    double left = random.uniform();
    for (int m = 0; m + 1 < Episode::moves; ++m) {
      left -= p[static_cast<std::size_t>(m)];
      if (left < 0) return m;
    }
    return Episode::moves - 1;
  }
};

}  // namespace

/// One move of a rollout.
struct Navigation::Move {
  Policy policy;
  int direction;
  double reward, value;
  bool ends;  // its episode
  double advantage, target;
};

/// Scratch of one thread.
struct Navigation::Work {
  DenseStack stack;
  std::vector<Move> moves;
  std::vector<Episode> episodes;
  std::vector<int> lengths;
  int arrivals = 0;
};

Navigation::Navigation(Problem problem, const dense::Kernels& kernels)
    : problem_(std::move(problem)),
      kernels_(kernels),
      layers_(stack_layers(Episode::features(problem_.view), problem_.hidden, outputs)) {
  const auto maps = static_cast<Step>(problem_.maps);
  for (NodeId node = 0; node < problem_.nodes; ++node) {
    for (Step m = 0; m < maps; ++m) {
      Random random(problem_.seed, "navigation maps", node, m);
      maps_.push_back(make_grid_map(problem_.side, problem_.obstacles, random));
    }
  }
  for (Step m = 0; m < maps; ++m) {
    Random random(problem_.seed, "navigation maps held out", shared_stream, m);
    test_maps_.push_back(make_grid_map(problem_.side, problem_.obstacles, random));
  }

  facts_.description = fmt::format(
      "navigation by an MLP {} on {} maps of {} x {} cells per node, {} moves per gradient",
      widths_of(layers_), maps, problem_.side, problem_.side, moves());
  set_parameters(facts_, layers_.back().bias + outputs, problem_.wire_parameters);
  for (const DenseLayer& layer : layers_) add_dense_layer(facts_, layer);
  facts_.has_accuracy = true;
  facts_.counts_episodes = true;
  facts_.batch_size = static_cast<double>(moves());
  const auto side = static_cast<std::size_t>(problem_.side);
  const std::size_t cells = side * side;
  facts_.data_bytes = static_cast<double>((maps_.size() + test_maps_.size()) * cells);
  DenseStack row;
  row.fit(layers_, 1);
  facts_.scratch_floats =
      row.floats() * (moves() + problem_.environments) + cells * problem_.environments;
  // There is no end of experience: an epoch is as many moves as all maps have cells.
  facts_.samples.assign(static_cast<std::size_t>(problem_.nodes),
                        problem_.maps * problem_.side * problem_.side);
}

void Navigation::initial_model(std::span<float> x) const {
  ensure(x.size() == facts_.parameters, "initial_model: wrong size");
  Random random(problem_.seed, "initial model");
  for (const DenseLayer& layer : layers_) {
    const bool is_last = &layer == &layers_.back();
    const double deviation =
        first_deviation(layer.inputs, layer.outputs, is_last) * (is_last ? 0.1 : 1);
    draw_weights(layer.inputs, layer.outputs, &x[layer.weights],
                 [&] { return static_cast<float>(deviation * random.normal()); });
    std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(layer.bias), layer.outputs, 0.0f);
  }
}

void Navigation::forward(const float* x, std::size_t first, std::size_t rows,
                         DenseStack& stack) const {
  DenseStack::Rows& input = stack.values.front();
  stack.forward(kernels_, layers_, x, input.row(first), input.stride, first, rows);
}

/// Fills work.moves and the rows of work.stack.values; the values after the last moves are in the rows
/// behind those of the moves.
void Navigation::roll_out(NodeId node, Step draw, const float* x, Work& work) const {
  const std::size_t environments = problem_.environments;
  work.stack.fit(layers_, moves() + environments);
  work.moves.resize(moves());
  work.episodes.resize(environments);
  work.lengths.clear();
  work.arrivals = 0;
  Random random(problem_.seed, "navigation rollout", node, draw);
  const auto begin = [&](Episode& episode) {
    const auto map = static_cast<std::size_t>(node * problem_.maps) +
                     random.below(static_cast<std::uint64_t>(problem_.maps));
    episode = Episode(maps_[map], random);
  };
  for (Episode& episode : work.episodes) begin(episode);
  for (std::size_t t = 0; t <= problem_.rollout_steps; ++t) {
    const std::size_t first = t * environments;
    for (std::size_t e = 0; e < environments; ++e) {
      work.episodes[e].observe(problem_.view, {work.stack.values[0].row(first + e), features()});
    }
    forward(x, first, environments, work.stack);
    if (t == problem_.rollout_steps) break;
    for (std::size_t e = 0; e < environments; ++e) {
      Episode& episode = work.episodes[e];
      const float* out = work.stack.values.back().row(first + e);
      Move& move = work.moves[first + e];
      move.value = double{out[Episode::moves]};
      move.policy = Policy(out);
      move.direction = move.policy.draw(random);
      move.reward = reward_move + reward_nearer * episode.move(move.direction);
      if (episode.is_at_goal()) move.reward += reward_goal;
      move.ends = episode.is_at_goal() || episode.steps() == problem_.horizon;
      if (!move.ends) continue;
      work.lengths.push_back(episode.steps());
      work.arrivals += episode.is_at_goal();
      begin(episode);
    }
  }
}

void Navigation::estimate_advantages(Work& work) const {
  const std::size_t environments = problem_.environments, count = moves();
  for (std::size_t e = 0; e < environments; ++e) {
    double next_value = double{work.stack.values.back().row(count + e)[Episode::moves]}, next = 0;
    for (std::size_t t = problem_.rollout_steps; t-- > 0;) {
      Move& move = work.moves[t * environments + e];
      if (move.ends) next_value = next = 0;
      const double surprise = move.reward + problem_.discount * next_value - move.value;
      move.advantage = next = surprise + problem_.discount * problem_.decay * next;
      move.target = move.advantage + move.value;
      next_value = move.value;
    }
  }
  double mean = 0, squares = 0;
  for (const Move& move : work.moves) mean += move.advantage / static_cast<double>(count);
  for (const Move& move : work.moves) squares += (move.advantage - mean) * (move.advantage - mean);
  const double scale = 1 / (std::sqrt(squares / static_cast<double>(count)) + 1e-8);
  for (Move& move : work.moves) move.advantage = (move.advantage - mean) * scale;
}

/// The loss; the outputs of the moves become its gradient.
double Navigation::objective(Work& work) const {
  const double share = 1 / static_cast<double>(moves());
  double loss = 0;
  for (std::size_t r = 0; r < moves(); ++r) {
    float* out = work.stack.values.back().row(r);
    const Move& move = work.moves[r];
    const Policy& policy = move.policy;
    const double miss = double{out[Episode::moves]} - move.target;
    loss += -move.advantage * policy.log_p[static_cast<std::size_t>(move.direction)] +
            problem_.value_weight / 2 * miss * miss - problem_.entropy_weight * policy.entropy;
    for (int m = 0; m < Episode::moves; ++m) {
      const auto i = static_cast<std::size_t>(m);
      const double chosen = m == move.direction ? 1 : 0;
      const double slope =
          move.advantage * (policy.p[i] - chosen) +
          problem_.entropy_weight * policy.p[i] * (policy.log_p[i] + policy.entropy);
      out[m] = static_cast<float>(share * slope);
    }
    out[Episode::moves] = static_cast<float>(share * problem_.value_weight * miss);
  }
  return loss * share;
}

void Navigation::gradients(std::span<GradientRequest> requests) const {
  const double multiplications = facts_.batch_size * (3 * count_weights(facts_) + beside_layers);
  for_all<Work>(requests.size(), multiplications, [&](std::size_t r, Work& work) {
    GradientRequest& request = requests[r];
    roll_out(request.node, request.draw, request.x, work);
    estimate_advantages(work);
    const double loss = objective(work);
    request.episodes = std::ssize(work.lengths);
    work.stack.backward(kernels_, layers_, request.x, moves(), request.gradient);
    request.loss = loss_with(all_finite({request.gradient, facts_.parameters}), loss);
  });
}

Navigation::Experience Navigation::experience(NodeId node, Step draw, const float* x) const {
  Work work;
  roll_out(node, draw, x, work);
  estimate_advantages(work);
  Experience result;
  for (std::size_t r = 0; r < moves(); ++r) {
    const float* row = work.stack.values[0].row(r);
    result.seen.insert(result.seen.end(), row, row + features());
    result.directions.push_back(work.moves[r].direction);
    result.advantages.push_back(work.moves[r].advantage);
    result.returns.push_back(work.moves[r].target);
  }
  result.lengths = work.lengths;
  result.arrivals = work.arrivals;
  return result;
}

/// Plays the test episodes from `first` on to their ends, side by side.
void Navigation::play(const float* x, std::size_t first, std::span<Episode> episodes,
                      Work& work) const {
  work.stack.fit(layers_, episodes.size());
  std::vector<Random> randoms;
  for (std::size_t e = 0; e < episodes.size(); ++e) {
    randoms.emplace_back(problem_.seed, "navigation evaluation", shared_stream,
                         static_cast<Step>(first + e));
    episodes[e] = Episode(test_maps_[(first + e) % test_maps_.size()], randoms[e]);
  }
  std::vector<std::size_t> playing;
  for (int step = 0; step < problem_.horizon; ++step) {
    playing.clear();
    for (std::size_t e = 0; e < episodes.size(); ++e) {
      if (!episodes[e].is_at_goal()) playing.push_back(e);
    }
    if (playing.empty()) break;
    for (std::size_t i = 0; i < playing.size(); ++i) {
      episodes[playing[i]].observe(problem_.view, {work.stack.values[0].row(i), features()});
    }
    forward(x, 0, playing.size(), work.stack);
    for (std::size_t i = 0; i < playing.size(); ++i) {
      episodes[playing[i]].move(Policy(work.stack.values.back().row(i)).draw(randoms[playing[i]]));
    }
  }
}

void Navigation::evaluate(std::span<EvaluationRequest> requests) const {
  const std::size_t count = problem_.test_episodes;
  const std::size_t blocks = (count + episodes_at_once - 1) / episodes_at_once;
  std::vector<Episode> episodes(requests.size() * count);  // (requests, episodes)
  constexpr double short_episode = 10;
  const double multiplications = static_cast<double>(std::min(episodes_at_once, count)) *
                                 short_episode * (count_weights(facts_) + beside_layers);
  for_all<Work>(requests.size() * blocks, multiplications, [&](std::size_t i, Work& work) {
    const std::size_t request = i / blocks, first = i % blocks * episodes_at_once;
    play(requests[request].x, first,
         std::span(episodes).subspan(request * count + first,
                                     std::min(episodes_at_once, count - first)),
         work);
  });
  for (std::size_t r = 0; r < requests.size(); ++r) {
    double arrivals = 0, score = 0;
    for (std::size_t e = r * count; e < (r + 1) * count; ++e) {
      arrivals += episodes[e].is_at_goal();
      score += episodes[e].path_score();
    }
    requests[r].accuracy = arrivals / static_cast<double>(count);
    requests[r].loss = 1 - score / static_cast<double>(count);
  }
}

namespace workloads {
namespace {

void read_world(const Section& section, Navigation::Problem& problem) {
  problem.side = static_cast<int>(read_whole(section, "side", 8, 2, 256, "cells of a map's side"));
  problem.obstacles =
      read_between(section, "obstacles", 0.2, 0, 0.9, "probability that a cell is a wall");
  problem.maps = read_whole(section, "maps", 64, 1, 1 << 16, "maps of each node, its own");
  problem.view =
      static_cast<int>(read_whole(section, "view", 2, 0, 16, "cells seen in every direction"));
  problem.horizon = static_cast<int>(
      read_whole(section, "horizon", 64, 1, 1 << 20, "moves after which an episode has failed"));
  problem.test_episodes = static_cast<std::size_t>(
      read_whole(section, "test_episodes", 200, 1, 1 << 20, "episodes played to evaluate"));
}

void read_learning(const Section& section, Navigation::Problem& problem) {
  problem.environments = static_cast<std::size_t>(
      read_whole(section, "environments", 8, 1, 1 << 16, "episodes of a node side by side"));
  problem.rollout_steps = static_cast<std::size_t>(read_whole(
      section, "rollout_steps", 32, 1, 1 << 16, "moves in each of them for one gradient"));
  problem.discount =
      read_between(section, "discount", 0.99, 0, 1, "worth of a reward one move later");
  problem.decay = read_between(section, "decay", 0.95, 0, 1,
                               "of generalized advantages: 0 trusts the value, 1 the rewards");
  problem.value_weight = read_between(section, "value_weight", 0.5, 0, 1e6, "of the value's loss");
  problem.entropy_weight = read_between(section, "entropy_weight", 0.01, 0, 1e6,
                                        "of the entropy, which keeps exploring");
}

void expect_room(const Section& section, const Navigation::Problem& problem) {
  const double cells = static_cast<double>(problem.side) * problem.side;
  const auto maps = static_cast<double>(problem.maps);
  expect_memory(section, "maps", problem.nodes * maps * cells,
                fmt::format("{} nodes * {} maps * {} cells * 1 B", problem.nodes, maps, cells));
  const auto episodes = static_cast<double>(problem.test_episodes);
  expect_memory(section, "test_episodes", episodes * cells * 4,
                fmt::format("{} episodes * {} cells * 4 B", episodes, cells));
  std::size_t numbers = Episode::features(problem.view) + outputs;
  for (const std::size_t width : problem.hidden) numbers += width;
  const auto moves =
      static_cast<double>(problem.environments) * static_cast<double>(problem.rollout_steps);
  expect_memory(section, "rollout_steps", moves * static_cast<double>(numbers) * 4,
                fmt::format("{} environments * {} moves * {} numbers * 4 B", problem.environments,
                            problem.rollout_steps, numbers));
}

}  // namespace

std::unique_ptr<Workload> navigation(const Section& section, NodeId nodes, std::uint64_t seed) {
  Navigation::Problem problem;
  problem.nodes = nodes;
  problem.seed = seed;
  read_world(section, problem);
  problem.hidden = read_hidden(section, {32}, "widths of the hidden layers, from the input on");
  read_learning(section, problem);
  problem.wire_parameters = read_wire_parameters(section);
  expect_room(section, problem);
  section.finish();
  return std::make_unique<Navigation>(std::move(problem));
}

}  // namespace workloads
}  // namespace starling
