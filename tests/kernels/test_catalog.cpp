// Conformance of every workload in the catalog, with its default settings: a new entry is tested
// before its author writes a line.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>

#include "kernels/registry.hpp"
#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "tests/kernels/make_workload.hpp"

namespace starling::test_catalog {
namespace {

constexpr NodeId nodes = 6;
constexpr std::uint64_t seed = 11;

Section section_of(const workloads::WorkloadEntry& entry, std::vector<Setting> settings = {}) {
  settings.insert(settings.begin(), {"kind", std::string(entry.name), "test.ini:2"});
  Section section("workload", "test.ini:1", settings);
  CHECK(workloads::find(section).name == entry.name);  // and reads `kind`
  return section;
}

std::unique_ptr<Workload> make(const workloads::WorkloadEntry& entry) {
  return entry.make(section_of(entry), nodes, seed);
}

using Model = std::vector<float>;

/// The initial model, every coordinate moved a little, so that no symmetry of the start hides a
/// mistake.
Model some_model(const Workload& workload, NodeId stream) {
  Model x(workload.facts().parameters);
  workload.initial_model(x);
  Random random(seed, "test models", stream);
  for (float& value : x) value += 0.1f * static_cast<float>(random.normal());
  return x;
}

/// The same, some of its tensors by powers of 2 larger or smaller: so far apart that gradients overflow here and there, while
/// losses need not.
Model stretched_model(const Workload& workload, int stream) {
  Model x = some_model(workload, 0);
  Random random(seed, "test stretches", stream);
  std::vector<std::size_t> tensors = workload.facts().tensors;
  if (tensors.empty()) tensors = {x.size()};
  auto at = x.begin();
  for (const std::size_t size : tensors) {
    constexpr int exponents[] = {-126, -60, -20, 0, 0, 0, 0, 20, 60, 120, 127, 130};
    const int exponent = exponents[random.below(std::size(exponents))];
    for (const auto end = at + static_cast<std::ptrdiff_t>(size); at != end; ++at)
      *at = std::ldexp(*at, exponent);
  }
  return x;
}

/// What one gradient request brought; == compares every bit of finite numbers.
struct Result {
  Model gradient;
  double loss;
  friend bool operator==(const Result&, const Result&) = default;
};

struct Question {
  NodeId node;
  Step draw;
  Model x;
};

/// Answers all questions in one call.
std::vector<Result> gradients(const Workload& workload, const std::vector<Question>& questions) {
  std::vector<Result> results;
  for (const Question& question : questions)
    results.push_back({Model(question.x.size(), NAN), NAN});
  std::vector<GradientRequest> requests;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    requests.push_back({.node = questions[i].node,
                        .draw = questions[i].draw,
                        .x = questions[i].x.data(),
                        .gradient = results[i].gradient.data()});
  }
  workload.gradients(requests);
  for (std::size_t i = 0; i < questions.size(); ++i) results[i].loss = requests[i].loss;
  return results;
}

/// Losses and accuracies of all models in one call; an accuracy that does not exist becomes -1.
std::vector<std::pair<double, double>> evaluate(const Workload& workload,
                                                const std::vector<Model>& models) {
  std::vector<EvaluationRequest> requests;
  for (const Model& x : models) requests.push_back({.x = x.data()});
  workload.evaluate(requests);
  std::vector<std::pair<double, double>> scores;
  for (const auto& request : requests) {
    scores.emplace_back(request.loss, std::isnan(request.accuracy) ? -1 : request.accuracy);
  }
  return scores;
}

std::vector<Question> some_questions(const Workload& workload) {
  std::vector<Question> questions;
  for (NodeId i = 0; i < nodes; ++i) {
    for (const Step draw : {Step{0}, Step{1}, Step{1000}}) {
      questions.push_back({i, draw, some_model(workload, i)});
    }
  }
  return questions;
}

}  // namespace

