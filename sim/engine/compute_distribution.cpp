#include "sim/engine/compute_distribution.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/number_file.hpp"
#include "sim/base/random.hpp"
#include "sim/engine/compute_samples.hpp"

namespace starling {
namespace {

// A normal draw below this fraction of the mean is raised to it: no computation takes a negative
// time.
constexpr double normal_floor = 0.05;

// Batches that tell the mean cost.
constexpr NodeId nodes_for_mean = 64;  // at most
constexpr Step draws_for_mean = 16;

/// Mean of max(floor, 1 + sigma z). For information only, so the C library's functions will do.
double floored_normal_mean(double sigma) {
  if (sigma == 0) return 1;
  const double a = (normal_floor - 1) / sigma;
  const double below = 0.5 * std::erfc(-a / std::sqrt(2.0));
  const double density = std::exp(-0.5 * a * a) / std::sqrt(8 * std::atan(1.0));
  return normal_floor * below + (1 - below) + sigma * density;
}

/// Whether durations come out of a file, in seconds, rather than as multiples of a mean.
bool is_recorded(const std::string& name) {
  return name == "empirical" || name == "published" || name == "trace";
}

/// A random factor of mean 1, of those that take more than one normal draw or none; null: none.
std::function<double(Random&)> make_factor(const DistributionSettings& settings) {
  const double shape = settings.shape;
  if (settings.name == "gamma") return [=](Random& random) { return random.gamma(shape) / shape; };
  if (settings.name == "exponential") return [](Random& random) { return random.exponential(); };
  ensure(settings.name == "constant", "a choice is one of its options");
  return nullptr;
}

/// Scales what was recorded, of mean `own`, to the mean `gradient`, if there is one; answers the mean in effect.
template <class Recorded>
double rescale(const Section& section, Duration gradient, Recorded& recorded, double own) {
  const double wanted = to_seconds(gradient);
  if (wanted == 0 || wanted == own) return own;
  section.expect(own > 0, "gradient", "cannot scale samples that are all zero to a mean of {}",
                 to_text(gradient));
  recorded.scale(wanted / own);
  return wanted;
}

double mean_cost(const BatchCost& cost, NodeId nodes) {
  nodes = std::min(nodes, nodes_for_mean);
  double sum = 0;
  for (NodeId i = 0; i < nodes; ++i) {
    for (Step k = 0; k < draws_for_mean; ++k) sum += static_cast<double>(cost(i, k));
  }
  return sum / static_cast<double>(nodes * draws_for_mean);
}

}  // namespace

DistributionSettings read_distribution(const Section& section, NodeId nodes) {
  DistributionSettings read;
  read.name = section.choice("distribution",
                             {"constant", "normal", "lognormal", "gamma", "exponential",
                              "empirical", "published", "trace"},
                             "constant", "how durations vary");
  if (is_recorded(read.name)) {
    read.gradient = section.optional<Duration>("gradient", Duration{0},
                                               "mean duration; 0 s: what was measured, as it is");
  } else {
    read.gradient = section.required<Duration>("gradient", "mean duration of a gradient");
    read.per_token = section.optional<ExactDuration>(
        "per_token", ExactDuration{0},
        "on top, for every token of the batch (sample, where samples have no length)");
  }
  if (read.name == "normal") {
    read.sigma = section.required<double>(
        "sigma", "standard deviation over mean; draws below 5 % of the mean are raised to it");
  } else if (read.name == "lognormal") {
    read.sigma =
        section.required<double>("sigma", "standard deviation of the logarithm; the mean is kept");
  } else if (read.name == "gamma") {
    read.shape = section.required<double>("shape", "coefficient of variation is 1 / sqrt(shape)");
  } else if (read.name == "empirical") {
    read.samples = section.resolve_path(section.required<std::string>(
        "samples", "CSV file: seconds, or seconds and cumulative fraction"));
  } else if (read.name == "published") {
    read.samples = published_file(section.choice(
        "name", published_names(), "", "whose batch times; see scenarios/data/README.md"));
  } else if (read.name == "trace") {
    read.trace = read_trace_settings(section, nodes);
  }
  section.expect_range("sigma", read.sigma, 0, 5);
  section.expect_range("shape", read.shape, 0.01, 1e6);
  if (read.name != "constant" && read.name != "trace") {
    const std::string draw =
        section.choice("draw", {"step", "node"}, "step", "anew at every step, or once per node");
    read.is_per_node = draw == "node";
  }
  return read;
}

FactorsAhead::FactorsAhead(const DistributionSettings& settings, NodeId nodes, const Random& stream)
    : stream_(stream),
      is_lognormal_(settings.name == "lognormal"),
      is_per_node_(settings.is_per_node),
      sigma_(settings.sigma),
      first_(static_cast<std::size_t>(nodes), -1),
      drawn_(static_cast<std::size_t>(nodes)) {}

Block FactorsAhead::draw(NodeId node, Step first) const {
  if (is_lognormal_)
    return exact_exp(first_normals(stream_, node, first, sigma_, -0.5 * sigma_ * sigma_));
  Block factors = first_normals(stream_, node, first, sigma_, 1.0);
  for (double& factor : factors) factor = std::max(normal_floor, factor);
  return factors;
}

ComputeDistribution::ComputeDistribution(const Section& section,
                                         const DistributionSettings& settings, NodeId nodes,
                                         std::uint64_t seed, const BatchCost& cost) {
  if (settings.name == "trace") {
    auto trace = read_named_file(section, "trace", [&] { return DurationTrace(settings.trace); });
    mean_ = rescale(section, settings.gradient, trace, trace.mean(nodes));
    seconds_ = [trace = std::move(trace)](NodeId node, Step step, BatchName) {
      return trace.at(node, step);
    };
  } else if (is_recorded(settings.name)) {
    const char* const key = settings.name == "published" ? "name" : "samples";
    auto samples = read_named_file(section, key, [&] { return DurationSamples(settings.samples); });
    mean_ = rescale(section, settings.gradient, samples, samples.mean());
    seconds_ = [samples = std::move(samples), stream = Random(seed, "compute"),
                is_per_node = settings.is_per_node](NodeId node, Step step, BatchName) {
      Random random = stream.at(node, is_per_node ? 0 : step);
      return samples.draw(random);
    };
  } else {
    vary(settings, nodes, seed, cost);
  }
}

void ComputeDistribution::vary(const DistributionSettings& settings, NodeId nodes,
                               std::uint64_t seed, const BatchCost& cost) {
  mean_ = to_seconds(settings.gradient);
  seconds_ = [mean = mean_](NodeId, Step, BatchName) { return mean; };
  if (settings.per_token.count() > 0) {
    ensure(cost != nullptr, "a cost per token needs a workload");
    const double per_token = settings.per_token.count() / 1e12;
    seconds_ = [base = mean_, per_token, cost](NodeId, Step, BatchName batch) {
      return std::fma(per_token, static_cast<double>(cost(batch.owner, batch.draw)), base);
    };
    mean_ += per_token * mean_cost(cost, nodes);
  }
  if (settings.name == "normal") mean_ *= floored_normal_mean(settings.sigma);
  if (settings.name == "normal" || settings.name == "lognormal") {
    ahead_.emplace(settings, nodes, Random(seed, "compute"));
  } else if (auto factor = make_factor(settings)) {
    seconds_ = [stream = Random(seed, "compute"), is_per_node = settings.is_per_node,
                nominal = std::move(seconds_),
                factor = std::move(factor)](NodeId node, Step step, BatchName batch) {
      Random random = stream.at(node, is_per_node ? 0 : step);
      return nominal(node, step, batch) * factor(random);
    };
  }
}

}  // namespace starling
