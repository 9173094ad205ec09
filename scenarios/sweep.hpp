// Sweep: many runs of one scenario. Its [sweep] section lists values for keys of other sections; every combination is a
// point, an ordinary scenario with those settings.
//
//   [sweep]
//   algorithm.group_size = 2, 4, 8                  a list; or separated by | where values hold commas
//   compute.delay = 0 .. 320 ms step 160 ms         a range, both ends included
//   run.nodes = 4 .. 64 times 2                     a geometric one
//   run.steps = 1 .. 3                              step 1
//   zip = run.nodes algorithm.group_size            these lists go along together, value by value
//   repeats = 3                                     every point with so many seeds, from run.seed on
//   target = test_accuracy 0.9                      the tables tell when each point got there (target.hpp)
//
// Points are in the order of the keys, the last one changing fastest, repetitions within.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scenarios/scenario.hpp"
#include "scenarios/target.hpp"

namespace starling {

/// The key that tells repetitions of a point apart.
inline constexpr std::string_view seed_key = "run.seed";

struct SweepPoint {
  /// Tells the point apart: "group_size=4,delay=160ms,seed=2". Letters, digits and _ - + . , = only.
  std::string name;
  /// Value of every swept key, in the order of Sweep::keys.
  std::vector<std::string> values;
  /// The name is too long, or another's, and ends in a hash: it does not tell every value.
  bool is_cut = false;
};

struct Sweep {
  /// "section.key" as written; seed_key is last if there are repetitions.
  std::vector<std::string> keys;
  /// Where the list of each key stands: "sweep.ini:30".
  std::vector<std::string> origins;
  std::vector<SweepPoint> points;
  bool has_repeats = false;  // the seeds are those of repetitions
  std::optional<Target> target;
  std::string target_origin;

  /// "section.key=value" for every key of a point.
  std::vector<std::string> overrides(const SweepPoint& point) const;
  /// The name of a point, and its settings if the name does not tell them all.
  std::string describe(const SweepPoint& point) const;
};

/// The sweep that `scenario` asks for. Throws ScenarioError if it has no [sweep], or what is wrong with it.
Sweep read_sweep(const Scenario& scenario);

}  // namespace starling
