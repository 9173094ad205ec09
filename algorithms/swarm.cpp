// SwarmSGD: nodes take a few local steps, then average their models in random pairs of neighbors. A
// phase has H steps, or a geometric number with mean H.
//
//   blocking       both finish their phases; then x_i, x_j <- (x_i + x_j) / 2. Round r pairs nodes
//                  by a random matching.
//   non_blocking   Y_i is the copy that others average with, B_i and L_i the model at the start of
//                  the phase and now. After its phase, i takes a random neighbor's Y_j as it is:
//                    u <- L_i - B_i;   Y_i, Y_j <- (Y_i + Y_j) / 2
//                    Y_i <- Y_i + u;   B_i, L_i <- Y_i
//                  j goes on with its L_j and adds its own u_j to the Y_j of that time.
//   one_sided      After its phase, i reads the model that a random neighbor j had after its last
//                  step:  x_i <- (x_i + x_j) / 2. j does not change, and the sum of models does.
//
// Nadiradze et al., "Asynchronous Decentralized SGD with Quantized and Local Updates", NeurIPS
// 2021, Algorithms 1 and 2. There, one random edge interacts at a time; in a
// matching, edges of one round that share no node interact at once, which commutes. `one_sided` with H = 1
// is PopSGD, the code released with the first version (arXiv 1910.12308v1); its models are of 8 bytes
// per entry, here of 4, and its first epochs may be without exchanges (`alone_steps`). With H = 1 and
// `blocking` this is decentralized SGD with random matchings in the sense of Koloskova et al., ICML
// 2020: X <- (X - lr G) W_t. What is evaluated is x or L; at the end, Y. Momentum stays on its node.
//
// Quantized: with compression = lattice both sides average what the codes say, their own model
// included, Y_i, Y_j <- (Q(Y_i) + Q(Y_j)) / 2. Blocking, a code is read beside the own model. Non-
// blocking, a message has two codes: B is read beside the own B, then Y beside what was read; a
// code is right while bases, and bases and copies, differ by less than cell (2^bits - 1) / 2. Other
// codecs move either model by half the difference of what the codes say.

#include <algorithm>
#include <memory>

#include "algorithms/averaging.hpp"
#include "algorithms/matching.hpp"
#include "algorithms/optimizer.hpp"
#include "algorithms/pair_averaging.hpp"
#include "algorithms/registry.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {
namespace {

struct SwarmSettings {
  Step local_steps;  // H
  bool is_geometric;
  Step alone_steps;     // before the first phase
  Duration patience{};  // all but blocking
  SharedCodec codec;
  OptimizerSettings optimizer;
};

/// The phases of a node, one after the other, behind its steps alone.
class Phases {
 public:
  /// `node` and `settings` outlive them.
  Phases(const Node& node, const SwarmSettings& settings)
      : node_(node),
        settings_(settings),
        end_(std::min(settings.alone_steps, node.steps()) + length()) {}

  Step number() const { return number_; }
  /// The steps of the node up to the end of this one.
  Step end() const { return end_; }
  void next() {
    ++number_;
    end_ += length();
  }

 private:
  /// H, or the number of trials of chance 1/H up to the first success. What is longer than the run is cut one step behind that.
  Step length() const {
    const Step longest = node_.steps() + 1;
    if (!settings_.is_geometric) return std::min(settings_.local_steps, longest);
    Random random = node_.random("local steps", number_);
    const auto mean = static_cast<std::uint64_t>(settings_.local_steps);
    Step length = 1;
    while (length < longest && random.below(mean) != 0) ++length;
    return length;
  }

