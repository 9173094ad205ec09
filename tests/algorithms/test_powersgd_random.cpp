// PowerSGD beside its algorithm in plain loops and double precision: models of random matrices with random vectors between them,
// random ranks, numbers of nodes and keys.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "sim/base/random.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_powersgd_random {
namespace {

using Model = std::vector<double>;

/// The learning rate, which falls once.
constexpr Step falls_at = 3;
constexpr double rate(Step k) { return k < falls_at ? 0.1 : 0.025; }
constexpr std::uint64_t seed = 1;

/// Quadratics whose minima change from step to step.
class MatricesWorkload final : public Workload {
 public:
  MatricesWorkload(NodeId nodes, Random random) {
    const auto add_vector = [&] {
      const std::uint64_t size = random.below(4);
      if (size > 0) facts_.tensors.push_back(size);
      facts_.parameters += size;
    };
    for (std::uint64_t left = 1 + random.below(3); left > 0; --left) {
      add_vector();
      const auto rows = static_cast<std::uint32_t>(1 + random.below(40));
      const auto columns = static_cast<std::uint32_t>(1 + random.below(40));
      facts_.matrices.push_back({facts_.parameters, rows, columns});
      facts_.tensors.push_back(std::size_t{rows} * columns);
      facts_.parameters += facts_.tensors.back();
    }
    add_vector();
    facts_.wire_parameters = static_cast<std::int64_t>(facts_.parameters);
    facts_.samples.assign(static_cast<std::size_t>(nodes), 1);
  }
  const WorkloadFacts& facts() const override { return facts_; }
  void initial_model(std::span<float> x) const override { std::ranges::fill(x, 0.0F); }
  std::int64_t batch_cost(NodeId, Step) const override { return 1; }
  /// Where the loss of the node's draw is least.
  Model minimum(NodeId node, Step draw) const {
    Model minimum(facts_.parameters);
    Random random(seed, "minimum", node, draw);
    for (double& m : minimum) m = static_cast<float>(random.normal());
    return minimum;
  }
  void gradients(std::span<GradientRequest> requests) const override {
    for (GradientRequest& request : requests) {
      const Model m = minimum(request.node, request.draw);
      for (std::size_t i = 0; i < m.size(); ++i)
        request.gradient[i] = request.x[i] - static_cast<float>(m[i]);
      request.loss = 0;
    }
  }
  void evaluate(std::span<EvaluationRequest> requests) const override {
    for (EvaluationRequest& request : requests) request.loss = 0;
  }

 private:
  WorkloadFacts facts_;
};

struct Matrix {
  std::size_t rows, columns;
  std::vector<double> values = std::vector<double>(rows * columns);  // row-major

