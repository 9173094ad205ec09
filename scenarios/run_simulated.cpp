// Run::simulate and its kin: a scenario in virtual time, from the start, from a checkpoint, or in the order of a real run.

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "scenarios/run.hpp"
#include "sim/base/error.hpp"
#include "sim/engine/simulated_transport.hpp"

namespace starling {
namespace {

/// What to do about nodes that wait for one that failed, or for what it sent; nothing if the key that helps is set.
std::string remedy(const Assembly& parts) {
  if (!parts.failures) return "";
  for (const DescribedSection& section : parts.described) {
    if (section.name != "algorithm") continue;
    for (const KeyUse& use : section.keys) {
      if (use.key != "patience") continue;
      if (parse_duration(use.value) > Duration{0}) return "";
      return "; algorithm.patience, 0 s here, says when they go on without a silent node";
    }
  }
  return fmt::format(
      "; {} does not go on without what it waits for: a pause ends (failures.pause, "
      "failures.mean_time_to_repair), and kinds with algorithm.patience leave out silent nodes",
      parts.algorithm);
}

}  // namespace

void Run::simulate(const Recorder* recorded) {
  recorded_ = recorded;
  const int processes = peers_ ? peers_->count() : 1;
  begin(ComputeGraph::Execution::overlapped, (parts_.settings.nodes + processes - 1) / processes,
        {peers_.get(), peers_ ? choose_blocks(*parts_.topology, processes) : Blocks()});
  describe("simulated");
  recorder_.machine["processes"] = std::to_string(processes);
  try {
    run_simulation(recorded);
  } catch (const std::bad_alloc&) {  // before the first event
    end_with(std::current_exception());
  }
}

void Run::resume(std::unique_ptr<CheckpointFile> from) {
  check_facts(*from, checkpoint_facts());
  from_ = std::move(from);
  simulate();
}

void Run::resume_or_simulate(std::unique_ptr<CheckpointFile> from) {
  const std::map<std::string, std::string> facts = checkpoint_facts();
  try {
    check_facts(*from, {*facts.find("scenario"), *facts.find("scenario_name")});
  } catch (const Error& error) {  // beginning anew would replace what another run has left
    throw ScenarioError(fmt::format("{}; move it away or choose another -o", error.what()));
  }
  try {
    check_facts(*from, facts);
    from_ = std::move(from);
  } catch (const Error& error) {
    if (hooks_.warn) hooks_.warn(fmt::format("{}; the run begins anew", error.what()));
  }
  simulate();
}

GradientDuration Run::backward_duration() const {
  const double share = 1 - parts_.settings.forward_share;
  return [this, share](NodeId node, Step step, BatchName batch) {
    const ComputeTime& times = *parts_.compute_time;
    const Duration own = times.duration(node, step, batch) - times.delay(node, step);
    return from_seconds(share * to_seconds(own));
  };
}

GradientDuration Run::episode_duration() const {
  if (parts_.settings.per_episode <= Duration{0}) return {};
  return [this](NodeId node, Step step, BatchName) {
    return parts_.compute_time->slowed(node, step, parts_.settings.per_episode);
  };
}

void Run::follow_failures() {
  observer_->count_live_nodes();
  observer_->leave_out_absence([this](NodeId node, Time begin, Time end) {
    return parts_.failures->presence(node, begin, end);
  });
}

void Run::end_at_target(SimulatedTransport& transport) {
  using By = Observer::By;
  const bool by_time = parts_.settings.evaluate_interval > Duration{0};
  observer_->judge(by_time ? By::time : By::step, [this, &transport](double loss, double accuracy) {
    if (is_at_target_ || !is_met(*parts_.settings.until_target, loss, accuracy)) return;
    is_at_target_ = true;
    transport.end_now();
  });
}

void Run::note_failures(const SimulatedTransport& transport) {
  const SimulatedTransport::FailureCounts& failed = transport.failures();
  auto& statistics = recorder_.statistics;
  statistics["failures.stopped_nodes"] = static_cast<double>(failed.stopped_nodes.size());
  statistics["failures.lost_messages"] = static_cast<double>(failed.lost_messages);
  statistics["failures.duplicated_messages"] = static_cast<double>(failed.duplicated_messages);
  double away = 0;
  for (NodeId node = 0; node < parts_.settings.nodes; ++node) {
    const NodeTotals& totals = recorder_.nodes[static_cast<std::size_t>(node)];
    const bool is_on = transport.is_cut() && totals.steps < parts_.settings.steps;
    const Time end = is_on ? transport.now() : totals.finished;
    away += to_seconds(parts_.failures->absence(node, end));
  }
  statistics["failures.away_seconds"] = away;
}

void Run::note_closing_warnings(const SimulatedTransport& transport, const Host* host) {
  for (const HostCostWarning& cost : parts_.host_cost_warnings) {
    if (host != nullptr && !(host->uses().*cost.use)) closing_warnings_.push_back(cost.warning);
  }
  if (!parts_.no_collectives_warning.empty() && !transport.has_used_closed_forms())
    closing_warnings_.push_back(parts_.no_collectives_warning);
  if (const auto& target = parts_.settings.until_target; target && !is_at_target_) {
    closing_warnings_.push_back(
        fmt::format("run.until_target = {} {:g} was not reached", target->metric, target->value));
  }
  if (!parts_.failures) return;
  Time end = transport.is_cut() ? transport.now() : last_finish(recorder_.nodes);
  for (const NodeId node : transport.failures().stopped_nodes)
    end = std::max(end, *parts_.failures->stopped(node, transport.now()));
  const std::int64_t late = parts_.failures->scheduled_from(end + Duration{1});
  if (late == 0) return;
  closing_warnings_.push_back(
      fmt::format("[failures] {} of {} outages would begin after the end of the run, at {}", late,
                  parts_.failures->scheduled_from(Time{}), to_text(end.time_since_epoch())));
}

bool Run::run_programs(SimulatedTransport& transport) {
  try {
    transport.run();
    return !transport.is_cut();
  } catch (const Stalled& stalled) {
    throw Stalled(stalled.what() + remedy(parts_));
  } catch (const Halted&) {
    throw;  // all processes halt alike
  } catch (const Interrupted&) {
    throw;  // all are interrupted alike
  } catch (...) {
    graph_->abandon(std::current_exception());
    throw;
  }
}

void Run::gather_from(const SimulatedTransport& transport, World& world, const Host* host) {
  network_log_->pass_to(transport.now());
  recorder_.statistics["engine.events"] = static_cast<double>(transport.events());
  if (parts_.failures) note_failures(transport);
  note_closing_warnings(transport, host);
  const HostCosts& costs = parts_.settings.host;
  if (world.makes_codes && costs.encoding_seconds_per_byte + costs.decoding_seconds_per_byte == 0)
    recorder_.facts["codes"] = "made and read in no time (network.encoding_bandwidth)";
  account_until(world, transport.now());  // of programs that have not ended
  const bool ends_evaluated = is_at_target_ && transport.is_cut();
  if (parts_.settings.evaluates_by_time() && !ends_evaluated)
    observer_->pass_to_end(transport.is_cut() ? transport.now() : observer_->end());
}

void Run::run_simulation(const Recorder* recorded) {
  const RunSettings& settings = parts_.settings;
  begin_checkpoints();
  const SimulatedTransport* clock = nullptr;
  parts_.network->watch(*network_log_);
  std::optional<Host> host;
  if (recorded == nullptr && settings.host != HostCosts{}) {
    host.emplace(settings.host, settings.nodes);
  }
  std::optional<Replay> replay;
  const bool is_cut = recorded != nullptr && recorded->is_cut();
  if (recorded != nullptr) replay.emplace(recorded->acts, is_cut);
  auto place = std::make_unique<SimulatedTransport>(
      SimulatedTransport::Settings{
          .nodes = settings.nodes,
          .closed_form_collectives = settings.closed_form_collectives,
          .eager_limit = replay ? Rendezvous::no_limit : settings.eager_limit,
          .host = host ? &*host : nullptr,
          .backward = replay ? GradientDuration() : backward_duration(),
          .per_episode = replay ? GradientDuration() : episode_duration(),
          .until = until(),
          .is_done = [&] { return observer_->has_ended(); },
          .pulse = [this, &clock] { pulse(clock->now(), clock->events()); },
          .failures = parts_.failures.get(),
          .on_stop =
              [&](NodeId i) { observer_->lose(i, *parts_.failures->stopped(i, clock->now())); },
          .replay = replay ? &*replay : nullptr},
      *parts_.network, *graph_, [this](NodeId node, Step step, BatchName batch) {
        return parts_.compute_time->duration(node, step, batch);
      });
  SimulatedTransport& transport = *place;
  clock = &transport;
  graph_->follow(transport.running());
  if (parts_.failures) follow_failures();
  evaluate_by_time(0, settings.nodes);
  if (settings.until_target) end_at_target(transport);
  // For what may end before its programs.
  if (settings.until < Time::max() || settings.until_target || is_cut || parts_.failures ||
      parts_.network->may_stand_still()) {
    transport.keep_suspended();
  }

  World world{transport,      *graph_,       *observer_,   *parts_.topology,
              settings.steps, settings.seed, settings.plan};
  Nodes nodes(world, settings.nodes);
  transport.add_records({nodes.records(), {recorder_.nodes.data(), sizeof(NodeTotals)}});
  transport.add_records(parts_.compute_time->node_records());
  transport.add_records(parts_.topology->node_records());
  transport.add_models(observer_->models());
  for (Node& node : nodes) node.spawn(parts_.program(node));
  const auto run = [&] { return run_programs(transport); };
  const auto gather = [&] { gather_from(transport, world, host ? &*host : nullptr); };
  const auto make_room = [&place] { place.reset(); };
  conclude(run, gather, true, make_room);
}

}  // namespace starling
