// Reinforcement learning: a policy that finds its way through grid worlds (grid_world.hpp) learns
// from its own experience. A mini-batch is a rollout: `environments` agents make `rollout_steps`
// moves each, drawn from the policy at x, and begin a new episode when one ends, at the goal or after
// `horizon` moves. So the experience of a gradient is fixed, while episodes are of very uneven
// length. Every rollout begins with new episodes, as a gradient depends on (node, draw, x) alone: what
// is left of an episode after rollout_steps moves is not played, V stands for it, and a horizon beyond
// rollout_steps is only met by the evaluation. With rewards
//
//   r = 0.1 (steps nearer to the goal) - 0.01 + [at the goal]
//
// advantages are generalized (Schulman et al., "High-Dimensional Continuous Control Using Generalized
// Advantage Estimation", ICLR 2016), going backward through each environment's moves, with V = 0
// beyond the end of an episode:
//
//   A_t = (r_t + discount V_t+1 - V_t) + discount decay A_t+1,   R_t = A_t + V_t
//
// and then scaled to mean 0 and deviation 1 over the mini-batch. The loss, in which a, A and R are
// constants, is that of actor and critic:
//
//   L = mean over moves of  -A log p(a) + value_weight / 2 (V - R)^2 - entropy_weight H(p)
//
// That is REINFORCE with a baseline, and also PPO's objective (Schulman et al., 2017) in its first
// pass over the experience, where the ratio of probabilities is 1 and nothing is clipped.
//
// The policy is an MLP on what an agent sees, with ReLU; four logits and the value V come out of one
// layer. The model is layer after layer, as in kernels/dense/layer.hpp. Rollouts and sums are in double with
// our own exp and log, one move after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/dense/dense.hpp"
#include "kernels/dense/stack.hpp"
#include "kernels/grid_world.hpp"
#include "sim/node/workload.hpp"

namespace starling {

class Navigation final : public Workload {
 public:
  /// Everything that defines the problem.
  struct Problem {
    NodeId nodes = 1;
    int side = 8;
    double obstacles = 0.2;
    std::int64_t maps = 64;  // of each node, its own; as many are held out
    int view = 2;            // cells seen in every direction
    std::vector<std::size_t> hidden = {32};
    std::size_t environments = 8, rollout_steps = 32;
    int horizon = 64;
    double discount = 0.99, decay = 0.95;
    double value_weight = 0.5, entropy_weight = 0.01;
    std::size_t test_episodes = 200;
    std::uint64_t seed = 1;
    std::int64_t wire_parameters = 0;  // 0: as many as the model has
  };
  /// What happened in a rollout; rows are moves, all environments' first moves first.
  struct Experience {
    std::vector<float> seen;                  // (moves, features)
    std::vector<int> directions;              // (moves)
    std::vector<double> advantages, returns;  // (moves), advantages scaled
    std::vector<int> lengths;                 // of the episodes that ended
    int arrivals = 0;                         // episodes that ended at the goal
  };

  /// `kernels` is a parameter for tests; results do not depend on it.
  explicit Navigation(Problem problem, const dense::Kernels& kernels = dense::kernels());

  const WorkloadFacts& facts() const override { return facts_; }
  /// As for an MLP (kernels/mlp.hpp), but the last layer's weights are a tenth as large, so that all
  /// moves are nearly equally likely.
  void initial_model(std::span<float> x) const override;
  /// Moves of a rollout, always as many.
  std::int64_t batch_cost(NodeId, Step) const override {
    return static_cast<std::int64_t>(moves());
  }
  void gradients(std::span<GradientRequest> requests) const override;
  /// Plays test_episodes on held-out maps, moves drawn from the policy, the same episodes and draws
  /// for every model. accuracy is the fraction that arrives within the horizon; loss is 1 - SPL, the
  /// mean of success weighted by path length.
  void evaluate(std::span<EvaluationRequest> requests) const override;

  std::span<const DenseLayer> layers() const { return layers_; }
  /// The rollout that the gradient of (node, draw) at x learns from.
  Experience experience(NodeId node, Step draw, const float* x) const;

 private:
  struct Work;
  struct Move;

  void forward(const float* x, std::size_t first, std::size_t rows, DenseStack& stack) const;
  void roll_out(NodeId node, Step draw, const float* x, Work& work) const;
  void estimate_advantages(Work& work) const;
  double objective(Work& work) const;
  void play(const float* x, std::size_t first, std::span<Episode> episodes, Work& work) const;

  std::size_t moves() const { return problem_.environments * problem_.rollout_steps; }
  std::size_t features() const { return layers_.front().inputs; }

  Problem problem_;
  const dense::Kernels& kernels_;
  std::vector<DenseLayer> layers_;
  std::vector<GridMap> maps_;       // (nodes, maps)
  std::vector<GridMap> test_maps_;  // (maps)
  WorkloadFacts facts_;
};

}  // namespace starling
