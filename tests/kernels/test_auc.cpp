// The area under the curve, the loss that stands in for it, and the data of one class against the rest.
#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "kernels/auc_saddle.hpp"
#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "tests/kernels/make_workload.hpp"
#include "tests/support/relative.hpp"

namespace starling::test_auc {
namespace {

std::unique_ptr<Workload> make(const test::Keys& keys, NodeId nodes = 1) {
  return test::make_workload("auc", keys, nodes, 5);
}

/// The definition: over all pairs of a positive and a negative sample, 1 if ranked right, 1/2 if equal.
double by_pairs(const std::vector<float>& scores, const std::vector<std::int32_t>& labels) {
  double right = 0, pairs = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    for (std::size_t j = 0; j < scores.size(); ++j) {
      if (labels[i] != 1 || labels[j] == 1) continue;
      right += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
      ++pairs;
    }
  }
  return right / pairs;
}

/// Linear scores of a dataset at a model that is its weights, then its bias.
std::vector<double> linear_scores(const Dataset& data, const std::vector<float>& x) {
  std::vector<double> scores;
  for (std::size_t s = 0; s < data.samples; ++s) {
    double h = double{x[data.features]};
    for (std::size_t k = 0; k < data.features; ++k) h += double{data.row(s)[k]} * double{x[k]};
    scores.push_back(h);
  }
  return scores;
}

struct Moments {
  double mean[2] = {0, 0};
  double count[2] = {0, 0};
};

Moments moments(const std::vector<double>& scores, const std::vector<std::int32_t>& labels) {
  Moments m;
  for (std::size_t s = 0; s < scores.size(); ++s) {
    m.mean[labels[s]] += scores[s];
    ++m.count[labels[s]];
  }
  for (const int side : {0, 1}) m.mean[side] /= m.count[side];
  return m;
}

/// p (1-p) (mean over pairs of (1 - (h+ - h-))^2 - 1), by all pairs.
double saddle_value(const std::vector<double>& scores, const std::vector<std::int32_t>& labels) {
  double sum = 0, pairs = 0, positives = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    positives += labels[i];
    for (std::size_t j = 0; j < scores.size(); ++j) {
      if (labels[i] != 1 || labels[j] == 1) continue;
      sum += std::pow(1 - (scores[i] - scores[j]), 2);
      ++pairs;
    }
  }
  const double p = positives / static_cast<double>(scores.size());
  return p * (1 - p) * (sum / pairs - 1);
}

/// F of all samples at a model in double, by the formula of auc_saddle.hpp; its score is an MLP of these widths.
double objective(const Dataset& data, const std::vector<std::size_t>& widths, double p,
                 const std::vector<double>& x) {
  const double *last = &x[x.size() - 3], a = last[0], b = last[1], alpha = last[2];
  double sum = 0;
  for (std::size_t s = 0; s < data.samples; ++s) {
    std::vector<double> values(data.row(s).begin(), data.row(s).end());
    std::size_t at = 0;
    for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
      const std::size_t inputs = widths[l], outputs = widths[l + 1];
      std::vector<double> next(outputs);
      for (std::size_t o = 0; o < outputs; ++o) {
        next[o] = x[at + inputs * outputs + o];
        for (std::size_t i = 0; i < inputs; ++i)
          next[o] += values[i] * x[at + dense::weight_index(inputs, outputs, i, o)];
        if (l + 2 < widths.size()) next[o] = std::max(next[o], 0.0);
      }
      at += (inputs + 1) * outputs;
      values = next;
    }
    const double h = values[0];
    sum += data.y[s] == 1 ? (1 - p) * (h - a) * (h - a) - 2 * (1 + alpha) * (1 - p) * h
                          : p * (h - b) * (h - b) + 2 * (1 + alpha) * p * h;
  }
  return sum / static_cast<double>(data.samples) - p * (1 - p) * alpha * alpha;
}

}  // namespace

