#include "algorithms/optimizer.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "algorithms/context.hpp"
#include "algorithms/sums.hpp"
#include "sim/base/elementary.hpp"
#include "sim/base/error.hpp"
#include "sim/base/numbers.hpp"

namespace starling::algorithms {

namespace {

using Rule = OptimizerSettings::Rule;
using Schedule = OptimizerSettings::Schedule;

void read_momentum(const Section& section, double fallback, OptimizerSettings& s) {
  s.momentum = read_share_below_1(section, "momentum", fallback,
                                  "share of the last step that is kept; local to the node");
  s.nesterov = section.optional<bool>("nesterov", false, "look-ahead form of momentum");
  section.expect(!s.nesterov || s.momentum > 0, "nesterov", "needs momentum > 0");
}

void read_projection(const Section& section, const Context& context, OptimizerSettings& s) {
  s.projection_delta = read_not_negative(
      section, "projection_delta", 0.1,
      "steps are projected where the cosine of gradient and weights, times the root of their "
      "number, is below this; 0: nowhere");
  constexpr double ratio = 0.1;
  s.weight_decay_ratio =
      read_between(section, "weight_decay_ratio", ratio, 0, 1,
                   "share of the weight decay that is left where steps are projected");
  section.expect(s.weight_decay_ratio == ratio || s.weight_decay > 0, "weight_decay_ratio",
                 "needs weight_decay > 0");
  s.matrices = context.workload.matrices;
  if (s.matrices.empty())
    section.warn("optimizer", "projects no step: the workload names no matrices");
}

/// How the learning rate changes.
void read_schedule(const Section& section, const Context& context, OptimizerSettings& s) {
  s.schedule =
      section.choice<Schedule>("schedule",
                               {{"constant", Schedule::constant},
                                {"step", Schedule::step},
                                {"cosine", Schedule::cosine},
                                {"inverse", Schedule::inverse},
                                {"inverse_root", Schedule::inverse_root},
                                {"cyclic", Schedule::cyclic}},
                               "constant", "how the learning rate changes with the node's step");
  s.warmup_steps =
      read_at_least(section, "warmup_steps", 0, 0, "steps of linear rise to learning_rate");
  warn_beyond_run(section, "warmup_steps", s.warmup_steps, context,
                  "the learning rate does not get to learning_rate");
  s.warmup_from = read_share_below_1(section, "warmup_from", 0,
                                     "share of learning_rate that it rises from in the warm-up");
  section.expect(s.warmup_from == 0 || s.warmup_steps > 0, "warmup_from", "needs warmup_steps > 0");
  if (s.schedule == Schedule::inverse || s.schedule == Schedule::inverse_root) {
    s.decay_offset = read_positive(section, "decay_offset", std::nullopt,
                                   "so many steps after the warm-up the learning rate is half, or "
                                   "for inverse_root 1 / sqrt(2)");
  }
  if (s.schedule == Schedule::cyclic) {
    s.cycle_steps = section.required<std::int64_t>(
        "cycle_steps", "steps in which the learning rate falls, again and again");
    section.expect(s.cycle_steps >= 1, "cycle_steps", "must be at least 1, got {}", s.cycle_steps);
    s.cycle_floor = read_between(section, "cycle_floor", 0.01, 0, 1,
                                 "share of learning_rate in the last step of a cycle");
  }
  if (s.schedule != Schedule::step) return;
  s.decay_steps = section.numbers(
      "decay_steps", {},
      "steps, from 0, at which the learning rate falls; those within the warm-up act at its end");
  section.expect(!s.decay_steps.empty(), "decay_steps", "must list the steps for schedule = step");
  for (const double at : s.decay_steps) {
    section.expect(at >= 0 && at == std::floor(at), "decay_steps",
                   "must be whole numbers from 0 on, got {}", at);
  }
  section.expect(std::ranges::is_sorted(s.decay_steps), "decay_steps", "must grow");
  const auto beyond = std::ranges::lower_bound(s.decay_steps, static_cast<double>(context.steps));
  if (beyond != s.decay_steps.end()) {
    section.warn("decay_steps",
                 "has {}, and the last step is {}: the learning rate does not fall there", *beyond,
                 context.steps - 1);
  }
  s.decay_factor = read_positive(section, "decay_factor", 0.1, "factor at each of decay_steps");
}

}  // namespace

void read_rule(const Section& section, std::string_view prefix, double epsilon,
               OptimizerSettings& settings) {
  const auto key = [prefix](std::string_view name) { return fmt::format("{}{}", prefix, name); };
  struct Meaning {
    Rule rule;
    bool decouples_decay = false;
    bool projects = false;
  };
  std::vector<Option<Meaning>> rules{
      {"sgd", {Rule::sgd}}, {"adagrad", {Rule::adagrad}}, {"adam", {Rule::adam}}};
  if (prefix.empty()) {  // outer steps know no weight decay, nor a gradient at the model
    rules.insert(rules.end(), {{"adamw", {Rule::adam, true}},
                               {"sgdp", {Rule::sgd, true, true}},
                               {"adamp", {Rule::adam, true, true}}});
  }
  const Meaning meaning =
      section.choice(key("optimizer"), rules, "sgd",
                     prefix.empty() ? "how a gradient becomes a step"
                                    : "how progress becomes a step of the shared model");
  settings.rule = meaning.rule;
  settings.decouples_decay = meaning.decouples_decay;
  settings.projects = meaning.projects;
  if (settings.is_sgd()) return;
  if (settings.rule == Rule::adam) {
    settings.beta1 =
        read_share_below_1(section, key("beta1"), 0.9, "share of the first moments kept");
    settings.beta2 =
        read_share_below_1(section, key("beta2"), 0.999, "share of the second moments kept");
  }
  settings.epsilon = read_between(
      section, key("epsilon"), settings.rule == Rule::adagrad ? 0.01 * epsilon : epsilon,
      least_float, largest_float,
      settings.projects ? "added to norms, and by adamp to the root of the second moments"
                        : "added to the root of the second moments");
}

OptimizerSettings read_optimizer(const Section& section, const Context& context, double momentum) {
  OptimizerSettings s;
  s.steps = context.steps;
  s.learning_rate = read_positive(
      section, "learning_rate", context.workload.has_numbers ? std::nullopt : std::optional(1.0),
      "factor before the gradient; workloads without numbers need none");
  read_rule(section, "", 1e-8, s);
  if (s.rule == Rule::sgd) read_momentum(section, momentum, s);
  s.weight_decay =
      read_not_negative(section, "weight_decay", 0.0,
                        "share of the model added to the gradient; for adamw, sgdp and adamp, to "
                        "the step");
  if (s.projects) read_projection(section, context, s);
  s.clip_norm =
      read_not_negative(section, "clip_norm", 0.0,
                        "longest gradient, in the Euclidean norm; longer ones are cut; 0: any");
  section.expect(s.clip_norm == 0 || s.clip_norm >= least_float, "clip_norm",
                 "must be 0 or at least {}, got {}", least_float, s.clip_norm);
  read_schedule(section, context, s);
  return s;
}

OptimizerSettings read_outer_optimizer(const Section& section, double learning_rate,
                                       double momentum) {
  OptimizerSettings outer;
  outer.learning_rate = read_positive(section, "outer_learning_rate", learning_rate,
                                      "factor before the averaged progress");
  read_rule(section, "outer_", 0.1, outer);
  if (outer.rule != Rule::sgd) return outer;
  outer.momentum = read_share_below_1(section, "outer_momentum", momentum,
                                      "Nesterov momentum of the shared model");
  outer.nesterov = true;
  return outer;
}

void expect_whole_gradient(const Section& section, const OptimizerSettings& optimizer,
                           bool is_whole, std::string_view because) {
  section.expect(is_whole || optimizer.clip_norm == 0, "clip_norm", "needs the whole gradient, {}",
                 because);
  section.expect(is_whole || !optimizer.projects, "optimizer",
                 "must not be sgdp or adamp, which need the whole gradient, {}", because);
}

void expect_steps_by_piece(const Section& section, const OptimizerSettings& optimizer) {
  expect_whole_gradient(section, optimizer, section.peek<std::string>("overlap", "none") == "none",
                        "and pieces leave before it is there: take overlap = none");
}

double OptimizerSettings::rate(Step k) const {
  if (k < warmup_steps) {
    const double risen =
        learning_rate * static_cast<double>(k + 1) / static_cast<double>(warmup_steps);
    return warmup_from * learning_rate + (1 - warmup_from) * risen;
  }
  const auto inverse = [&] {
    const double since = static_cast<double>(k - std::max<Step>(0, warmup_steps - 1));
    return decay_offset / (decay_offset + since);
  };
  switch (schedule) {
    case Schedule::constant:
      break;
    case Schedule::step: {
      double rate = learning_rate;
      if (decay_factor == 1) return rate;
      for (const double at : decay_steps) {  // they grow
        if (static_cast<double>(k) < at) break;
        rate *= decay_factor;
      }
      return rate;
    }
    case Schedule::cosine: {
      const double span = static_cast<double>(std::max<Step>(1, steps - warmup_steps));
      const double done = std::min(1.0, static_cast<double>(k - warmup_steps) / span);
      return learning_rate * 0.5 * (1 + exact_cos_turns(0.5 * done));
    }
    case Schedule::inverse:
      return learning_rate * inverse();
    case Schedule::inverse_root:
      return learning_rate * std::sqrt(inverse());
    case Schedule::cyclic: {
      const auto fallen = static_cast<double>((k - warmup_steps) % cycle_steps + 1);
      return learning_rate * (1 - (1 - cycle_floor) * fallen / static_cast<double>(cycle_steps));
    }
  }
  return learning_rate;
}

Vector Optimizer::sgd_step(const Vector& d) {
  if (settings_.momentum == 0) return d;
  first_ = first_ ? blend(settings_.momentum, first_, 1, d) : d;
  if (!settings_.nesterov) return first_;
  Vector step = d;
  step.add_scaled(settings_.momentum, first_);
  return step;
}

Vector Optimizer::adagrad_step(const Vector& d) {
  if (!second_) {
    second_ = d;
    second_.scale(0);
  }
  second_ = transformed(transforms::AddSquare{.keep = 1, .share = 1}, {second_, d});
  const transforms::DivideByRoot divide{
      .scale = 1, .spread = 1, .epsilon = static_cast<float>(settings_.epsilon)};
  return transformed(divide, {d, second_});
}

Vector Optimizer::adam_step(const Vector& d) {
  const double beta1 = settings_.beta1;
  const double beta2 = settings_.beta2;
  if (!first_) {
    first_ = d;
    first_.scale(0);
    second_ = first_;
  }
  first_ = blend(beta1, first_, 1 - beta1, d);
  second_ = transformed(transforms::AddSquare{.keep = static_cast<float>(beta2),
                                              .share = static_cast<float>(1 - beta2)},
                        {second_, d});
  beta1_power_ *= beta1;  // as products, so that the bits do not depend on a library's pow()
  beta2_power_ *= beta2;
  const transforms::DivideByRoot divide{.scale = static_cast<float>(1 / (1 - beta1_power_)),
                                        .spread = static_cast<float>(1 / (1 - beta2_power_)),
                                        .epsilon = static_cast<float>(settings_.epsilon)};
  return transformed(divide, {first_, second_});
}

Vector clipped(const OptimizerSettings& settings, const Vector& g) {
  if (settings.clip_norm == 0) return g;
  return transformed(transforms::ClipNorm{static_cast<float>(settings.clip_norm)}, {g});
}

void Optimizer::update(Vector& x, const Vector& g, const Vector& at, Step k) {
  x.add_scaled(-settings_.rate(k), direction(g, at));
}

Vector Optimizer::direction(const Vector& g, const Vector& at) {
  const double decay = settings_.weight_decay;
  const Vector cut = clipped(settings_, g);
  Vector d = cut;
  if (decay > 0 && !settings_.decouples_decay) d.add_scaled(decay, at);
  Vector step = settings_.rule == Rule::sgd       ? sgd_step(d)
                : settings_.rule == Rule::adagrad ? adagrad_step(d)
                                                  : adam_step(d);
  if (settings_.projects) return projected(step, cut, at);
  if (decay > 0 && settings_.decouples_decay) step.add_scaled(decay, at);
  return step;
}

Vector Optimizer::projected(const Vector& step, const Vector& g, const Vector& at) const {
  const double decay =
      settings_.weight_decay / (settings_.rule == Rule::sgd ? 1 - settings_.momentum : 1);
  std::vector<Vector> parts;
  std::size_t begin = 0;
  const auto add_vectors = [&](std::size_t end) {
    if (end == begin) return;
    Vector part = step.slice(begin, end - begin);
    if (decay > 0) part.add_scaled(decay, at.slice(begin, end - begin));
    parts.push_back(std::move(part));
  };
  for (const WeightMatrix& matrix : settings_.matrices) {
    add_vectors(matrix.offset);
    const auto own = [&matrix](const Vector& v) {
      return v.slice(matrix.offset, std::size_t{matrix.rows} * matrix.columns);
    };
    const transforms::ProjectStep project{
        .rows = matrix.rows,
        .columns = matrix.columns,
        .delta = static_cast<float>(settings_.projection_delta),
        .epsilon = static_cast<float>(settings_.epsilon),
        .decay = static_cast<float>(decay),
        .projected_decay = static_cast<float>(decay * settings_.weight_decay_ratio)};
    parts.push_back(transformed(project, {own(step), own(g), own(at)}));
    begin = matrix.offset + parts.back().size();
  }
  add_vectors(step.size());
  return concatenate(parts);
}

Vector Optimizer::moments() const {
  if (!first_ || !second_) return first_ ? first_ : second_;
  const Vector both[] = {first_, second_};
  return concatenate(both);
}

void Optimizer::set_moments(const Vector& moments) {
  const std::size_t first = first_ ? first_.size() : 0;
  const std::size_t second = second_ ? second_.size() : 0;
  ensure(moments.size() == first + second, "moments of an optimizer keep their shape");
  if (first_) first_ = second_ ? moments.slice(0, first) : moments;
  if (second_) second_ = first_ ? moments.slice(first, second) : moments;
}

void Optimizer::forget() {
  first_ = {};
  second_ = {};
  beta1_power_ = 1;
  beta2_power_ = 1;
}

}  // namespace starling::algorithms
