#include "sim/engine/compute_samples.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/base/number_file.hpp"
#include "sim/base/shipped_file.hpp"

namespace starling {

DurationSamples::DurationSamples(const std::string& path) {
  NumberFile file(path, "the samples of compute.samples", "seconds or seconds,fraction");
  while (file.next()) {
    file.expect_seconds();
    const auto row = file.values();
    if (row.size() > 2) file.refuse("seconds or seconds,fraction");
    const bool has_fraction = row.size() == 2;
    if (points_.empty()) is_cumulative_ = has_fraction;
    if (has_fraction != is_cumulative_) file.refuse("as many numbers as on the lines before");
    const Point point{row[0], has_fraction ? row[1] : 0};
    if (!is_duration(point.seconds)) file.refuse("a number of seconds, not negative");
    if (has_fraction) {
      const Point last = points_.empty() ? Point{0, 0} : points_.back();
      if (!(point.fraction >= last.fraction && point.fraction <= 1))
        file.refuse("a fraction that grows from 0 to 1");
      if (point.seconds < last.seconds)
        file.refuse("seconds that do not fall while the fraction grows");
    }
    points_.push_back(point);
  }
  if (points_.empty())
    throw Error(fmt::format("{}: expected at least one sample, found none", path));
  if (is_cumulative_ && points_.back().fraction != 1) {
    throw Error(fmt::format("{}: expected the last fraction to be 1, got {}", path,
                            points_.back().fraction));
  }
}

double DurationSamples::mean() const {
  double sum = 0;
  double last_fraction = 0;
  double last_seconds = points_.front().seconds;
  for (const Point& point : points_) {
    sum += is_cumulative_ ? (point.fraction - last_fraction) * 0.5 * (last_seconds + point.seconds)
                          : point.seconds / static_cast<double>(points_.size());
    last_fraction = point.fraction;
    last_seconds = point.seconds;
  }
  return sum;
}

double DurationSamples::draw(Random& random) const {
  if (!is_cumulative_) return points_[random.below(points_.size())].seconds;
  const double u = random.uniform();
  const auto above = std::ranges::lower_bound(points_, u, {}, &Point::fraction);
  if (above == points_.begin()) return above->seconds;  // the first may hold a share of its own
  const Point& below = *std::prev(above);
  const double part = (u - below.fraction) / (above->fraction - below.fraction);
  return below.seconds + part * (above->seconds - below.seconds);
}

void DurationSamples::scale(double factor) {
  for (Point& point : points_) point.seconds *= factor;
}

std::vector<std::string> published_names() {
  return {"transformer_wmt17", "rl_habitat", "ucf101_lstm", "transformer_wmt16", "resnet50_cloud"};
}

std::string published_file(const std::string& name) {
  return shipped_file(fmt::format("times_{}.csv", name));
}

}  // namespace starling
