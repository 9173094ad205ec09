#include "sim/node/observer.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include <fmt/core.h>

#include "sim/base/error.hpp"

namespace starling {

Observer::Observer(ComputeGraph& graph, Recorder& recorder, const WorkloadFacts& facts)
    : graph_(graph),
      recorder_(recorder),
      facts_(facts),
      lost_(recorder.nodes.size()),
      behind_(recorder.nodes.size()) {}

void Observer::record(NodeId node, std::string_view metric, Step k, double value) {
  if (const auto row = recorder_.steps.schedule().row(k)) {
    recorder_.steps.cell(metric, *row, static_cast<std::size_t>(node)) = value;
  }
}

void Observer::record(NodeId node, std::string_view metric, Step k, const Scalar& value) {
  if (!value) return;  // a workload without numbers
  if (const auto row = recorder_.steps.schedule().row(k)) {
    graph_.deliver(value, &recorder_.steps.cell(metric, *row, static_cast<std::size_t>(node)));
  }
}

void Observer::average_steps(Step start, Step period) {
  averages_.resize(recorder_.nodes.size());
  average_start_ = start;
  average_period_ = period;
}

void Observer::take_in(Average& average, Step steps, const Vector& x, double weight) const {
  if (steps < average_start_ || (steps - average_start_) % average_period_ != 0) return;
  average.weight += weight;
  ++average.models;
  if (average.models == 1) {
    average.model = x;
    return;
  }
  const double share = weight / average.weight;
  const Weighted both[] = {{1 - share, average.model}, {share, x}};
  average.model = weighted_sum(both);
}

void Observer::end_step(NodeId node, Step k, const Vector& x, Time now, double weight) {
  if (averages_.empty()) [[likely]]
    return note_step(node, k, x, now, weight);
  Average& average = averages_[static_cast<std::size_t>(node)];
  take_in(average, k + 1, x, weight);
  if (!average.model) return note_step(node, k, x, now, weight);
  note_step(node, k, average.model, now, average.weight / static_cast<double>(average.models));
}

void Observer::note_step(NodeId node, Step k, const Vector& x, Time now, double weight) {
  while (next_instant_ < now) take_instant();
  NodeTotals& totals = recorder_.nodes[static_cast<std::size_t>(node)];
  ++totals.steps;
  totals.finished = now;
  ++steps_finished_;
  last_step_ = std::max(last_step_, now);
  if (totals.steps == recorder_.evaluation.schedule().steps()) --behind_;
  set_model(node, x);
  if (const auto row = recorder_.steps.schedule().row(k)) {
    const auto column = static_cast<std::size_t>(node);
    recorder_.steps.cell("time", *row, column) = to_seconds(now);
    recorder_.steps.cell("bytes_sent", *row, column) = static_cast<double>(totals.bytes_sent);
  }
  Handed handed{.weight = weight, .steps = k + 1, .bytes_sent = totals.bytes_sent};
  if (!draws_.empty()) handed.draws = draws_[static_cast<std::size_t>(node)];
  if (!newest_.empty()) newest_[static_cast<std::size_t>(node)] = handed;
  if (const auto row = recorder_.evaluation.schedule().row(k)) {
    add_snapshot({By::step, node, *row, now, x, handed});
  }
}

void Observer::set_model(NodeId node, Vector x) {
  models()[static_cast<std::size_t>(node)] = std::move(x);
}

void Observer::set_final_model(NodeId node, Vector x, Time now, double weight) {
  for (; next_instant_ < now; take_instant()) {
    lose_stopped(next_instant_);
    if (behind_ == 0) break;
  }
  if (behind_ == 0 && !newest_.empty() && last_step_ < now) pass_to_end(last_step_);
  if (!averages_.empty() && averages_[static_cast<std::size_t>(node)].model) return;  // of steps
  set_model(node, std::move(x));
  if (!newest_.empty()) newest_[static_cast<std::size_t>(node)].weight = weight;
}

std::span<Vector> Observer::models() {
  if (models_.empty()) models_.resize(recorder_.nodes.size());
  return models_;
}

void Observer::evaluate_by_time(std::pair<NodeId, NodeId> nodes, Duration interval, Time until) {
  nodes_here_ = nodes;
  newest_.resize(recorder_.nodes.size());
  interval_ = interval;
  until_ = until;
  next_instant_ = interval > Duration{0} ? std::min(Time{interval}, until) : until;
}

void Observer::pass_to_end(Time end) {
  while (next_instant_ < end) take_instant();
  if (next_instant_ > until_) return;  // that was the last one
  next_instant_ = until_ = end;
  take_instant();
}

void Observer::take_instant() {
  const Time time = next_instant_;
  if (time < until_) {
    next_instant_ = until_ - time > interval_ ? time + interval_ : until_;
  } else {
    next_instant_ = Time::max();
  }
  const std::size_t row = instants_++;
  lose_stopped(time);
  for (NodeId node = nodes_here_.first; node < nodes_here_.second; ++node) {
    if (lost_[static_cast<std::size_t>(node)]) continue;
    add_snapshot({By::time, node, row, time, model(node), newest_[static_cast<std::size_t>(node)]});
  }
}

void Observer::lose_stopped(Time time) {
  if (!presence_) return;
  for (NodeId node = nodes_here_.first; node < nodes_here_.second; ++node) {
    const bool is_done = steps(node) == recorder_.evaluation.schedule().steps();
    if (!is_done && presence_(node, time, Time::max()).first == Time::max()) lose(node);
  }
}

Observer::Row& Observer::row_of(Rows& rows, std::size_t index) {
  const auto [found, is_new] = rows.begun.try_emplace(index);
  Row& row = found->second;
  if (is_new) {
    row.models.resize(recorder_.nodes.size());
    row.handed.resize(recorder_.nodes.size());
    row.has_arrived.resize(recorder_.nodes.size());
    row.missing = recorder_.nodes.size() - lost_nodes_ + (are_put_off_ ? 1 : 0);
    if (rows.begun.size() > 2 * rows.kept + 1) {  // there may be many: those that are through go
      note_models();
      rows.kept = rows.begun.size();
    }
  }
  return row;
}

void Observer::add_snapshot(Snapshot snapshot) {
  Row& row = row_of(rows(snapshot.by), snapshot.row);
  const auto node = static_cast<std::size_t>(snapshot.node);
  row.models[node] = std::move(snapshot.model);
  row.handed[node] = snapshot.handed;
  row.has_arrived[node] = true;
  row.latest = std::max(row.latest, snapshot.time);
  ++waiting_models_;
  if (--row.missing == 0) complete(snapshot.by, snapshot.row, row);
}

void Observer::spend_present(NodeId node, Activity activity, Time begin, Time end) {
  while (begin < end) {
    const auto [from, to] = presence_(node, begin, end);
    recorder_.spend(node, activity, from, to);
    begin = to;
  }
}

void Observer::spend_waiting_present(NodeId node, Time since, Time network_since, Time now) {
  spend_present(node, Activity::wait, since, network_since);
  spend_present(node, Activity::communicate, network_since, now);
}

void Observer::leave_out_diverged() {
  leaves_out_diverged_ = counts_live_nodes_ = true;
  draws_.assign(recorder_.nodes.size(), 0);
}

void Observer::lose(NodeId node, Time time) {
  while (next_instant_ < time) take_instant();
  lose(node);
}

void Observer::lose(NodeId node) {
  const auto lost = static_cast<std::size_t>(node);
  if (lost_[lost]) return;
  lost_[lost] = true;
  ++lost_nodes_;
  if (steps(node) < recorder_.evaluation.schedule().steps()) --behind_;
  for (auto& [index, row] : by_step_.begun) {
    if (row.missing > 0 && !row.has_arrived[lost] && --row.missing == 0)
      complete(By::step, index, row);
  }
}

std::vector<Observer::Snapshot> Observer::take_snapshots() {
  std::vector<Snapshot> snapshots;
  for (const By by : {By::step, By::time}) {
    for (auto& [index, row] : rows(by).begun) {
      if (row.missing == 0) continue;
      for (std::size_t i = 0; i < row.models.size(); ++i) {
        if (!row.has_arrived[i]) continue;
        snapshots.push_back({by, static_cast<NodeId>(i), index, row.latest,
                             std::move(row.models[i]), row.handed[i]});
      }
    }
    std::erase_if(rows(by).begun, [](const auto& entry) { return entry.second.missing > 0; });
  }
  waiting_models_ = 0;
  are_put_off_ = false;
  return snapshots;
}

void Observer::complete(By by, std::size_t index, Row& row) {
  waiting_models_ -= static_cast<std::size_t>(std::ranges::count(row.has_arrived, true));
  note_work(by, index, row);
  if (graph_.has_numbers()) evaluate(by, index, row);
  row = Row{.distances = std::move(row.distances),
            .losses = std::move(row.losses),
            .accuracies = std::move(row.accuracies)};
}

void Observer::note_work(By by, std::size_t index, const Row& row) {
  Table& table = rows(by).table;
  table.cell("time", index) = to_seconds(row.latest);
  double steps = 0;
  std::int64_t bytes_sent = 0;
  std::size_t live = 0;
  for (std::size_t i = 0; i < recorder_.nodes.size(); ++i) {
    if (row.has_arrived[i] && row.handed[i].steps > 0) ++live;
    // Nodes that stopped worked, too.
    steps +=
        static_cast<double>(row.has_arrived[i] ? row.handed[i].steps : recorder_.nodes[i].steps);
    bytes_sent += row.has_arrived[i] ? row.handed[i].bytes_sent : recorder_.nodes[i].bytes_sent;
  }
  table.cell("bytes_sent", index) = static_cast<double>(bytes_sent);
  const double samples = steps * facts_.batch_size;
  table.cell("samples", index) = samples;
  const auto held = std::accumulate(facts_.samples.begin(), facts_.samples.end(), std::int64_t{0});
  if (held > 0) table.cell("epoch", index) = samples / static_cast<double>(held);
  if (counts_live_nodes_ || by == By::time)
    table.cell("live_nodes", index) = static_cast<double>(live);
}

void Observer::evaluate(By by, std::size_t index, Row& row) {
  Table& table = rows(by).table;
  if (leaves_out_diverged_) drop_diverged(by, index, row);
  double total = 0;
  for (std::size_t i = 0; i < row.models.size(); ++i) {
    if (row.models[i]) total += row.handed[i].weight;
  }
  std::vector<Weighted> terms;
  for (std::size_t i = 0; i < row.models.size(); ++i) {
    if (row.models[i]) terms.push_back({row.handed[i].weight / total, row.models[i]});
  }
  if (counts_live_nodes_) table.cell("live_nodes", index) = static_cast<double>(terms.size());
  if (terms.empty()) return;
  const Vector center = weighted_sum(terms);
  const ModelQuality quality = graph_.evaluate(center);
  graph_.deliver(quality.loss, &table.cell("test_loss", index));
  if (facts_.has_accuracy) {
    graph_.deliver(quality.accuracy, &table.cell(facts_.accuracy_metric, index));
  }
  std::erase_if(row.models, [](const Vector& x) { return !x; });  // of nodes that have none
  if (by == By::step) evaluated_.push_back(index);
  row.distances.assign(row.models.size(), std::nan(""));
  for (std::size_t i = 0; i < row.models.size(); ++i) {
    graph_.deliver(squared_distance(row.models[i], center), &row.distances[i]);
  }
  if (evaluates_nodes_) evaluate_own(row);
  if (const Judge& judge = rows(by).judge) {
    judge(quality.loss.value(), facts_.has_accuracy ? quality.accuracy.value() : std::nan(""));
  }
}

void Observer::drop_diverged(By by, std::size_t index, Row& row) {
  std::vector<Scalar> distances(row.models.size());
  for (std::size_t i = 0; i < row.models.size(); ++i) {  // 0, or NaN if an element is not finite
    if (row.models[i]) distances[i] = squared_distance(row.models[i], row.models[i]);
  }
  const DivergedAt diverged = this->diverged();
  for (std::size_t i = 0; i < row.models.size(); ++i) {
    if (!row.models[i]) continue;
    const auto node = static_cast<NodeId>(i);
    const bool is_finite = distances[i].value() == 0;
    if (!is_finite && by == By::step) {
      not_finite_.try_emplace(node, recorder_.evaluation.schedule().finished(index));
    }
    // Whoever is ahead of the others, or evaluated after the run, may have diverged since.
    if (!is_finite || diverged.is_before(node, row.handed[i].draws)) row.models[i] = {};
  }
}

DivergedAt Observer::diverged() {
  DivergedAt all = graph_.diverged();
  for (const auto& [node, draw] : diverged_elsewhere_.by_node()) all.add(node, draw);
  return all;
}

std::vector<std::string> Observer::diverged_nodes() {
  std::vector<std::string> nodes;
  const DivergedAt diverged = this->diverged();
  for (const auto& [node, draw] : diverged.by_node()) {
    nodes.push_back(fmt::format("node {} at its gradient {}", node, draw));
  }
  for (const auto& [node, steps] : not_finite_) {
    if (diverged.by_node().contains(node)) continue;
    nodes.push_back(fmt::format("node {} within {} steps", node, steps));
  }
  return nodes;
}

void Observer::finish_evaluations() {
  graph_.flush();
  note_models();
}

void Observer::evaluate_own(Row& row) {
  const std::size_t count = row.models.size();
  row.losses.assign(count, std::nan(""));
  if (facts_.has_accuracy) row.accuracies.assign(count, std::nan(""));
  for (std::size_t i = 0; i < count; ++i) {
    const ModelQuality quality = graph_.evaluate(row.models[i]);
    graph_.deliver(quality.loss, &row.losses[i]);
    if (facts_.has_accuracy) graph_.deliver(quality.accuracy, &row.accuracies[i]);
  }
}

void Observer::note_models() {
  for (const By by : {By::step, By::time}) {
    std::erase_if(rows(by).begun, [&](const auto& entry) {
      const auto& [index, row] = entry;
      return row.missing == 0 && note_models(rows(by).table, index, row);
    });
  }
}

bool Observer::note_models(Table& table, std::size_t index, const Row& row) const {
  // NaN where some are not known, or of models that are no numbers; the last is known last.
  const auto mean = [](const std::vector<double>& values) {
    if (values.empty() || std::isnan(values.back())) return std::nan("");
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  if (row.distances.empty()) return true;
  const double distance = mean(row.distances);
  const double loss = mean(row.losses);
  if (std::isnan(distance) || (!row.losses.empty() && std::isnan(loss))) return false;
  table.cell("consensus_distance", index) = std::sqrt(distance);
  if (row.losses.empty()) return true;
  table.cell("own_test_loss", index) = loss;
  if (row.accuracies.empty()) return true;
  const double accuracy = mean(row.accuracies);
  if (std::isnan(accuracy)) return true;  // there is none where a loss is not finite
  table.cell("own_" + facts_.accuracy_metric, index) = accuracy;
  table.cell("worst_" + facts_.accuracy_metric, index) = std::ranges::min(row.accuracies);
  return true;
}

NodeId Observer::slowest() const {
  std::optional<std::size_t> slowest;
  for (std::size_t i = 0; i < recorder_.nodes.size(); ++i) {
    if (!lost_[i] && (!slowest || recorder_.nodes[i].steps < recorder_.nodes[*slowest].steps))
      slowest = i;
  }
  return static_cast<NodeId>(slowest.value_or(0));
}

/// The first node that has not stopped and ended fewer steps.
std::optional<std::size_t> Observer::first_behind(Step steps) const {
  for (std::size_t i = 0; i < recorder_.nodes.size(); ++i) {
    if (recorder_.nodes[i].steps != steps && !lost_[i]) return i;
  }
  return std::nullopt;
}

void Observer::check_steps(Step steps) const {
  const auto node = first_behind(steps);
  if (!node) return;
  throw Error(fmt::format("the program of node {} ended {} of {} steps, then returned", *node,
                          recorder_.nodes[*node].steps, steps));
}

void Observer::check_means() const {
  if (leaves_out_diverged_) return;
  for (const std::size_t index : evaluated_) {
    const double loss = recorder_.evaluation.value("test_loss", index);
    if (std::isfinite(loss)) continue;
    throw Diverged("the test loss of the mean model", loss,
                   fmt::format("after step {}", recorder_.evaluation.schedule().finished(index)));
  }
}

}  // namespace starling
