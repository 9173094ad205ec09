// Optimizer: the local update rule that all algorithms share, in PyTorch's terms: the rule itself,
// a schedule of the learning rate, weight decay and clipping. For the gradient g taken at the model
// x_at, in its t-th update,
//
//   g <- g min(1, clip_norm / ||g||)                if clip_norm > 0
//   d <- g + weight_decay * x_at                    sgd, adagrad, adam
//
//   sgd       m <- momentum * m + d
//             step = m (heavy ball), d + momentum * m (Nesterov), or d (no momentum)
//   adagrad   s <- s + d^2
//             step = d / (sqrt(s) + epsilon)
//   adam      m <- beta1 m + (1 - beta1) d
//             s <- beta2 s + (1 - beta2) d^2
//             step = m / (1 - beta1^t) / (sqrt(s / (1 - beta2^t)) + epsilon)
//   adamw     adam's with d = g, then step <- step + weight_decay * x_at
//   sgdp      sgd's with d = g, then step <- P(step) + weight_decay / (1 - momentum) * x_at
//   adamp     adam's with d = g, then step <- P(step) + weight_decay * x_at
//
//   x <- x - learning_rate(k) * step
//
// Velocity and moments hold no learning rate, so a schedule changes the pace at once (Goyal et al.,
// 2017, section 3). Duchi, Hazan, Singer, JMLR 2011 (Adagrad); Kingma, Ba, ICLR 2015, Algorithm 1
// (Adam); Loshchilov, Hutter, ICLR 2019, Algorithm 2 (AdamW).
//
// P leaves vectors as they are. The gradient of a weight matrix w whose length changes no output, as before a normalization, is
// orthogonal to w, but steps with momentum are not: w grows, and so all that follow turn it less. Where, with rows w_r of the
// weights into one unit each, or else with all of w as one row,
//
//   |cos(g_r, w_r)| < projection_delta / sqrt(length of a row)     for every r,
//
// P(step)_r = step_r - <step_r, w_r> / ||w_r||^2 w_r, and a share of `weight_decay_ratio` is left of the weight decay of w. To each
// norm `epsilon` is added (transforms::ProjectStep). Heo, Chun, Oh, Han, Yun, Kim, Uh, Ha, "AdamP: Slowing Down the Slowdown for
// Momentum Optimizers on Scale-invariant Weights", ICLR 2021; rows, and what weight decay is divided by, are those of the authors' code.
//
// With t the steps since the first one at the whole learning_rate, and a = `decay_offset`, the rate is
//
//   inverse        learning_rate * a / (a + t)           proofs about SGD and its compressed and local relatives
//   inverse_root   learning_rate * sqrt(a / (a + t))     with a = warmup_steps that of the Transformer
//
// and with k counted from the end of the warm-up, c = `cycle_steps` and f = `cycle_floor`
//
//   cyclic         learning_rate * (1 - (1 - f) (k mod c + 1) / c)      for averages over steps (run.swa_start)
//
// Stich, Cordonnier, Jaggi, "Sparsified SGD with Memory", NeurIPS 2018, section 4 (inverse); Vaswani et al., "Attention Is All
// You Need", NIPS 2017, eq. 3 (inverse_root); Izmailov et al., "Averaging Weights Leads to Wider Optima and Better Generalization",
// UAI 2018, section 3.1 (cyclic).
//
// In the warm-up the rate of step k is learning_rate * (f + (1 - f) (k + 1) / warmup_steps), f = `warmup_from`: it rises by equal
// amounts, the first of them before the first step. Goyal et al. rise from the rate of one node.
#pragma once

#include <string_view>
#include <vector>

#include "sim/base/section.hpp"
#include "sim/node/node.hpp"

namespace starling::algorithms {

struct OptimizerSettings {
  enum class Rule { sgd, adagrad, adam };
  enum class Schedule { constant, step, cosine, inverse, inverse_root, cyclic };