TEST_CASE("the catalog is sorted and every entry says in a line what it is") {
  std::string last;
  for (const auto& entry : workloads::catalog()) {
    CHECK(last < entry.name);
    CHECK(!entry.summary.empty());
    last = entry.name;
  }
}

TEST_CASE("an unknown workload is an error that lists the known ones") {
  const Section section("workload", "test.ini:1", {{"kind", "sofmax", "test.ini:2"}});
  std::string names;
  for (const auto& entry : workloads::catalog()) {
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  const std::string expected =
      "test.ini:2: workload.kind must be one of " + names + ", got sofmax; did you mean softmax?";
  CHECK_THROWS_WITH_AS(workloads::find(section), expected.c_str(), ScenarioError);
}

TEST_CASE("every workload reports its keys to a probe and builds nothing") {
  for (const auto& entry : workloads::catalog()) {
    const Section probe = Section::probe("workload", {{"kind", std::string(entry.name), "probe"}});
    workloads::find(probe);
    CHECK_THROWS_AS(entry.make(probe, nodes, seed), ProbeFinished);
    CHECK(probe.uses().size() >= 2);
    for (const KeyUse& use : probe.uses()) CHECK_MESSAGE(!use.help.empty(), use.key);
  }
}

TEST_CASE("every workload refuses a key it does not know") {
  for (const auto& entry : workloads::catalog()) {
    CHECK_THROWS_WITH_AS(
        entry.make(section_of(entry, {{"batch_sice", "4", "test.ini:3"}}), nodes, seed),
        doctest::Contains("test.ini:3: workload.batch_sice is not a key here"), ScenarioError);
  }
}

TEST_CASE("a section with every default filled in makes the same workload") {
  for (const auto& entry : workloads::catalog()) {
    CAPTURE(entry.name);
    const Section brief = section_of(entry);
    const auto first = entry.make(brief, nodes, seed);
    std::vector<Setting> filled;
    for (const KeyUse& use : brief.uses()) {
      if (use.key != "kind") filled.push_back({use.key, use.value, "test.ini:3"});
    }
    const auto second = entry.make(section_of(entry, filled), nodes, seed);
    CHECK(first->facts().description == second->facts().description);
    CHECK(first->facts().wire_parameters == second->facts().wire_parameters);
    if (first->facts().has_numbers) {
      CHECK(gradients(*first, some_questions(*first)) ==
            gradients(*second, some_questions(*second)));
    }
  }
}

TEST_CASE("every workload states its facts") {
  for (const auto& entry : workloads::catalog()) {
    const auto workload = make(entry);
    const WorkloadFacts& facts = workload->facts();
    CAPTURE(facts.description);
    CHECK(!facts.description.empty());
    CHECK(facts.parameters > 0);
    CHECK(facts.wire_parameters == static_cast<std::int64_t>(facts.parameters));
    CHECK(facts.batch_size > 0);
    REQUIRE(facts.samples.size() == static_cast<std::size_t>(nodes));
    for (const std::int64_t samples : facts.samples) CHECK(samples > 0);
    for (NodeId i = 0; i < nodes; ++i) CHECK(workload->batch_cost(i, 1000) > 0);
    const std::vector<std::size_t>& tensors = facts.tensors;
    const std::size_t whole = std::accumulate(tensors.begin(), tensors.end(), std::size_t{0});
    CHECK((tensors.empty() || whole == facts.parameters));
    std::size_t end = 0;
    for (const WeightMatrix& matrix : facts.matrices) {
      CHECK(matrix.offset >= end);
      end = matrix.offset + std::size_t{matrix.rows} * matrix.columns;
    }
    CHECK(end <= facts.parameters);
  }
}

TEST_CASE("layers tell their tensors and weight matrices, which make up the model") {
  struct Case {
    std::string kind;
    test::Keys keys;
    std::size_t tensors, matrices;
  };
  const auto layers = [](const char* text) { return test::Keys{{"layers", text}}; };
  const Case cases[] = {
      {"softmax", {}, 2, 1},
      {"linear", {}, 2, 1},
      {"mlp", {}, 4, 2},
      {"auc", {}, 3, 1},  // a, b, alpha are one tensor
      {"navigation", {}, 4, 2},
      {"cnn", {}, 8, 4},
      // convolution 1, normalization 2; residual with 3 of each; normalization 2; dense 2
      {"cnn", layers("conv 8 3x3 same unbiased, groupnorm 2, relu, residual 16 4 /2, batchnorm"),
       16, 5},
      {"cnn", layers("conv 3 2x5, residual 3 1, average"), 10, 4},
      // two embeddings; normalizations 2 * 2, dense layers 4 * 2; normalization 2, head 2
      {"transformer", {}, 18, 5},
      {"transformer", layers("3"), 42, 13},
  };
  for (const Case& wanted : cases) {
    CAPTURE(wanted.kind);
    const auto workload = test::make_workload(wanted.kind, wanted.keys, nodes, seed);
    const WorkloadFacts& facts = workload->facts();
    CHECK(facts.tensors.size() == wanted.tensors);
    CHECK(facts.matrices.size() == wanted.matrices);
    std::size_t at = 0, matrix = 0;
    for (const std::size_t size : facts.tensors) {
      if (matrix < facts.matrices.size() && facts.matrices[matrix].offset == at) {
        CHECK(std::size_t{facts.matrices[matrix].rows} * facts.matrices[matrix].columns == size);
        ++matrix;
      }
      at += size;
    }
    CHECK(at == facts.parameters);
    CHECK(matrix == wanted.matrices);
  }
}

TEST_CASE("every gradient is the slope of the loss in any direction") {
  // Central difference along a unit vector v: (L(x + h v) - L(x - h v)) / 2h = g . v + O(h^2). The
  // loss carries float32 rounding of about 1e-6, so h = 1e-2 leaves 1e-4; a hundredth of |g| is
  // generous for either error.
  for (const auto& entry : workloads::catalog()) {
    const auto workload = make(entry);
    if (!workload->facts().has_numbers) continue;
    if (entry.name == "navigation") continue;  // its samples depend on x: see test_navigation.cpp
    CAPTURE(entry.name);
    const Model x = some_model(*workload, 0);
    const Question here{2, 5, x};
    Model g = gradients(*workload, {here})[0].gradient;
    const std::size_t dual = workload->facts().dual_parameters;
    for (std::size_t k = g.size() - dual; k < g.size(); ++k) g[k] = -g[k];  // they ascend
    const double norm = std::sqrt(std::inner_product(g.begin(), g.end(), g.begin(), 0.0));
    REQUIRE(norm > 0.01);
    for (int direction = 0; direction < 5; ++direction) {
      std::vector<double> v(g.begin(),
                            g.end());  // the first is the gradient itself, the others are random
      Random random(seed, "test directions", direction);
      if (direction > 0) {
        for (double& value : v) value = random.normal();
      }
      const double length = std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
      const double h = 1e-2;
      Question ahead = here, behind = here;
      double slope = 0, moved = 0;  // what float32 really moved, in units of h v
      for (std::size_t k = 0; k < v.size(); ++k) {
        v[k] /= length;
        ahead.x[k] = static_cast<float>(x[k] + h * v[k]);
        behind.x[k] = static_cast<float>(x[k] - h * v[k]);
        slope += g[k] * v[k];
        moved += (double{ahead.x[k]} - behind.x[k]) * v[k];
      }
      const auto losses = gradients(*workload, {ahead, behind});
      const double measured = (losses[0].loss - losses[1].loss) / moved;
      CHECK_MESSAGE(std::abs(measured - slope) < 0.01 * norm, "direction ", direction, ": ",
                    measured, " expected ", slope);
    }
  }
}

TEST_CASE("no loss is finite where a gradient is not") {
  const auto is_finite = [](float value) { return std::isfinite(value); };
  for (const auto& entry : workloads::catalog()) {
    const auto workload = make(entry);
    if (!workload->facts().has_numbers) continue;
    CAPTURE(entry.name);
    std::vector<Question> questions;
    for (int i = 0; i < 200; ++i) questions.push_back({1, i, stretched_model(*workload, i)});
    int told = 0, missed = 0;
    for (const Result& result : gradients(*workload, questions)) {
      if (std::ranges::all_of(result.gradient, is_finite)) continue;
      ++(std::isfinite(result.loss) ? missed : told);
    }
    // Those of softmax regression are no larger than the samples.
    if (entry.name != "softmax") CHECK(told > 0);
    CHECK(missed == 0);
  }
}

TEST_CASE("a gradient and a score do not depend on what else is asked for, to the bit") {
  for (const auto& entry : workloads::catalog()) {
    const auto workload = make(entry);
    if (!workload->facts().has_numbers) continue;
    CAPTURE(entry.name);
    const std::vector<Question> questions = some_questions(*workload);
    const auto together = gradients(*workload, questions);
    for (std::size_t i = 0; i < questions.size(); ++i) {
      CHECK(gradients(*workload, {questions[i]})[0] == together[i]);
    }
    auto backward = gradients(*workload, {questions.rbegin(), questions.rend()});
    std::reverse(backward.begin(), backward.end());
    CHECK(backward == together);

    std::vector<Model> models;
    for (NodeId i = 0; i < nodes; ++i) models.push_back(some_model(*workload, i));
    const auto scores = evaluate(*workload, models);
    for (std::size_t i = 0; i < models.size(); ++i)
      CHECK(evaluate(*workload, {models[i]})[0] == scores[i]);
  }
}

TEST_CASE("a gradient and a score do not depend on the number of threads, to the bit") {
  const int threads = omp_get_max_threads();
  for (const auto& entry : workloads::catalog()) {
    const auto workload = make(entry);
    if (!workload->facts().has_numbers) continue;
    CAPTURE(entry.name);
    const std::vector<Question> questions = some_questions(*workload);
    std::vector<Model> models;
    for (NodeId i = 0; i < nodes; ++i) models.push_back(some_model(*workload, i));
    omp_set_num_threads(1);
    const auto alone = gradients(*workload, questions);
    const auto alone_scores = evaluate(*workload, models);
    for (const int count : {2, 5}) {
      omp_set_num_threads(count);
      CHECK(gradients(*workload, questions) == alone);
      CHECK(evaluate(*workload, models) == alone_scores);
    }
    omp_set_num_threads(threads);
  }
}

TEST_CASE("two builds of a workload agree to the bit, and nodes see different data") {
  for (const auto& entry : workloads::catalog()) {
    const auto one = make(entry), two = make(entry);
    if (!one->facts().has_numbers) continue;
    CAPTURE(entry.name);
    CHECK(gradients(*one, some_questions(*one)) == gradients(*two, some_questions(*two)));
    const Model x = some_model(*one, 0);
    const auto results = gradients(*one, {{0, 0, x}, {1, 0, x}});
    CHECK(results[0] != results[1]);
  }
}

TEST_CASE("an accuracy is a fraction, and there only if the workload says so") {
  for (const auto& entry : workloads::catalog()) {
    const auto workload = make(entry);
    if (!workload->facts().has_numbers) continue;
    CAPTURE(entry.name);
    const auto [loss, accuracy] = evaluate(*workload, {some_model(*workload, 0)})[0];
    CHECK(std::isfinite(loss));
    if (workload->facts().has_accuracy) {
      CHECK(accuracy >= 0);
      CHECK(accuracy <= 1);
    } else {
      CHECK(accuracy == -1);
    }
  }
}

}  // namespace starling::test_catalog
