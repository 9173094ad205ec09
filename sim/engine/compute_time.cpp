// The [compute] section: how long does a gradient take?
//
//   duration(node, step) = draw(node, step) / speed(node) + delay(node, step)
//
//   gradient              mean duration; empirical: left out or 0 s, samples stay as they are
//   distribution          constant | normal | lognormal | gamma | exponential | empirical
//     constant            gradient
//     normal              gradient * max(0.05, 1 + sigma z): sigma is the coefficient of variation
//     lognormal           gradient * exp(sigma z - sigma^2 / 2): sigma of the logarithm, mean kept
//     gamma               gradient * G(shape) / shape: coefficient of variation 1 / sqrt(shape)
//     exponential         gradient * E(1)
//     empirical           out of the file `samples`, all scaled to the mean `gradient` if given:
//                         one number of seconds per line, each as likely; or "seconds,fraction",
//                         the cumulative distribution, straight between its points, the first
//                         holding all of its fraction. The first line may be a header.
//   draw                  step: anew at every step; node: once per node, which keeps it
//   speeds                a factor per node, 1 is nominal, 0.5 takes twice as long
//   slow_nodes, slowdown  nodes 0 .. slow_nodes - 1 take `slowdown` times as long, beside `speeds`
//   delay                 added to delayed gradients; which ones, one of these two says:
//     delay_probability   each node at each step, independently of all others
//     delayed_nodes       exactly so many distinct nodes at every step, all equally likely; the
//                         draw is named by the step alone, so all nodes agree on it

#include "sim/engine/compute_time.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "sim/base/elementary.hpp"
#include "sim/base/error.hpp"
#include "sim/base/random.hpp"

namespace starling {
namespace {

// A normal draw below this fraction of the mean is raised to it: no computation takes a negative
// time.
constexpr double normal_floor = 0.05;

struct Point {
  double seconds;
  double fraction;  // of samples that are not longer; unused in a plain list
};

// A file of measured durations.
struct Samples {
  std::vector<Point> points;
  bool is_cumulative = false;

  double mean() const {
    double sum = 0;
    double last_fraction = 0;
    double last_seconds = points.front().seconds;
    for (const Point& point : points) {
      sum += is_cumulative ? (point.fraction - last_fraction) * 0.5 * (last_seconds + point.seconds)
                           : point.seconds / static_cast<double>(points.size());
      last_fraction = point.fraction;
      last_seconds = point.seconds;
    }
    return sum;
  }

