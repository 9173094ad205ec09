// One node's steps of AD-PSGD (adpsgd.cpp), alone or for another algorithm (base_steps.hpp).
#pragma once

#include "algorithms/companions.hpp"
#include "algorithms/context.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/pair_averaging.hpp"

namespace starling::algorithms {

class AdpsgdSteps {
 public:
  struct Settings {
    Step exchanges_per_step;
    Duration patience;
    SharedCodec codec;
    bool is_bipartite;
    bool is_exponential;  // instead of the topology
    bool takes_turns;     // among partners
    OptimizerSettings optimizer;
  };
  /// Reads the keys of the exchanges and the optimizer; the caller calls section.finish().
  static Settings read(const Section& section, const Context& context);

  /// Starts to exchange. `node` and `settings` outlive the steps; whoever makes them awaits finish().
  AdpsgdSteps(Node& node, const Settings& settings);

  Task<> take(Step first, Step last);
  const Vector& model() const { return x_; }
  double weight() const { return 1; }
  Optimizer& optimizer() { return optimizer_; }

  /// x when all nodes have ended the exchanges of their steps up to `last`: no model changes any more.
  Task<Vector> settle(Step last);
  /// From `x` when all nodes have it.
  Task<> restart(Step last, Vector x);
  /// Ends the exchanges; they may change the final model.
  Task<> finish();

 private:
  bool is_active() const;
  /// The peer with whom it begins if all are in turn.
  std::size_t first_in_turn() const;
  Task<> gossip();

  Node& node_;
  const Settings& settings_;
  Optimizer optimizer_;
  Vector x_;
  PairAveraging pairs_;
  Step begun_ = 0;      // gradients
  Step taken_ = 0;      // steps
  Step owed_ = 0;       // exchanges that they allow, and that have not begun
  Step left_out_ = 0;   // that will not begin any more
  Step exchanges_ = 0;  // that have begun
  bool is_exchanging_ = false;
  Signal gradient_begun_;
  Signal exchange_ended_;
  Companions companions_;
};

}  // namespace starling::algorithms
