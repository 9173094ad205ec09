#include "tests/support/small_run.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "kernels/quadratic.hpp"
#include "tests/support/simulated.hpp"

namespace starling::test {

bool has_key(const algorithms::AlgorithmEntry& entry, std::string_view key) {
  const Topology alone(1, {{}}, {{1.0}});
  const WorkloadFacts facts;
  const Section section = Section::probe("algorithm");
  try {
    entry.make(section, {.nodes = 1, .steps = 1, .topology = alone, .workload = facts});
  } catch (const ProbeFinished&) {
  }
  return std::ranges::any_of(section.uses(), [&](const KeyUse& use) { return use.key == key; });
}

std::string blobs_scenario(int steps, const std::string& run) {
  return fmt::format(R"([run]
nodes = 8
steps = {}
record_every = 1
evaluate_every = 5
timeline = 20 ms
{}[topology]
kind = ring
[network]
kind = loggp
preset = 10gbe
[compute]
gradient = 2 ms
distribution = lognormal
sigma = 0.4
[workload]
kind = mlp
dataset = blobs
hidden = 12
batch_size = 8
partition = dirichlet
[algorithm]
learning_rate = 0.1
)",
                     steps, run);
}

std::string section_of(std::string_view name) {
  std::string text = "kind = " + std::string(name) + "\nlearning_rate = 0.05";
  for (const auto& entry : algorithms::catalog()) {
    if (entry.name != name) continue;
    if (has_key(entry, "period")) text += "\nperiod = 3";
    if (has_key(entry, "momentum")) text += "\nmomentum = 0";
    if (has_key(entry, "stage_steps")) text += "\nstage_steps = 100";
  }
  return text;
}

std::string quadratic_scenario(int nodes, int steps, const std::string& topology,
                               const std::string& algorithm) {
  return fmt::format(
      "[run]\nnodes = {}\nsteps = {}\n[topology]\nkind = {}\n[network]\nkind = constant\nlatency = "
      "10 us\n"
      "[compute]\ngradient = 1 ms\n[workload]\nkind = quadratic\ndimension = 5\n[algorithm]\n{}\n",
      nodes, steps, topology, algorithm);
}

std::vector<std::string> gradients_until(int steps, const std::vector<std::string>& more) {
  std::vector<std::string> settings{"algorithm.schedule=step",
                                    fmt::format("algorithm.decay_steps={}", steps),
                                    "algorithm.decay_factor=1e-30"};
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

Recorder run(const std::string& text, const std::vector<std::string>& overrides) {
  std::vector<std::string> all{"run.save_models=yes"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return simulated(assemble(Scenario::parse(text, "test.ini", all)))->recorder();
}

Recorder run_on(std::unique_ptr<Workload> workload, const std::string& text) {
  const Scenario scenario = Scenario::parse(text, "test.ini", {"run.save_models=yes"});
  Assembly parts = assemble(scenario);
  const Section section = scenario.section("algorithm");
  const algorithms::AlgorithmEntry& kind = algorithms::find(section);
  parts.settings.plan = plan_exchange(algorithms::read_exchange(section, kind), workload->facts());
  parts.program = kind.make(
      section, {parts.settings.nodes, parts.settings.steps, *parts.topology, workload->facts()});
  const auto replaced = std::exchange(parts.workload, std::move(workload));
  return simulated(std::move(parts))->recorder();
}

Recorder run_complete(int steps, int dimension, const std::string& algorithm,
                      std::vector<std::string> overrides) {
  overrides.push_back(fmt::format("workload.dimension={}", dimension));
  return run(quadratic_scenario(4, steps, "complete", algorithm), overrides);
}

double model(const Recorder& recorder, NodeId node, std::size_t k) {
  return static_cast<double>(recorder.models.at(static_cast<std::size_t>(node)).at(k));
}

double mean_model(const Recorder& recorder, std::size_t k) {
  double sum = 0;
  for (const auto& x : recorder.models) sum += static_cast<double>(x.at(k));
  return sum / static_cast<double>(recorder.models.size());
}

double largest_difference(const Recorder& a, const Recorder& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.models.size(); ++i) {
    for (std::size_t k = 0; k < a.models[i].size(); ++k) {
      const double difference = static_cast<double>(a.models[i][k]) - b.models.at(i).at(k);
      largest = std::fmax(largest, std::abs(difference));
    }
  }
  return largest;
}

double distance_from_optimum(const std::string& text) {
  const Recorder recorder = run(text);
  const Assembly parts = assemble(Scenario::parse(text, "test.ini"));
  const std::span<const double> optimum = dynamic_cast<const Quadratic&>(*parts.workload).optimum();
  double worst = 0;
  for (NodeId i = 0; i < parts.settings.nodes; ++i) {
    for (std::size_t k = 0; k < optimum.size(); ++k) {
      const double distance = std::abs(model(recorder, i, k) - optimum[k]);
      if (std::isnan(distance)) return distance;
      worst = std::max(worst, distance);
    }
  }
  return worst;
}

bool nodes_agree(const Recorder& recorder) {
  return !recorder.models.empty() && std::ranges::all_of(recorder.models, [&](const auto& x) {
    return x == recorder.models.front();
  });
}

double last_weight(const Recorder& recorder, NodeId node) {
  const Table& steps = recorder.steps;
  // A node that stopped early has no weight in the last rows.
  for (std::size_t row = steps.rows("push_sum_weight"); row-- > 0;) {
    const double w = steps.value("push_sum_weight", row, static_cast<std::size_t>(node));
    if (!std::isnan(w)) return w;
  }
  return std::nan("");
}

std::vector<double> solve(std::vector<double> a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t c = 0; c < n; ++c) {
    std::size_t pivot = c;
    for (std::size_t r = c + 1; r < n; ++r) {
      if (std::abs(a[r * n + c]) > std::abs(a[pivot * n + c])) pivot = r;
    }
    for (std::size_t j = 0; j < n; ++j) std::swap(a[c * n + j], a[pivot * n + j]);
    std::swap(b[c], b[pivot]);
    for (std::size_t r = c + 1; r < n; ++r) {
      const double factor = a[r * n + c] / a[c * n + c];
      for (std::size_t j = c; j < n; ++j) a[r * n + j] -= factor * a[c * n + j];
      b[r] -= factor * b[c];
    }
  }
  for (std::size_t r = n; r-- > 0;) {
    for (std::size_t j = r + 1; j < n; ++j) b[r] -= a[r * n + j] * b[j];
    b[r] /= a[r * n + r];
  }
  return b;
}

}  // namespace starling::test