  const Node& node_;
  const SwarmSettings& settings_;
  Step number_ = 0;
  Step end_;
};

/// The exchange after a phase.
Task<> average_with_random(Node& node, PairAveraging& pairs, Step phase) {
  if (pairs.peers() == 0) co_return;
  Random random = node.random("partner", phase);
  co_await pairs.exchange(pairs.peer(random.below(pairs.peers())));
}

/// `matching` is shared by all nodes of the run: they ask it the same questions.
Task<> blocking(Node& node, std::shared_ptr<Matching> matching, const SwarmSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  Vector x = node.initial_model();
  // Everybody takes part in the same rounds, be its phases long or short; steps that are left over
  // come last.
  const Step alone = std::min(settings.alone_steps, node.steps());
  const Step rounds = (node.steps() - alone) / settings.local_steps;
  Phases phases(node, settings);
  for (Step k = 0; k < node.steps() || phases.number() < rounds; ++k) {
    if (k < node.steps()) {
      const Gradient g = co_await node.gradient(x);
      optimizer.update(x, g.values, x, k);
    }
    if (const Step round = phases.number(); k + 1 >= phases.end() && round < rounds) {
      const NodeId peer = matching->partner(node, round);
      if (peer != node.id()) x = co_await average_with(node, peer, round, x, settings.codec);
      phases.next();
    }
    if (k < node.steps()) node.end_step(k, x);
  }
  node.set_final_model(x);
}

Task<> non_blocking(Node& node, const SwarmSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  Vector copy = node.initial_model();  // Y
  Vector base = copy;                  // B
  Vector live = copy;                  // L
  const auto rule =
      settings.codec->needs_reference() ? PairRules::Average::mean : PairRules::Average::difference;
  PairAveraging pairs(
      node, copy,
      {.patience = settings.patience, .codec = settings.codec, .average = rule, .base = &base});
  pairs.begin();
  Phases phases(node, settings);
  for (Step k = 0; k < node.steps(); ++k) {
    const Gradient g = co_await node.gradient(live);
    optimizer.update(live, g.values, live, k);
    const bool is_last = k + 1 == node.steps();
    const bool is_phase_end = k + 1 == phases.end();
    if (is_phase_end || is_last) {
      if (is_phase_end) co_await average_with_random(node, pairs, phases.number());
      copy.add(live);
      copy.add_scaled(-1, base);
      base = live = copy;
      phases.next();
    }
    node.end_step(k, live);
  }
  co_await pairs.finish();
  node.set_final_model(copy);  // others went on averaging with it
}

Task<> one_sided(Node& node, const SwarmSettings& settings) {
  Optimizer optimizer(settings.optimizer);
  Vector x = node.initial_model();
  Vector published = x;
  PairAveraging pairs(
      node, x, {.patience = settings.patience, .codec = settings.codec, .published = &published});
  pairs.begin();
  Phases phases(node, settings);
  for (Step k = 0; k < node.steps(); ++k) {
    const Vector snapshot = x;  // an answer after `patience` comes at any time
    const Gradient g = co_await node.gradient(snapshot);
    optimizer.update(x, g.values, snapshot, k);
    published = x;
    if (k + 1 == phases.end()) {
      co_await average_with_random(node, pairs, phases.number());
      phases.next();
    }
    node.end_step(k, x);
  }
  co_await pairs.finish();
  node.set_final_model(x);  // an answer may have come after `patience`
}

}  // namespace

Program swarm(const Section& section, const Context& context) {
  SwarmSettings settings{};
  enum class Averaging { non_blocking, blocking, one_sided };
  const auto averaging = section.choice<Averaging>(
      "averaging",
      {{"non_blocking", Averaging::non_blocking},
       {"blocking", Averaging::blocking},
       {"one_sided", Averaging::one_sided}},
      "non_blocking",
      "non_blocking: each node begins one exchange per phase, with what the partner "
      "last offered, so it takes part in two on average (a message of a lattice has "
      "two codes then); blocking: waits for the partner's phase, one; one_sided: "
      "reads the partner's model, which stays (PopSGD)");
  const bool is_blocking = averaging == Averaging::blocking;
  settings.local_steps =
      read_period(section, context, 3, "local_steps", "steps between two averagings, H");
  settings.is_geometric =
      section.choice<bool>("phase", {{"fixed", false}, {"geometric", true}}, "fixed",
                           "exactly H steps, or a random number with mean H");
  settings.alone_steps = read_at_least(
      section, "alone_steps", 0, 0, "steps of each node before its first phase, without exchanges");
  warn_beyond_run(section, "alone_steps", settings.alone_steps, context, "nodes never average");
  if (!is_blocking) settings.patience = read_patience(section);
  settings.codec = read_codec(section);
  settings.optimizer = read_optimizer(section, context);
  section.note_other("topology");
  section.finish();
  if (averaging == Averaging::one_sided)
    return [settings](Node& node) { return one_sided(node, settings); };
  if (!is_blocking) return [settings](Node& node) { return non_blocking(node, settings); };
  const auto matching = std::make_shared<Matching>(context.nodes);
  return [settings, matching](Node& node) { return blocking(node, matching, settings); };
}

}  // namespace starling::algorithms
