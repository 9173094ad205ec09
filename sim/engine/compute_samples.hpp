// Measured durations out of a file, drawn anew: a list, each as likely, or a cumulative
// distribution. The published ones that come with the project have names.
#pragma once

#include <string>
#include <vector>

#include "sim/base/random.hpp"

namespace starling {

class DurationSamples {
 public:
  /// Reads `path`: one number of seconds per line, or "seconds,fraction", straight between the
  /// points, the first holding all of its fraction. Throws Error that names file and line.
  explicit DurationSamples(const std::string& path);

  double mean() const;
  double draw(Random& random) const;
  /// Multiplies all durations.
  void scale(double factor);

 private:
  struct Point {
    double seconds;
    double fraction;  // of durations that are not longer; unused in a plain list
  };

  std::vector<Point> points_;
  bool is_cumulative_ = false;
};

/// Names for `compute.name`; what they are and where they come from: scenarios/data/README.md.
std::vector<std::string> published_names();
/// File of a published distribution.
std::string published_file(const std::string& name);

}  // namespace starling