  double& operator()(std::size_t r, std::size_t c) { return values[r * columns + c]; }
  double operator()(std::size_t r, std::size_t c) const { return values[r * columns + c]; }
};

Matrix transposed(const Matrix& a) {
  Matrix t{a.columns, a.rows};
  for (std::size_t r = 0; r < a.rows; ++r) {
    for (std::size_t c = 0; c < a.columns; ++c) t(c, r) = a(r, c);
  }
  return t;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix p{a.rows, b.columns};
  for (std::size_t r = 0; r < a.rows; ++r) {
    for (std::size_t c = 0; c < b.columns; ++c) {
      for (std::size_t i = 0; i < a.columns; ++i) p(r, c) += a(r, i) * b(i, c);
    }
  }
  return p;
}

/// The same span by columns of length one at right angles, in order (Gram and Schmidt).
Matrix orthonormal(Matrix a) {
  for (std::size_t c = 0; c < a.columns; ++c) {
    const auto dot = [&](std::size_t other) {
      double sum = 0;
      for (std::size_t r = 0; r < a.rows; ++r) sum += a(r, c) * a(r, other);
      return sum;
    };
    for (std::size_t before = 0; before < c; ++before) {
      const double share = dot(before);
      for (std::size_t r = 0; r < a.rows; ++r) a(r, c) -= share * a(r, before);
    }
    const double length = std::sqrt(dot(c));
    for (std::size_t r = 0; r < a.rows; ++r) a(r, c) /= length;
  }
  return a;
}

Matrix mean(const std::vector<Matrix>& matrices) {
  Matrix sum{matrices[0].rows, matrices[0].columns};
  for (const Matrix& m : matrices) {
    for (std::size_t i = 0; i < sum.values.size(); ++i)
      sum.values[i] += m.values[i] / static_cast<double>(matrices.size());
  }
  return sum;
}

/// Where a model keeps an entry: panels of 32 columns one after the other, each row by row.
std::size_t place(const WeightMatrix& m, std::size_t row, std::size_t column) {
  const std::size_t panel = column / 32 * 32;
  const std::size_t width = std::min<std::size_t>(32, m.columns - panel);
  return m.offset + panel * m.rows + row * width + column - panel;
}

Matrix taken_from(const Model& model, const WeightMatrix& m) {
  Matrix a{m.rows, m.columns};
  for (std::size_t r = 0; r < a.rows; ++r) {
    for (std::size_t c = 0; c < a.columns; ++c) a(r, c) = model[place(m, r, c)];
  }
  return a;
}

void put(Model& model, const WeightMatrix& m, const Matrix& a) {
  for (std::size_t r = 0; r < a.rows; ++r) {
    for (std::size_t c = 0; c < a.columns; ++c) model[place(m, r, c)] = a(r, c);
  }
}

struct Keys {
  std::uint32_t rank;
  bool is_residual_local, alternates, rescales_residual;
  Step exact_steps;
  double least_gain, momentum;
};

/// All nodes at once. By the paper's algorithm 1, or one side in turn.
class Reference {
 public:
  Reference(const WorkloadFacts& facts, const Keys& keys, NodeId nodes)
      : keys_(keys),
        matrices_(facts.matrices),
        errors_(static_cast<std::size_t>(nodes), Model(facts.parameters)) {
    for (std::size_t i = 0; i < matrices_.size(); ++i) {
      const WeightMatrix& m = matrices_[i];
      const std::size_t rank = std::min({keys.rank, m.rows, m.columns});
      const std::size_t thin = rank * (std::size_t{m.rows} + m.columns);
      const bool gains = std::size_t{m.rows} * m.columns >= keys.least_gain * thin;
      ranks_.push_back(gains ? rank : 0);
      q_.push_back({m.columns, rank});
      p_.push_back({m.rows, rank});
      Random random(seed, "first Q", shared_stream, static_cast<Step>(i));
      for (double& entry : q_.back().values) entry = random.normal();
    }
  }

  /// What all nodes take for the mean of their gradients.
  Model mean_gradient(const std::vector<Model>& gradients, Step k) {
    Model result(gradients[0].size());
    for (const Model& g : gradients) {
      for (std::size_t i = 0; i < g.size(); ++i)
        result[i] += g[i] / static_cast<double>(gradients.size());
    }
    if (k < keys_.exact_steps) return result;
    for (std::size_t t = 0; t < matrices_.size(); ++t) {
      if (ranks_[t] == 0) continue;
      std::vector<Matrix> wanted;
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        wanted.push_back(taken_from(gradients[i], matrices_[t]));
        const Matrix error = taken_from(errors_[i], matrices_[t]);
        const double scale = keys_.rescales_residual && k > 0 ? rate(k - 1) / rate(k) : 1;
        for (std::size_t e = 0; e < error.values.size(); ++e)
          wanted[i].values[e] += scale * error.values[e];
      }
      const bool makes_p = (k - keys_.exact_steps) % 2 == 0;
      std::vector<Matrix> own;  // what each node would take its own for
      Matrix common = keys_.alternates ? (makes_p ? p_side(wanted, t, own) : q_side(wanted, t, own))
                                       : both_sides(wanted, t, own);
      put(result, matrices_[t], common);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        const Matrix& said = keys_.is_residual_local ? own[i] : common;
        for (std::size_t e = 0; e < said.values.size(); ++e) wanted[i].values[e] -= said.values[e];
        put(errors_[i], matrices_[t], wanted[i]);
      }
    }
    return result;
  }

 private:
  Matrix both_sides(const std::vector<Matrix>& wanted, std::size_t t, std::vector<Matrix>& own) {
    std::vector<Matrix> products;
    for (const Matrix& m : wanted) products.push_back(product(m, q_[t]));
    p_[t] = orthonormal(mean(products));
    return q_side_of(wanted, t, own);
  }
  Matrix p_side(const std::vector<Matrix>& wanted, std::size_t t, std::vector<Matrix>& own) {
    q_[t] = orthonormal(q_[t]);
    std::vector<Matrix> products;
    for (const Matrix& m : wanted) {
      products.push_back(product(m, q_[t]));
      own.push_back(product(products.back(), transposed(q_[t])));
    }
    p_[t] = mean(products);
    return product(p_[t], transposed(q_[t]));
  }
  Matrix q_side(const std::vector<Matrix>& wanted, std::size_t t, std::vector<Matrix>& own) {
    p_[t] = orthonormal(p_[t]);
    return q_side_of(wanted, t, own);
  }
  Matrix q_side_of(const std::vector<Matrix>& wanted, std::size_t t, std::vector<Matrix>& own) {
    std::vector<Matrix> products;
    for (const Matrix& m : wanted) {
      products.push_back(product(transposed(m), p_[t]));
      own.push_back(product(p_[t], transposed(products.back())));
    }
    q_[t] = mean(products);
    return product(p_[t], transposed(q_[t]));
  }

  Keys keys_;
  std::vector<WeightMatrix> matrices_;
  std::vector<std::size_t> ranks_;  // 0: a matrix that travels as it is
  std::vector<Matrix> p_, q_;
  std::vector<Model> errors_;  // (nodes)
};