TEST_CASE("the area under the curve is the share of pairs in order, ties counting half") {
  Random random(1, "test auc");
  for (const int levels : {2, 7, 1000}) {
    std::vector<float> scores;
    std::vector<std::int32_t> labels;
    for (int s = 0; s < 200; ++s) {
      labels.push_back(s % 5 == 0 ? 1 : 0);
      scores.push_back(static_cast<float>(random.below(static_cast<std::uint64_t>(levels))) +
                       (labels.back() == 1 ? 0.25F * static_cast<float>(levels) : 0));
    }
    CHECK(area_under_curve(scores, labels) ==
          doctest::Approx(by_pairs(scores, labels)).epsilon(1e-12));
  }
  // Positives 3 and 1, negatives 2 and 1: 3 beats both, 1 loses to 2 and ties with 1.
  CHECK(area_under_curve(std::vector<float>{3, 1, 2, 1}, std::vector<std::int32_t>{1, 1, 0, 0}) ==
        2.5 / 4);
}

TEST_CASE(
    "at the best a, b, alpha the loss is the pairwise surrogate, and their gradient is zero") {
  // One node and a batch of all its samples, each once: F itself, not an estimate.
  const auto probe = make({{"positive_share", "0.05"}});
  const std::int64_t all = probe->facts().samples[0];
  const auto workload = make({{"positive_share", "0.05"}, {"batch_size", std::to_string(all)}});
  const auto& auc = dynamic_cast<const Auc&>(*workload);
  CHECK(auc.positive_share() == test::relative(0.05, 0.01));
  REQUIRE(workload->facts().dual_parameters == 1);
  CHECK(workload->facts().dual_curvature ==
        doctest::Approx(2 * auc.positive_share() * (1 - auc.positive_share())));

  const Dataset& train = auc.data().train;
  std::vector<float> x(workload->facts().parameters), gradient(x.size());
  workload->initial_model(x);
  const std::vector<double> scores = linear_scores(train, x);
  const Moments m = moments(scores, train.y);
  x[65] = static_cast<float>(m.mean[1]);
  x[66] = static_cast<float>(m.mean[0]);
  x[67] = static_cast<float>(m.mean[0] - m.mean[1]);
  GradientRequest request{.node = 0, .draw = 0, .x = x.data(), .gradient = gradient.data()};
  workload->gradients({&request, 1});
  CHECK(request.loss == doctest::Approx(saddle_value(scores, train.y)).epsilon(1e-5));
  for (std::size_t k = 65; k < 68; ++k) CHECK(std::abs(gradient[k]) < 1e-5);

  // Off the saddle, F rises along a and b and falls along alpha; its step in alpha is a Newton step away.
  x[67] += 0.5F;
  GradientRequest off{.node = 0, .draw = 0, .x = x.data(), .gradient = gradient.data()};
  workload->gradients({&off, 1});
  CHECK(off.loss < request.loss);
  CHECK(gradient[67] / workload->facts().dual_curvature == doctest::Approx(0.5).epsilon(1e-4));
}

TEST_CASE("loss and gradient of an AUC are those of finite differences in double") {
  for (const auto& shape : {std::pair<std::string, std::vector<std::size_t>>{"", {6, 1}},
                            {"5", {6, 5, 1}},
                            {"33, 4", {6, 33, 4, 1}}}) {
    // Clang 16 lets no lambda capture a structured binding.
    const std::string& hidden = shape.first;
    const std::vector<std::size_t>& widths = shape.second;
    CAPTURE(hidden);
    const auto workload = make({{"dataset", "blobs"},
                                {"features", "6"},
                                {"classes", "3"},
                                {"samples", "40"},
                                {"test_samples", "20"},
                                {"batch_size", "40"},
                                {"hidden", hidden}});
    const auto& auc = dynamic_cast<const Auc&>(*workload);
    REQUIRE(auc.data().train.samples == 40);  // a batch has each of them once
    std::vector<float> x(workload->facts().parameters), gradient(x.size());
    workload->initial_model(x);
    Random random(3, "test auc");
    for (float& value : x) value += 0.2F * static_cast<float>(random.normal());
    GradientRequest request{.x = x.data(), .gradient = gradient.data()};
    workload->gradients({&request, 1});
    gradient.back() = -gradient.back();  // alpha ascends

    std::vector<double> point(x.begin(), x.end());
    const auto value = [&] {
      return objective(auc.data().train, widths, auc.positive_share(), point);
    };
    CHECK(request.loss == doctest::Approx(value()).epsilon(1e-6));
    double worst = 0, largest = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      // F is a square of what is linear in x_i between ReLUs' kinks, so central differences are off by rounding alone.
      constexpr double h = 1e-6;
      point[i] = double{x[i]} + h;
      const double above = value();
      point[i] = double{x[i]} - h;
      const double below = value();
      point[i] = double{x[i]};
      worst = std::max(worst, std::abs((above - below) / (2 * h) - double{gradient[i]}));
      largest = std::max(largest, std::abs(double{gradient[i]}));
    }
    CHECK(worst < 2e-6 * std::max(1.0, largest));
  }
}

