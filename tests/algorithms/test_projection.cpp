// SGDP and AdamP beside their recursions in double precision, on a model with a weight matrix whose columns may each be of any
// length, one that may be so as a whole, and one that may not.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_projection {
namespace {

using Model = std::vector<double>;
using Places = std::vector<std::size_t>;  // in a model

Model normals(std::size_t size, std::string_view purpose) {
  Random random(1, purpose);
  Model values(size);
  for (double& v : values) v = static_cast<float>(random.normal());
  return values;
}

double dot(const Model& a, const Model& b, const Places& places) {
  return std::accumulate(places.begin(), places.end(), 0.0,
                         [&](double sum, std::size_t i) { return sum + a[i] * b[i]; });
}

Places places_of(const WeightMatrix& matrix) {
  Places places(std::size_t{matrix.rows} * matrix.columns);
  std::iota(places.begin(), places.end(), matrix.offset);
  return places;
}

/// Of a matrix of one panel.
Places column_of(const WeightMatrix& matrix, std::size_t u) {
  Places places;
  for (std::size_t k = 0; k < matrix.rows; ++k)
    places.push_back(matrix.offset + k * matrix.columns + u);
  return places;
}

double cosine(const Model& a, const Model& b, const Places& places) {
  return dot(a, b, places) / std::sqrt(dot(a, a, places) * dot(b, b, places));
}

/// f(x) = sum over `invariant` places u of <c_u, x_u> / ||x_u||, plus 1/2 (x_i - c_i)^2 for all other i.
class NormalizedWorkload final : public Workload {
 public:
  NormalizedWorkload() {
    // Two floats before the first matrix, one before the second, one behind the last are of vectors.
    facts_.matrices = {{2, 5, 3}, {18, 4, 2}, {26, 3, 4}};
    facts_.parameters = 39;
    facts_.wire_parameters = 39;
    facts_.samples = {1};
    const WeightMatrix &by_columns = facts_.matrices[0], &as_a_whole = facts_.matrices[1];
    invariant_ = {column_of(by_columns, 0), column_of(by_columns, 1), column_of(by_columns, 2),
                  places_of(as_a_whole)};
    centers_ = normals(facts_.parameters, "centers");
  }
  const WorkloadFacts& facts() const override { return facts_; }
  void initial_model(std::span<float> x) const override {
    std::ranges::copy(normals(x.size(), "initial"), x.begin());
  }
  std::int64_t batch_cost(NodeId, Step) const override { return 1; }
  void gradients(std::span<GradientRequest> requests) const override {
    for (GradientRequest& request : requests) {
      const Model g = gradient(Model(request.x, request.x + facts_.parameters));
      std::ranges::copy(g, request.gradient);
      request.loss = 0;
    }
  }
  void evaluate(std::span<EvaluationRequest> requests) const override {
    for (EvaluationRequest& request : requests) request.loss = 0;
  }

  Model gradient(const Model& x) const {
    Model g(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) g[i] = x[i] - centers_[i];
    for (const Places& u : invariant_) {
      const double square = dot(x, x, u), along = dot(centers_, x, u) / square;
      for (const std::size_t i : u) g[i] = (centers_[i] - along * x[i]) / std::sqrt(square);
    }
    return g;
  }
  const std::vector<Places>& invariant() const { return invariant_; }

 private:
  WorkloadFacts facts_;
  std::vector<Places> invariant_;
  Model centers_;
};

constexpr double rate = 0.1;

struct Keys {
  bool is_adam;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  double ratio = 0.1;