Model reference(const MatricesWorkload& workload, const Keys& keys, NodeId nodes, Step steps) {
  Reference power(workload.facts(), keys, nodes);
  Model x(workload.facts().parameters);
  Model velocity(x.size());
  for (Step k = 0; k < steps; ++k) {
    std::vector<Model> gradients;
    for (NodeId i = 0; i < nodes; ++i) {
      Model g = x;
      const Model minimum = workload.minimum(i, k);
      for (std::size_t e = 0; e < g.size(); ++e) g[e] -= minimum[e];
      gradients.push_back(g);
    }
    const Model mean = power.mean_gradient(gradients, k);
    for (std::size_t e = 0; e < x.size(); ++e) {
      velocity[e] = keys.momentum * velocity[e] + mean[e];
      x[e] -= rate(k) * velocity[e];
    }
  }
  return x;
}

}  // namespace

TEST_CASE(
    "PowerSGD is its algorithm in plain loops, whatever the shapes, ranks, pieces and nodes") {
  const char* const exchanges[] = {"", "exchange = tensors\n",
                                   "exchange = buckets\nbucket_size = 3 kB\n",
                                   "exchange = tensors\noverlap = backward\n"};
  for (Step number = 0; number < 60; ++number) {
    Random random(seed, "case", 0, number);
    const auto nodes = static_cast<NodeId>(1 + random.below(5));
    const auto steps = static_cast<Step>(1 + random.below(6));
    const Keys keys{.rank = static_cast<std::uint32_t>(1 + random.below(6)),
                    .is_residual_local = random.below(2) == 0,
                    .alternates = random.below(2) == 0,
                    .rescales_residual = random.below(2) == 0,
                    .exact_steps = static_cast<Step>(random.below(3)),
                    .least_gain = 1.5 * static_cast<double>(random.below(3)),
                    .momentum = 0.5 * static_cast<double>(random.below(2))};
    auto workload = std::make_unique<MatricesWorkload>(nodes, random);
    const Model expected = reference(*workload, keys, nodes, steps);
    const std::string text = fmt::format(
        "[run]\nnodes = {}\nsteps = {}\nseed = {}\n[topology]\nkind = complete\n[network]\nkind = "
        "constant\nlatency = 1 ms\n[compute]\ngradient = 1 ms\n[workload]\nkind = "
        "quadratic\n[algorithm]\nkind = powersgd\nlearning_rate = {}\nschedule = step\ndecay_steps "
        "= {}\n"
        "decay_factor = {}\nrank = {}\nresidual = {}\nsides = {}\nrescale_residual = {}\n"
        "exact_steps = {}\nleast_gain = {}\nmomentum = {}\n{}",
        nodes, steps, seed, rate(0), falls_at, rate(falls_at) / rate(0), keys.rank,
        keys.is_residual_local ? "local" : "mean", keys.alternates ? "alternating" : "both",
        keys.rescales_residual ? "yes" : "no", keys.exact_steps, keys.least_gain, keys.momentum,
        exchanges[number % 4]);
    CAPTURE(text);
    const Recorder recorder = test::run_on(std::move(workload), text);
    CHECK(test::nodes_agree(recorder));
    double largest = 0;
    for (std::size_t e = 0; e < expected.size(); ++e)
      largest = std::max(largest, std::abs(test::model(recorder, 0, e) - expected[e]));
    CHECK(largest < 1e-4);
  }
}

}  // namespace starling::test_powersgd_random
