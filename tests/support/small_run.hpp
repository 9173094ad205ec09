// Whole runs inside a test: a scenario as text in, everything recorded out.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/registry.hpp"
#include "scenarios/assemble.hpp"
#include "sim/record/recorder.hpp"

namespace starling::test {

/// A scenario of `nodes` nodes on a `topology` with diagonal quadratics (heterogeneous, no noise), constant
/// latency and 1 ms gradients; `algorithm` is the text of that section.
std::string quadratic_scenario(int nodes, int steps, const std::string& topology,
                               const std::string& algorithm);

/// 8 nodes learn blobs with random delays; everything that a run records is in it. `run` are more lines of its section;
/// more lines of [algorithm], which wants a kind, may follow the text.
std::string blobs_scenario(int steps, const std::string& run = "");

/// Whether the algorithm has this key: asked for without building it.
bool has_key(const algorithms::AlgorithmEntry& entry, std::string_view key);

/// The [algorithm] section of `name` with the keys it requires, without momentum; periods so short that short runs have many.
std::string section_of(std::string_view name);

/// Overrides by which gradients count in the first `steps` steps alone, those of `more` behind them: later learning rates are
/// 1e-30 of the first.
std::vector<std::string> gradients_until(int steps, const std::vector<std::string>& more = {});

/// Runs a scenario simulated, without a results file, and keeps the final models.
Recorder run(const std::string& text, const std::vector<std::string>& overrides = {});

/// The same on another workload than the scenario's, which must name one.
Recorder run_on(std::unique_ptr<Workload> workload, const std::string& text);

/// As run(), of 4 nodes on a complete graph with quadratics in `dimension` dimensions; `algorithm` is the text of that section.
Recorder run_complete(int steps, int dimension, const std::string& algorithm,
                      std::vector<std::string> overrides = {});

/// Final model of `node`, coordinate k.
double model(const Recorder& recorder, NodeId node, std::size_t k);
/// Mean over the nodes of coordinate k.
double mean_model(const Recorder& recorder, std::size_t k);
/// Largest difference of two runs' final models, over nodes and coordinates.
double largest_difference(const Recorder& a, const Recorder& b);
/// Runs a scenario with quadratics; the largest distance of a coordinate of any node's final model from the optimum; NaN if one
/// is no number.
double distance_from_optimum(const std::string& text);
/// Whether all nodes end with the same model, to the bit; not if none was kept.
bool nodes_agree(const Recorder& recorder);

/// The push-sum weight that `node` recorded last; NaN if it never did.
double last_weight(const Recorder& recorder, NodeId node);

/// Solves A x = b by Gaussian elimination with pivoting; A is n x n, row-major.
std::vector<double> solve(std::vector<double> a, std::vector<double> b);

}  // namespace starling::test