  Rule rule = Rule::sgd;         // sgdp's is sgd, adamw's and adamp's adam
  bool decouples_decay = false;  // adamw, sgdp, adamp: weight decay is of the step
  bool projects = false;         // sgdp, adamp
  double learning_rate = 0;
  double momentum = 0;  // sgd, from here
  bool nesterov = false;
  double beta1 = 0.9;  // adam, from here
  double beta2 = 0.999;
  double epsilon = 1e-8;  // adagrad, sgdp, too
  double weight_decay = 0;
  double projection_delta = 0.1;  // where steps are projected, from here
  double weight_decay_ratio = 0.1;
  std::vector<WeightMatrix> matrices;
  double clip_norm = 0;  // 0: as they come
  Schedule schedule = Schedule::constant;
  std::vector<double> decay_steps;
  double decay_factor = 0.1;
  double decay_offset = 0;
  Step cycle_steps = 0;
  double cycle_floor = 0;  // share of the learning rate
  Step warmup_steps = 0;
  double warmup_from = 0;  // share of the learning rate
  Step steps = 0;          // of the whole run, for cosine

  /// Whether the rule is plain SGD.
  bool is_sgd() const { return rule == Rule::sgd && !projects; }
  /// Learning rate of step k.
  double rate(Step k) const;
};

struct Context;

/// Reads and checks the keys of the shared update rule; the caller calls section.finish(). `momentum` is the default of its key.
OptimizerSettings read_optimizer(const Section& section, const Context& context,
                                 double momentum = 0);
/// Refuses what needs a whole gradient where none is: `because` "which none of 3 servers has".
void expect_whole_gradient(const Section& section, const OptimizerSettings& optimizer,
                           bool is_whole, std::string_view because);
/// The same for models that leave after their step, piece by piece beside the backward pass if `overlap` says so.
void expect_steps_by_piece(const Section& section, const OptimizerSettings& optimizer);
/// Reads the key `optimizer` and the numbers of its rule, momentum excepted, each key after
/// `prefix`. `epsilon` is Adam's default; Adagrad's is a hundredth of it.
void read_rule(const Section& section, std::string_view prefix, double epsilon,
               OptimizerSettings& settings);

/// Reads `outer_learning_rate` and `outer_optimizer` with its keys: the rule that applies averaged
/// progress to the shared model. sgd has `outer_momentum` in Nesterov's form, plain SGD for 0. The
/// adaptive ones are FedOpt's (Reddi et al., "Adaptive Federated Optimization", ICLR 2021), whose
/// epsilon is large, as progress is much longer than a gradient; adam, other than there, corrects the first steps, and has Adam's own
/// outer_beta2, 0.999, by default, not 0.99.
OptimizerSettings read_outer_optimizer(const Section& section, double learning_rate,
                                       double momentum);

/// `g` cut to clip_norm, if there is one.
Vector clipped(const OptimizerSettings& settings, const Vector& g);

/// The update rule with one node's moments. `settings` are the program's and outlive it.
class Optimizer {
 public:
  explicit Optimizer(const OptimizerSettings& settings) : settings_(settings) {}

  /// x <- x - learning_rate(k) * step, for the gradient `g` taken at `at` (a snapshot of x, or x
  /// itself).
  void update(Vector& x, const Vector& g, const Vector& at, Step k);

  /// The same step without its learning rate: for algorithms that treat it further before they apply
  /// it.
  Vector direction(const Vector& g, const Vector& at);

  /// What is kept from update to update (velocity, first and second moments), one after the other;
  /// empty if there is nothing, or nothing yet.
  Vector moments() const;
  /// Puts others of the same shape in their place.
  void set_moments(const Vector& moments);
  /// Begins anew, as before the first update.
  void forget();

 private:
  Vector sgd_step(const Vector& d);
  Vector adagrad_step(const Vector& d);
  Vector adam_step(const Vector& d);
  Vector projected(const Vector& step, const Vector& g, const Vector& at) const;

  const OptimizerSettings& settings_;
  Vector first_;   // velocity, or first moments
  Vector second_;  // sums or means of squares
  double beta1_power_ = 1;
  double beta2_power_ = 1;
};

}  // namespace starling::algorithms
