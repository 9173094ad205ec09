#include "scenarios/run_settings.hpp"

#include <algorithm>
#include <filesystem>

#include "scenarios/memory.hpp"
#include "sim/base/environment.hpp"
#include "sim/base/memory.hpp"
#include "sim/base/numbers.hpp"

namespace starling {
namespace {

constexpr std::int64_t most_nodes = 100'000'000;
constexpr Duration default_patience = std::chrono::minutes(10);
constexpr Duration shortest_interval = std::chrono::microseconds(1);  // of evaluations by time

void read_device(const Section& section, RunSettings& s) {
  s.device = section.choice<DeviceChoice>(
      "device",
      {{"cpu", DeviceChoice::cpu}, {"cuda", DeviceChoice::cuda}, {"auto", DeviceChoice::automatic}},
      "cpu",
      "where models live and gradients are computed; auto: "
      "on a GPU if there is one");
  s.precision = section.choice<Precision>(
      "precision", {{"strict", Precision::strict}, {"fast", Precision::fast}}, "strict",
      "on a GPU: the bits of the CPU, or large products in TF32");
  section.expect(s.precision == Precision::strict || s.device != DeviceChoice::cpu, "precision",
                 "must be strict with device = cpu: set device = cuda, or auto");
}

/// Stochastic weight averaging.
void read_swa(const Section& section, RunSettings& s) {
  s.swa_start =
      read_at_least(section, "swa_start", 0, 0,
                    "steps after which a node's models begin to be averaged over its steps; the "
                    "mean is evaluated "
                    "and saved in place of its model (stochastic weight averaging); 0: never");
  s.swa_period = read_at_least(section, "swa_period", 1, 1,
                               "with swa_start: steps between two models that are averaged");
  section.expect(s.swa_period == 1 || s.swa_start > 0, "swa_period", "needs swa_start > 0");
  if (s.swa_start > s.steps) {
    section.warn("swa_start", "is {}, and nodes take {} steps: nothing is averaged", s.swa_start,
                 s.steps);
  }
}

/// When mean models are evaluated, and what the per-node table keeps.
void read_evaluations(const Section& section, RunSettings& s) {
  s.evaluate_every =
      read_at_least(section, "evaluate_every", std::max<Step>(1, s.steps / 50), 1,
                    "steps between evaluations of the mean model; run.steps / 50 if not given");
  s.record_every =
      read_at_least(section, "record_every", std::max<Step>(1, s.steps / 500), 1,
                    "steps between rows of the per-node table; run.steps / 500 if not given");
  s.evaluate_interval = section.optional<Duration>(
      "evaluate_interval", Duration{0},
      "time between evaluations of the mean of the newest models, whatever their steps; 0 s: none");
  section.expect(s.evaluate_interval == Duration{0} || s.evaluate_interval >= shortest_interval,
                 "evaluate_interval", "must be 0 s or at least {}, got {}",
                 to_text(shortest_interval), to_text(s.evaluate_interval));
  s.evaluates_nodes = section.optional<bool>(
      "evaluate_nodes", false,
      "whether evaluations also tell what nodes' own models are worth, in the mean and at worst, "
      "which takes an evaluation for each");
}

/// What ends the run before its steps.
void read_ends(const Section& section, RunSettings& s) {
  const auto until = section.optional<Duration>(
      "until", Duration{0},
      "time at which the run ends, with an evaluation of the newest models; 0 s: after the steps");
  if (until > Duration{0}) s.until = Time{until};
  const auto target = section.optional<std::string>(
      "until_target", "",
      "quality at which the run ends, such as test_accuracy 0.9 (or a test_auc, test_loss): with "
      "the first evaluation that has it, by time if there is an evaluate_interval; none: goes on");
  if (!target.empty()) {
    s.until_target = read_target(
        target, [&](const std::string& what) { section.fail("until_target", "{}", what); });
  }
}

}  // namespace

RunSettings read_run(const Section& section, const std::string& scenario_name) {
  RunSettings s;
  const auto nodes = section.required<std::int64_t>("nodes", "participants of the algorithm");
  check_memory_of_nodes(section, nodes);
  section.expect(nodes >= 1 && nodes <= most_nodes, "nodes", "must be from 1 to {}, got {}",
                 most_nodes, nodes);
  s.nodes = static_cast<NodeId>(nodes);
  s.steps = section.required<std::int64_t>("steps", "iterations of every node's loop");
  section.expect(s.steps >= 1 && s.steps <= (std::int64_t{1} << 40), "steps",
                 "must be from 1 to 2^40, got {}", s.steps);
  s.seed =
      static_cast<std::uint64_t>(read_at_least(section, "seed", 1, 0, "names all random streams"));
  read_evaluations(section, s);
  read_ends(section, s);
  read_swa(section, s);
  s.timeline_until =
      Time(section.optional<Duration>("timeline", Duration{0},
                                      "virtual time until which every node's activity, and the "
                                      "load of links, is kept; at most 10 million stretches"));
  s.output = section.optional<std::string>("output", default_output(scenario_name), "results file");
  section.expect(!s.output.empty(), "output", "must name a file");
  s.save_models = section.optional<bool>(
      "save_models", false,
      "whether the results file keeps the final models, if the workload has numbers");
  s.checkpoint = read_checkpoint(section);
  const auto patience = section.optional<Duration>(
      "patience", default_patience,
      "under mpirun: how long a process waits for another before it takes it for lost");
  section.expect(patience > Duration{0}, "patience", "must be positive, got {}", to_text(patience));
  s.patience = std::chrono::duration_cast<std::chrono::nanoseconds>(patience);
  s.record_order = section.optional<bool>(
      "record_order", true,
      "over MPI: whether the results file keeps the order of events, for --replay");
  s.marks_divergence =
      section.choice("on_divergence", {"stop", "mark"}, "stop",
                     "a loss or gradient that is not finite: the run stops, or goes on without the "
                     "node in the "
                     "mean model (not where processes share a simulation)") == "mark";
  s.window_bytes =
      section
          .optional<Bytes>("window", Bytes{0},
                           "memory for results recorded ahead; 0 B: a quarter of what is free")
          .count;
  read_device(section, s);
  section.expect(
      !s.checkpoint.is_on() || (s.device != DeviceChoice::automatic && !s.marks_divergence),
      "checkpoint",
      "must be never unless run.device is cpu or cuda, where the run goes on, and "
      "run.on_divergence stop");
  section.finish();
  if (s.window_bytes == 0)
    s.window_bytes = available_memory().value_or(std::int64_t{4} << 30) / 4 /
                     count_in_environment("STARLING_JOBS", 1, "runs");
  return s;
}

bool read_closed_form_collectives(const Section& network) {
  return network.choice(
             "collectives", {"expanded", "analytic"}, "expanded",
             "simulate every message of a collective, or take its cost from a formula, for "
             "links all like those of node 0 in the mean, and for rounds in which nobody is "
             "ahead: with other numbers of nodes than powers of two all but rings may be "
             "off by half, or twice too long") == "analytic";
}

std::int64_t read_eager_limit(const Section& network) {
  const auto text = network.optional<std::string>(
      "eager_limit", "infinite",
      "longest message that is sent eagerly; a longer one waits for a receive that matches "
      "(rendezvous; the agreement itself takes no time), and an exchange lasts until what the node "
      "has sent is delivered, as with MPI");
  if (text == "infinite") return Rendezvous::no_limit;
  try {
    return parse_bytes(text).count;
  } catch (const std::invalid_argument& error) {
    network.fail("eager_limit", "{}; or infinite", error.what());
  }
}

Pace read_pace(const Section& compute) {
  return compute.choice<Pace>(
      "pace", {{"modelled", Pace::modelled}, {"measured", Pace::measured}}, "modelled",
      "over MPI: whether a gradient takes the modelled time or its own, which counts the wait "
      "for other nodes of its rank, too");
}

double read_forward_share(const Section& compute) {
  return read_between(
      compute, "forward_share",
      1.0 / 3,  // a backward pass multiplies by two matrices where the forward pass has one
      0, 1, "part of a gradient before its backward pass, for algorithm.overlap = backward");
}

Duration read_per_episode(const Section& compute) {
  const auto each = compute.optional<Duration>(
      "per_episode", Duration{0},
      "more time for each episode that ended in a rollout, at the node's speed; "
      "virtual time then waits for the numbers");
  compute.expect(each >= Duration{0}, "per_episode", "must not be negative, got {}", to_text(each));
  return each;
}

std::string default_output(const std::string& scenario_name) {
  return "results/" + std::filesystem::path(scenario_name).stem().string() + ".h5";
}

}  // namespace starling