TEST_CASE("evaluation gives the surrogate and the area under the curve of the test samples") {
  const auto workload = make({{"positive_class", "3"}});
  const auto& auc = dynamic_cast<const Auc&>(*workload);
  std::vector<float> x(workload->facts().parameters);
  workload->initial_model(x);
  EvaluationRequest request{.x = x.data()};
  workload->evaluate({&request, 1});
  const std::vector<double> scores = linear_scores(auc.data().test, x);
  CHECK(request.loss == doctest::Approx(saddle_value(scores, auc.data().test.y)).epsilon(1e-5));
  CHECK(request.accuracy ==
        doctest::Approx(by_pairs({scores.begin(), scores.end()}, auc.data().test.y)).epsilon(1e-9));
  CHECK(workload->facts().accuracy_metric == "test_auc");
}

TEST_CASE(
    "one class against the rest is every sample of the data, in order, labelled by its side") {
  const auto workload = make({{"positive_class", "3"}});
  const SplitDataset& sides = dynamic_cast<const Auc&>(*workload).data();
  DatasetSettings digits;
  digits.kind = "digits";
  const SplitDataset data = load_dataset(digits, 5);
  const auto check = [](const Dataset& one_against_rest, const Dataset& all) {
    CHECK(one_against_rest.samples == all.samples);
    CHECK(one_against_rest.x == all.x);
    CHECK(one_against_rest.classes == 2);
    std::vector<std::int32_t> is_three;
    for (const std::int32_t label : all.y) is_three.push_back(label == 3 ? 1 : 0);
    CHECK(one_against_rest.y == is_three);
  };
  check(sides.train, data.train);
  check(sides.test, data.test);
}

TEST_CASE(
    "leaving out positives keeps all negatives, or the other way round, and the wanted share") {
  const auto whole = make({});
  const auto thin = make({{"positive_share", "0.02"}});
  const auto count = [](const Workload& w, int label) {
    return std::ranges::count(dynamic_cast<const Auc&>(w).data().train.y, label);
  };
  CHECK(count(*thin, 0) == count(*whole, 0));
  const double negatives = static_cast<double>(count(*whole, 0));
  CHECK(count(*thin, 1) == std::floor(negatives * 0.02 / 0.98 + 0.5));
  CHECK(dynamic_cast<const Auc&>(*thin).data().test.samples ==
        dynamic_cast<const Auc&>(*whole).data().test.samples);
  const auto thick = make({{"positive_share", "0.6"}});  // more than there are
  CHECK(count(*thick, 1) == count(*whole, 1));
  CHECK(count(*thick, 0) == std::floor(static_cast<double>(count(*whole, 1)) / 1.5 + 0.5));
  CHECK_THROWS_WITH_AS(
      make({{"positive_share", "1e-9"}}),
      doctest::Contains("positive_share must leave samples on both sides, got 1e-09"),
      ScenarioError);
}

TEST_CASE("a class that is not there cannot be ranked") {
  CHECK_THROWS_WITH_AS(make({{"positive_class", "12"}}),
                       doctest::Contains("both sides, got class 12"), ScenarioError);
  CHECK_THROWS_WITH_AS(make({{"positive_share", "1"}}),
                       doctest::Contains("must be in [0, 1), got 1"), ScenarioError);
}

TEST_CASE("the description tells how many training samples a positive share leaves") {
  const std::unique_ptr<Workload> thinned = make({{"positive_share", "0.01"}}, 2);
  const WorkloadFacts& facts = thinned->facts();
  CHECK(facts.description.find(", 1308 training samples kept") != std::string::npos);
  CHECK(make({})->facts().description.find("kept") == std::string::npos);
}

}  // namespace starling::test_auc