  std::string text() const {
    std::string lines = is_adam ? "optimizer = adamp\n"
                                : fmt::format("optimizer = sgdp\nmomentum = {}\nnesterov = {}\n",
                                              momentum, nesterov ? "yes" : "no");
    if (weight_decay > 0)
      lines += fmt::format("weight_decay = {}\nweight_decay_ratio = {}\n", weight_decay, ratio);
    return lines;
  }
};

/// Columns that steps are projected in, or the whole matrix; none where neither is at right angles to the gradient.
std::vector<Places> projected_units(const WeightMatrix& matrix, const Model& g, const Model& x) {
  const auto is_across = [&](const Places& u) {
    return std::abs(cosine(g, x, u)) < 0.1 / std::sqrt(static_cast<double>(u.size()));
  };
  std::vector<Places> columns;
  for (std::size_t u = 0; u < matrix.columns; ++u) columns.push_back(column_of(matrix, u));
  if (std::ranges::all_of(columns, is_across)) return columns;
  const Places whole = places_of(matrix);
  if (is_across(whole)) return {whole};
  return {};
}

/// Where `steps` steps end.
Model reference(const Keys& keys, int steps) {
  const NormalizedWorkload workload;
  Model x = normals(workload.facts().parameters, "initial");
  Model m(x.size()), s(x.size()), step(x.size());
  for (int t = 1; t <= steps; ++t) {
    const Model g = workload.gradient(x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (keys.is_adam) {
        m[i] = 0.9 * m[i] + 0.1 * g[i];
        s[i] = 0.999 * s[i] + 0.001 * g[i] * g[i];
        step[i] =
            m[i] / (1 - std::pow(0.9, t)) / (std::sqrt(s[i] / (1 - std::pow(0.999, t))) + 1e-8);
      } else {
        m[i] = keys.momentum * m[i] + g[i];
        step[i] = keys.nesterov ? g[i] + keys.momentum * m[i] : m[i];
      }
    }
    Model decay(x.size(), keys.weight_decay / (1 - keys.momentum));
    for (const WeightMatrix& matrix : workload.facts().matrices) {
      for (const Places& u : projected_units(matrix, g, x)) {
        const double along = dot(step, x, u) / dot(x, x, u);
        for (const std::size_t i : u) {
          step[i] -= along * x[i];
          decay[i] *= keys.ratio;
        }
      }
    }
    for (std::size_t i = 0; i < x.size(); ++i) x[i] -= rate * (step[i] + decay[i] * x[i]);
  }
  return x;
}

Model run(int steps, const std::string& rule) {
  const Recorder recorder = test::run_on(
      std::make_unique<NormalizedWorkload>(),
      test::quadratic_scenario(
          1, steps, "ring", fmt::format("kind = allreduce\nlearning_rate = {}\n{}\n", rate, rule)));
  Model x;
  for (std::size_t i = 0; i < 39; ++i) x.push_back(test::model(recorder, 0, i));
  return x;
}

double largest_difference(const Model& a, const Model& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

}  // namespace

TEST_CASE("SGDP and AdamP project what scaling does not change, and spare it weight decay") {
  const Keys rules[] = {
      {.is_adam = false},
      {.is_adam = false, .momentum = 0.9},
      {.is_adam = false, .momentum = 0.8, .nesterov = true, .weight_decay = 0.05},
      {.is_adam = false, .momentum = 0.5, .weight_decay = 0.2, .ratio = 0.75},
      {.is_adam = true},
      {.is_adam = true, .weight_decay = 0.3},
      {.is_adam = true, .weight_decay = 0.3, .ratio = 0},
      {.is_adam = true, .weight_decay = 0.3, .ratio = 1},
  };
  for (const Keys& keys : rules) {
    CAPTURE(keys.text());
    CHECK(largest_difference(run(20, keys.text()), reference(keys, 20)) < 2e-5);
  }
  // Ratios tell apart what the tolerance above would not hide.
  CHECK(largest_difference(reference(rules[5], 20), reference(rules[6], 20)) > 0.01);
}

TEST_CASE("a step of AdamP is at right angles to weights of any length, one of AdamW is not") {
  const NormalizedWorkload workload;
  const auto largest_cosine = [&](const std::string& rule) {
    const Model before = run(5, rule), after = run(6, rule);
    double largest = 0;
    for (const Places& u : workload.invariant()) {
      const double length = dot(before, before, u);
      largest = std::max(largest, std::abs(dot(after, before, u) / length - 1));
    }
    return largest;
  };
  CHECK(largest_cosine("optimizer = adamp") < 1e-6);
  CHECK(largest_cosine("optimizer = sgdp\nmomentum = 0.9") < 1e-6);
  CHECK(largest_cosine("optimizer = adamw") > 1e-3);
  CHECK(largest_cosine("momentum = 0.9") > 1e-3);
}

TEST_CASE("where no step is projected AdamP is AdamW, and SGDP is SGD with decoupled decay") {
  const auto of = [](const std::string& rule) { return run(20, rule + "\nprojection_delta = 0"); };
  CHECK(of("optimizer = adamp") == run(20, "optimizer = adamw"));
  CHECK(of("optimizer = sgdp\nmomentum = 0.9") == run(20, "momentum = 0.9"));
  // The sum with the decay may be rounded once more.
  CHECK(largest_difference(of("optimizer = adamp\nweight_decay = 0.3"),
                           run(20, "optimizer = adamw\nweight_decay = 0.3")) < 1e-6);
  // Without momentum a decay is a part of the gradient.
  CHECK(largest_difference(of("optimizer = sgdp\nweight_decay = 0.3"),
                           run(20, "weight_decay = 0.3")) < 1e-6);
  CHECK(largest_difference(run(20, "optimizer = adamp"), run(20, "optimizer = adamw")) > 0.01);
}

TEST_CASE("rules that project need whole matrices") {
  const auto refused = [](const std::string& algorithm, const std::string& why) {
    CHECK_THROWS_WITH_AS(
        test::run(test::quadratic_scenario(4, 3, "ring", algorithm + "\nlearning_rate = 0.1")),
        doctest::Contains(why.c_str()), ScenarioError);
  };
  for (const std::string rule : {"sgdp", "adamp"}) {
    const std::string optimizer = "\noptimizer = " + rule;
    const std::string whole =
        "optimizer must not be sgdp or adamp, which need the whole gradient, ";
    for (const std::string kind : {"parameter_server", "async_parameter_server"}) {
      refused("kind = " + kind + "\nservers = 3" + optimizer,
              whole + "which none of 3 servers has: take servers = 1");
    }
    refused("kind = one_bit" + optimizer, whole + "which no owner has: take steps_by = nodes");
    refused(
        "kind = streaming_diloco\nperiod = 2\nmomentum = 0.5\nmomentum_policy = reset" + optimizer,
        "optimizer must not be sgdp or adamp, which need whole matrices, unless");
    for (const std::string kind : {"dgc", "quasi_global"})
      refused("kind = " + kind + optimizer, "optimizer must be sgd");
    refused("kind = diloco\nperiod = 2\nouter_optimizer = " + rule, "outer_optimizer");
  }
}

TEST_CASE("keys of projections belong to rules that project, and have bounds") {
  const std::string text =
      test::quadratic_scenario(2, 3, "ring", "kind = allreduce\nlearning_rate = 0.1");
  const auto refused = [&](std::vector<std::string> settings, const std::string& why) {
    for (std::string& setting : settings) setting.insert(0, "algorithm.");
    CHECK_THROWS_WITH_AS(test::run(text, settings), doctest::Contains(why.c_str()), ScenarioError);
  };
  for (const std::string rule : {"sgd", "adamw"}) {
    for (const std::string key : {"projection_delta", "weight_decay_ratio"})
      refused({"optimizer=" + rule, "weight_decay=0.1", key + "=0.1"}, key);
  }
  refused({"optimizer=adamp", "projection_delta=-0.1"}, "must not be negative, got -0.1");
  refused({"optimizer=sgdp", "weight_decay=0.1", "weight_decay_ratio=1.5"},
          "weight_decay_ratio must be from 0 to 1, got 1.5");
  refused({"optimizer=sgdp", "weight_decay_ratio=0.5"},
          "weight_decay_ratio needs weight_decay > 0");
  refused({"optimizer=sgdp", "epsilon=0"}, "epsilon must be from 1e-37");
  refused({"optimizer=sgdp", "beta1=0.5"}, "beta1");
  refused({"optimizer=adamp", "momentum=0.5"}, "momentum");
}

}  // namespace starling::test_projection