  double draw(Random& random) const {
    if (!is_cumulative) return points[random.below(points.size())].seconds;
    const double u = random.uniform();
    const auto above = std::ranges::lower_bound(points, u, {}, &Point::fraction);
    if (above == points.begin())
      return above->seconds;  // the first point may hold a share of its own
    const Point& below = *std::prev(above);
    const double part = (u - below.fraction) / (above->fraction - below.fraction);
    return below.seconds + part * (above->seconds - below.seconds);
  }
};

std::string_view trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// The comma-separated numbers of a line; nothing if any is not a number.
std::optional<std::vector<double>> numbers_of(std::string_view line) {
  std::vector<double> numbers;
  while (true) {
    const std::size_t comma = line.find(',');
    const std::string_view text = trim(line.substr(0, comma));
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    numbers.push_back(number);
    if (comma == line.npos) return numbers;
    line.remove_prefix(comma + 1);
  }
}

Samples read_samples(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(fmt::format("{}: cannot open the samples of compute.samples", path));
  Samples samples;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (trim(line).empty()) continue;
    const auto refuse = [&](std::string_view what) {
      throw Error(fmt::format("{}:{}: expected {}, got \"{}\"", path, number, what, trim(line)));
    };
    const std::optional<std::vector<double>> row = numbers_of(line);
    if (!row && number == 1) continue;  // a header
    if (!row || row->size() > 2) refuse("seconds or seconds,fraction");
    const bool has_fraction = row->size() == 2;
    if (samples.points.empty()) samples.is_cumulative = has_fraction;
    if (has_fraction != samples.is_cumulative) refuse("as many numbers as on the lines before");
    const Point point{(*row)[0], has_fraction ? (*row)[1] : 0};
    if (!(point.seconds >= 0 && std::isfinite(point.seconds)))
      refuse("a number of seconds, not negative");
    if (has_fraction) {
      const Point last = samples.points.empty() ? Point{0, 0} : samples.points.back();
      if (!(point.fraction >= last.fraction && point.fraction <= 1))
        refuse("a fraction that grows from 0 to 1");
      if (point.seconds < last.seconds) refuse("seconds that do not fall while the fraction grows");
    }
    samples.points.push_back(point);
  }
  if (samples.points.empty())
    throw Error(fmt::format("{}: expected at least one sample, found none", path));
  if (samples.is_cumulative && samples.points.back().fraction != 1) {
    throw Error(fmt::format("{}: expected the last fraction to be 1, got {}", path,
                            samples.points.back().fraction));
  }
  return samples;
}

// Mean of max(floor, 1 + sigma z). For information only, so the C library's functions will do.
double floored_normal_mean(double sigma) {
  if (sigma == 0) return 1;
  const double a = (normal_floor - 1) / sigma;
  const double below = 0.5 * std::erfc(-a / std::sqrt(2.0));
  const double density = std::exp(-0.5 * a * a) / std::sqrt(8 * std::atan(1.0));
  return normal_floor * below + (1 - below) + sigma * density;
}

// Whether `node` is among `chosen` of `nodes`, drawn without replacement. Floyd's algorithm
// (Bentley and Floyd, "A sample of brilliance", CACM 30(9), 1987): as many draws as nodes chosen.
bool is_chosen(NodeId node, NodeId chosen, NodeId nodes, Random random) {
  std::vector<bool> is_in(static_cast<std::size_t>(nodes));
  for (NodeId last = nodes - chosen; last < nodes; ++last) {
    const auto drawn = static_cast<std::size_t>(random.below(static_cast<std::uint64_t>(last) + 1));
    is_in[is_in[drawn] ? static_cast<std::size_t>(last) : drawn] = true;
  }
  return is_in[static_cast<std::size_t>(node)];
}

// The keys that say how durations vary.
struct Distribution {
  std::string name;
  Duration gradient{};
  double sigma = 0;
  double shape = 1;
  std::string samples;  // path
  bool is_per_node = false;
};

Distribution read_distribution(const Section& section) {
  Distribution read;
  read.name = section.choice(
      "distribution", {"constant", "normal", "lognormal", "gamma", "exponential", "empirical"},
      "constant", "how durations vary");
  read.gradient = read.name == "empirical"
                      ? section.optional<Duration>("gradient", Duration{0},
                                                   "mean duration; 0 s: samples as they are")
                      : section.required<Duration>("gradient", "mean duration of a gradient");
  if (read.name == "normal") {
    read.sigma = section.required<double>(
        "sigma", "standard deviation over mean; draws below 5 % of the mean are raised to it");
  } else if (read.name == "lognormal") {
    read.sigma =
        section.required<double>("sigma", "standard deviation of the logarithm; the mean is kept");
  } else if (read.name == "gamma") {
    read.shape = section.required<double>("shape", "coefficient of variation is 1 / sqrt(shape)");
  } else if (read.name == "empirical") {
    read.samples = section.required<std::string>(
        "samples", "CSV file: seconds, or seconds and cumulative fraction");
  }
  section.expect(read.sigma >= 0 && read.sigma <= 5, "sigma", "must be between 0 and 5, got {}",
                 read.sigma);
  section.expect(read.shape >= 0.01 && read.shape <= 1e6, "shape",
                 "must be between 0.01 and 1e6, got {}", read.shape);
  if (read.name != "constant") {
    const std::string draw =
        section.choice("draw", {"step", "node"}, "step", "anew at every step, or once per node");
    read.is_per_node = draw == "node";
  }
  return read;
}

// The speed factor of every node.
std::vector<double> read_speeds(const Section& section, NodeId nodes) {
  const auto count = static_cast<std::size_t>(nodes);
  std::vector<double> speeds =
      section.numbers("speeds", {}, "one factor per node, 0.5 takes twice as long");
  section.expect(speeds.empty() || speeds.size() == count, "speeds",
                 "must have one factor for each of the {} nodes, got {}", nodes, speeds.size());
  for (const double speed : speeds) {
    section.expect(speed > 0, "speeds", "must be positive, got {}", speed);
  }
  const auto slow_nodes =
      section.optional<std::int64_t>("slow_nodes", 0, "so many nodes, from node 0 on, are slow");
  section.expect(slow_nodes >= 0 && slow_nodes <= nodes, "slow_nodes",
                 "must be between 0 and the number of nodes, {}, got {}", nodes, slow_nodes);
  const auto slowdown =
      section.optional<double>("slowdown", 1, "slow nodes take so many times as long");
  section.expect(slowdown > 0, "slowdown", "must be positive, got {}", slowdown);

  if (speeds.empty()) speeds.assign(count, 1.0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(slow_nodes); ++i) speeds[i] /= slowdown;
  return speeds;
}

std::function<Duration(NodeId, Step)> read_delays(const Section& section, NodeId nodes,
                                                  std::uint64_t seed) {
  const auto delay = section.optional<Duration>("delay", Duration{0}, "added to delayed gradients");
  const auto probability = section.optional<double>(
      "delay_probability", 0, "each node at each step is delayed with this probability");
  const auto delayed = section.optional<std::int64_t>(
      "delayed_nodes", 0, "exactly so many nodes, drawn anew at every step, are delayed");
  section.expect(probability >= 0 && probability <= 1, "delay_probability",
                 "must be between 0 and 1, got {}", probability);
  section.expect(delayed >= 0 && delayed <= nodes, "delayed_nodes",
                 "must be between 0 and the number of nodes, {}, got {}", nodes, delayed);
  section.expect(probability == 0 || delayed == 0, "delayed_nodes",
                 "must be 0 where delay_probability is given, got {}", delayed);
  const bool is_anybody_delayed = probability > 0 || delayed > 0;
  section.expect(delay.count() == 0 || is_anybody_delayed, "delay",
                 "needs delay_probability or delayed_nodes to say whom to delay");
  section.expect(delay.count() > 0 || !is_anybody_delayed, "delay",
                 "must say how long a delayed gradient waits, got {}", to_text(delay));

  if (delayed > 0) {
    const auto count = static_cast<NodeId>(delayed);
    return [=](NodeId node, Step step) {
      const Random random(seed, "delay", shared_stream, step);
      return is_chosen(node, count, nodes, random) ? delay : Duration{0};
    };
  }
  return [=](NodeId node, Step step) {
    const bool is_delayed =
        probability > 0 && Random(seed, "delay", node, step).uniform() < probability;
    return is_delayed ? delay : Duration{0};
  };
}

// A duration in seconds out of a stream, and its mean.
struct Draw {
  std::function<double(Random&)> seconds;
  double mean;
};

Draw empirical_draw(const Section& section, const Distribution& distribution, double mean) {
  Samples samples = read_samples(section.resolve_path(distribution.samples));
  const double own_mean = samples.mean();
  if (mean == 0) mean = own_mean;
  section.expect(mean == own_mean || own_mean > 0, "gradient",
                 "cannot scale samples that are all zero to a mean of {}",
                 to_text(distribution.gradient));
  const double factor = mean == own_mean ? 1 : mean / own_mean;
  for (Point& point : samples.points) point.seconds *= factor;
  return {[samples = std::move(samples)](Random& random) { return samples.draw(random); }, mean};
}

Draw make_draw(const Section& section, const Distribution& distribution) {
  const double mean = to_seconds(distribution.gradient);
  const double sigma = distribution.sigma;
  const double shape = distribution.shape;
  if (distribution.name == "normal") {
    const auto seconds = [=](Random& random) {
      return mean * std::max(normal_floor, std::fma(sigma, random.normal(), 1.0));
    };
    return {seconds, mean * floored_normal_mean(sigma)};
  }
  if (distribution.name == "lognormal") {
    const auto seconds = [=](Random& random) {
      return mean * exact_exp(std::fma(sigma, random.normal(), -0.5 * sigma * sigma));
    };
    return {seconds, mean};
  }
  if (distribution.name == "gamma") {
    return {[=](Random& random) { return mean * (random.gamma(shape) / shape); }, mean};
  }
  if (distribution.name == "exponential") {
    return {[=](Random& random) { return mean * random.exponential(); }, mean};
  }
  if (distribution.name == "empirical") return empirical_draw(section, distribution, mean);
  ensure(distribution.name == "constant", "a choice is one of its options");
  return {nullptr, mean};
}

}  // namespace

