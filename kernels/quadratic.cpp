// Diagonal quadratics (quadratic.hpp). Every sum runs over k from 0, with one fma per term:
//
//   gradient   d = x_k - b_k, g_k = fmaf(a_k, d, s_k), all in float
//   loss       L <- fma(d/2, g_k + s_k, L) in double: a d^2 / 2 + s d = d/2 (a d + 2 s)
//   evaluate   e = x_k - x*_k, A_k = mean_i a_ik, L <- fma(A_k/2 e, e, L) in double, from f(x*) on:
//              this is mean_i f_i(x) at the cost of one node instead of all
#include "kernels/quadratic.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <sstream>
#include <string>

#include <fmt/core.h>

#include "kernels/model_facts.hpp"
#include "kernels/registry.hpp"
#include "kernels/worth_threads.hpp"
#include "sim/base/error.hpp"
#include "sim/base/memory.hpp"
#include "sim/base/number_file.hpp"
#include "sim/base/numbers.hpp"
#include "sim/base/random.hpp"
#include "sim/base/text_file.hpp"

namespace starling {

Quadratic::Quadratic(Problem problem) : problem_(std::move(problem)) {
  const auto nodes = static_cast<std::size_t>(problem_.nodes);
  const std::size_t dimension = problem_.dimension;
  ensure(problem_.nodes > 0 && dimension > 0, "a quadratic needs nodes and a dimension");
  ensure(problem_.curvature.size() == nodes * dimension &&
             problem_.center.size() == nodes * dimension && problem_.start.size() == dimension,
         "arrays of a quadratic have the wrong shape");
  facts_.description =
      fmt::format("quadratics in {} dimensions, noise {}", dimension, problem_.noise);
  set_parameters(facts_, dimension, problem_.wire_parameters);
  facts_.samples.assign(nodes, 1);  // a function is one sample: an epoch is a step
  facts_.data_bytes = 4.0 * static_cast<double>(problem_.curvature.size() + problem_.center.size());

  mean_curvature_.resize(dimension);
  optimum_.resize(dimension);
  for (NodeId i = 0; i < problem_.nodes; ++i) {
    for (std::size_t k = 0; k < dimension; ++k) {
      mean_curvature_[k] += curvature(i, k);
      optimum_[k] = std::fma(double{curvature(i, k)}, double{center(i, k)}, optimum_[k]);
    }
  }
  for (std::size_t k = 0; k < dimension; ++k) {
    optimum_[k] = mean_curvature_[k] > 0 ? optimum_[k] / mean_curvature_[k] : 0;
    mean_curvature_[k] /= problem_.nodes;
  }
  double sum = 0;
  for (NodeId i = 0; i < problem_.nodes; ++i) {
    for (std::size_t k = 0; k < dimension; ++k) {
      const double away = optimum_[k] - center(i, k);
      sum = std::fma(0.5 * curvature(i, k) * away, away, sum);
    }
  }
  optimal_loss_ = sum / problem_.nodes;
}

void Quadratic::initial_model(std::span<float> x) const {
  ensure(x.size() == problem_.dimension, "room for a model has the wrong size");
  std::copy(problem_.start.begin(), problem_.start.end(), x.begin());
}

void Quadratic::draw_slopes(NodeId node, Step draw, std::span<float> slopes) const {
  Random random(problem_.seed, "quadratic noise", node, draw);
  for (float& slope : slopes) slope = draw_slope(random);
}

float Quadratic::draw_slope(Random& random) const {
  return problem_.noise > 0 ? static_cast<float>(problem_.noise * random.normal()) : 0.0f;
}

void Quadratic::gradient(GradientRequest& request) const {
  Random random(problem_.seed, "quadratic noise", request.node, request.draw);
  const float* a = &problem_.curvature[at(request.node, 0)];
  const float* b = &problem_.center[at(request.node, 0)];
  double loss = 0;
  for (std::size_t k = 0; k < problem_.dimension; ++k) {
    const float slope = draw_slope(random);
    const float away = request.x[k] - b[k];
    const float g = std::fmaf(a[k], away, slope);
    request.gradient[k] = g;
    loss = std::fma(0.5 * away, double{g} + slope, loss);
  }
  request.loss = loss;
}

void Quadratic::gradients(std::span<GradientRequest> requests) const {
  const auto numbers = static_cast<double>(requests.size() * problem_.dimension);
  const double seconds =
      numbers / (problem_.noise > 0 ? normals_per_second : chained_additions_per_second);
#pragma omp parallel for schedule(static) if (is_worth_threads(seconds))
  for (std::size_t r = 0; r < requests.size(); ++r) gradient(requests[r]);
}

void Quadratic::evaluate(std::span<EvaluationRequest> requests) const {
  const auto numbers = static_cast<double>(requests.size() * problem_.dimension);
  const bool is_shared = is_worth_threads(numbers / chained_additions_per_second);
#pragma omp parallel for schedule(static) if (is_shared)
  for (std::size_t r = 0; r < requests.size(); ++r) {
    double loss = optimal_loss_;
    for (std::size_t k = 0; k < problem_.dimension; ++k) {
      const double away = requests[r].x[k] - optimum_[k];
      loss = std::fma(0.5 * mean_curvature_[k] * away, away, loss);
    }
    requests[r].loss = loss;
  }
}

namespace workloads {
namespace {

struct QuadraticSettings {
  std::size_t dimension;
  double curvature_min, curvature_max;
  std::string centers;
  double center_spread = 0;
  std::vector<double> center_values;
  double start, start_spread;
  std::string start_file;
};

QuadraticSettings read_settings(const Section& section, NodeId nodes) {
  QuadraticSettings settings{};
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();  // floats of a vector
  const std::int64_t dimension =
      read_whole(section, "dimension", 16, 1, most, "parameters of the model");
  settings.dimension = static_cast<std::size_t>(dimension);
  expect_memory(section, "dimension", 8.0 * nodes * static_cast<double>(dimension),
                fmt::format("{} nodes * {} curvatures and centers * 8 B", nodes, dimension));
  settings.centers =
      section.choice("centers", {"random", "index", "list"}, "random",
                     "minimum of node i: drawn, (i, .., i), or the i-th of center_values");
  if (settings.centers == "random") {
    settings.center_spread = read_between(section, "center_spread", 1, 0, largest_scale,
                                          "standard deviation of the minima; 0: all at the origin");
  } else if (settings.centers == "list") {
    settings.center_values = section.numbers(
        "center_values", {0}, "minimum of each node, the same in every coordinate, in a circle");
    section.expect(!settings.center_values.empty(), "center_values",
                   "must name at least one number");
    for (const double center : settings.center_values)
      section.expect_range("center_values", center, -largest_scale, largest_scale);
  }
  const bool is_random = settings.centers == "random";
  settings.curvature_min =
      section.optional<double>("curvature_min", is_random ? 0.5 : 1.0,
                               "least curvature; each coordinate of each node draws its own up to "
                               "the largest; 0 for both: no gradient; all nodes start alike");
  settings.curvature_max = section.optional<double>(
      "curvature_max", std::max(settings.curvature_min, is_random ? 2.0 : 1.0),
      "largest curvature");
  section.expect(settings.curvature_min >= 0, "curvature_min", "must not be negative, got {}",
                 settings.curvature_min);
  section.expect(settings.curvature_max >= settings.curvature_min, "curvature_max",
                 "must be at least curvature_min, {}, got {}", settings.curvature_min,
                 settings.curvature_max);
  section.expect_range("curvature_max", settings.curvature_max, 0, largest_scale);
  settings.start = read_between(section, "start", 0, -largest_scale, largest_scale,
                                "every coordinate of the initial model");
  settings.start_file = section.resolve_path(section.optional<std::string>(
      "start_file", "",
      "text file of `dimension` numbers to take where start_spread has normal ones"));
  settings.start_spread =
      read_between(section, "start_spread", settings.start_file.empty() ? 0 : 1, 0, largest_scale,
                   "standard deviation of a normal number added to each coordinate of the start");
  return settings;
}

double center(const QuadraticSettings& settings, NodeId node, Random& random) {
  if (settings.centers == "random") return settings.center_spread * random.normal();
  if (settings.centers == "index") return node;
  return settings.center_values[static_cast<std::size_t>(node) % settings.center_values.size()];
}

/// The numbers of a text file; lines that begin with # say what they are.
std::vector<double> read_start(const std::string& path, std::size_t dimension) {
  std::istringstream lines(read_whole_file(path));
  std::vector<double> numbers;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    while (!(words >> std::ws).eof()) {
      double number = 0;
      if (!(words >> number) || std::fabs(number) > largest_scale)
        throw Error(fmt::format("{}: expected numbers, found '{}'", path, line));
      numbers.push_back(number);
    }
  }
  if (numbers.size() != dimension) {
    throw Error(fmt::format("{}: expected {} numbers, found {}", path, dimension, numbers.size()));
  }
  return numbers;
}

}  // namespace

std::unique_ptr<Workload> quadratic(const Section& section, NodeId nodes, std::uint64_t seed) {
  const QuadraticSettings settings = read_settings(section, nodes);
  Quadratic::Problem problem{.nodes = nodes, .dimension = settings.dimension, .seed = seed};
  problem.noise = read_between(section, "noise", 0, 0, largest_scale,
                               "standard deviation of the noise on each entry of a gradient");
  problem.wire_parameters = read_wire_parameters(section);
  section.finish();

  const double range = settings.curvature_max - settings.curvature_min;
  for (NodeId i = 0; i < nodes; ++i) {
    Random curvatures(seed, "quadratic curvature", i), centers(seed, "quadratic centers", i);
    for (std::size_t k = 0; k < settings.dimension; ++k) {
      const double curvature = range > 0
                                   ? std::fma(range, curvatures.uniform(), settings.curvature_min)
                                   : settings.curvature_min;
      problem.curvature.push_back(static_cast<float>(curvature));
      problem.center.push_back(static_cast<float>(center(settings, i, centers)));
    }
  }
  Random starts(seed, "quadratic start");
  std::vector<double> given;
  if (!settings.start_file.empty()) {
    given = read_named_file(section, "start_file",
                            [&] { return read_start(settings.start_file, settings.dimension); });
  }
  for (std::size_t k = 0; k < settings.dimension; ++k) {
    double away = 0;
    if (settings.start_spread > 0)
      away = settings.start_spread * (given.empty() ? starts.normal() : given[k]);
    problem.start.push_back(static_cast<float>(settings.start + away));
  }
  return std::make_unique<Quadratic>(std::move(problem));
}

}  // namespace workloads
}  // namespace starling