ComputeTime::ComputeTime(const Section& section, NodeId nodes, std::uint64_t seed) {
  const Distribution distribution = read_distribution(section);
  speed_ = read_speeds(section, nodes);
  delay_ = read_delays(section, nodes, seed);
  section.finish();

  Draw draw = make_draw(section, distribution);
  mean_seconds_ = draw.mean;
  if (!draw.seconds) {
    base_ = [mean = draw.mean](NodeId, Step) { return mean; };
    return;
  }
  base_ = [seed, is_per_node = distribution.is_per_node, seconds = std::move(draw.seconds)](
              NodeId node, Step step) {
    Random random(seed, "compute", node, is_per_node ? 0 : step);
    return seconds(random);
  };
}

Duration ComputeTime::duration(NodeId node, Step step) const {
  const double seconds = base_(node, step) / speed_[static_cast<std::size_t>(node)];
  try {
    return after(Time{from_seconds(seconds)}, delay(node, step)).time_since_epoch();
  } catch (const std::invalid_argument&) {
    throw Error(fmt::format(
        "the gradient of node {} at step {} takes {} s, more than the clock holds (106 days)", node,
        step, seconds));
  }
}

Duration ComputeTime::delay(NodeId node, Step step) const { return delay_(node, step); }

Duration ComputeTime::mean() const { return from_seconds(mean_seconds_); }

}  // namespace starling
