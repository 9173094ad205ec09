#include "tools/compare_settings.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include <boost/math/distributions/students_t.hpp>
#include <fmt/core.h>
#include <fmt/format.h>

#include "scenarios/sweep.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/did_you_mean.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/base/text_file.hpp"
#include "tools/failure.hpp"

namespace starling {
namespace {

constexpr std::size_t most_named = 12;

struct Points {
  std::vector<std::string> keys;
  std::vector<std::string> outcomes;
  std::vector<std::vector<std::string>> values;  // (points, keys)
  std::vector<std::vector<double>> numbers;      // (points, outcomes); NaN: not known

  std::size_t count() const { return values.size(); }
  /// One for all where the sweep has one.
  std::string seed_of(std::size_t point) const {
    const auto key = std::ranges::find(keys, seed_key);
    return key == keys.end() ? "" : values[point][static_cast<std::size_t>(key - keys.begin())];
  }
};

/// The table that a sweep leaves in its folder.
Points read_points(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "points.csv").string();
  const std::vector<CsvRow> rows = parse_csv(read_whole_file(path), path);
  const auto refuse = [&](std::size_t line, const std::string& what) {
    throw Error(fmt::format("{}:{}: {}", path, line, what));
  };
  if (rows.empty() || rows[0].cells[0] != "point") refuse(1, "not the points of a sweep");
  const std::vector<std::string>& head = rows[0].cells;
  Points points;
  for (std::size_t c = 1; c < head.size(); ++c) {
    const bool is_key = head[c].find('.') != std::string::npos;
    (is_key ? points.keys : points.outcomes).push_back(head[c]);
  }
  for (std::size_t r = 1; r < rows.size(); ++r) {
    const std::vector<std::string>& cells = rows[r].cells;
    if (cells.size() != head.size())
      refuse(rows[r].line, fmt::format("expected {} cells, got {}", head.size(), cells.size()));
    const auto first_outcome = cells.begin() + 1 + std::ssize(points.keys);
    points.values.emplace_back(cells.begin() + 1, first_outcome);
    std::vector<double>& numbers = points.numbers.emplace_back();
    for (auto cell = first_outcome; cell != cells.end(); ++cell)
      numbers.push_back(number_in<double>(*cell).value_or(std::nan("")));
  }
  return points;
}

/// Values of some of the keys.
using Choice = std::map<std::size_t, std::string>;

/// "algorithm.kind=wagma compute.delay=160 ms": what has no key of its own belongs to the value before.
Choice read_setting(const std::string& text, const Points& points) {
  Choice setting;
  std::istringstream words(text);
  std::string* value = nullptr;
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == word.npos || word.find('.') > equals) {
      if (value == nullptr)
        throw UsageError(fmt::format("expected section.key=value of the sweep, got {}", text));
      *value += " " + word;
      continue;
    }
    const std::string key = word.substr(0, equals);
    const auto found = std::ranges::find(points.keys, key);
    if (found == points.keys.end()) {
      throw UsageError(fmt::format("{} is no key that the sweep varies{}; these are {}", key,
                                   did_you_mean(key, points.keys), fmt::join(points.keys, ", ")));
    }
    value = &setting[static_cast<std::size_t>(found - points.keys.begin())];
    *value = word.substr(equals + 1);
  }
  if (setting.empty()) throw UsageError("expected section.key=value of the sweep, got nothing");
  return setting;
}

std::string describe(const Choice& setting, const Points& points) {
  std::string text;
  for (const auto& [key, value] : setting)
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", points.keys[key], value);
  return text;
}

std::vector<std::size_t> points_of(const Choice& setting, const Points& points) {
  std::vector<std::size_t> found;
  for (std::size_t p = 0; p < points.count(); ++p) {
    if (std::ranges::all_of(
            setting, [&](const auto& one) { return points.values[p][one.first] == one.second; }))
      found.push_back(p);
  }
  if (!found.empty()) return found;
  for (const auto& [key, value] : setting) {
    std::vector<std::string> known;
    for (const auto& values : points.values) {
      if (std::ranges::find(known, values[key]) == known.end()) known.push_back(values[key]);
    }
    if (std::ranges::find(known, value) != known.end()) continue;
    const bool is_cut = known.size() > most_named;
    known.resize(std::min(known.size(), most_named));
    throw UsageError(fmt::format("no finished point has {} = {}; there are {}{}", points.keys[key],
                                 value, fmt::join(known, ", "), is_cut ? ", .." : ""));
  }
  throw UsageError(fmt::format("no finished point has {}", describe(setting, points)));
}

/// Keys that have one value on each side, another one: they go with the settings.
Choice companions(const std::vector<std::size_t>& own, const std::vector<std::size_t>& others,
                  const Points& points) {
  Choice all;
  for (std::size_t key = 0; key < points.keys.size(); ++key) {
    const auto value = [&](std::size_t point) { return points.values[point][key]; };
    const auto is_one = [&](const std::vector<std::size_t>& side) {
      return std::ranges::all_of(side,
                                 [&](std::size_t point) { return value(point) == value(side[0]); });
    };
    if (points.keys[key] == seed_key || value(own[0]) == value(others[0])) continue;
    if (is_one(own) && is_one(others)) all[key] = value(own[0]);
  }
  return all;
}

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;  // of points

/// Points of both sides that are alike in the keys that stay, but for the seed.
struct Group {
  std::string name;
  Pairs pairs;
};

/// Values of a point, none of the keys in `out`.
std::vector<std::string> rest_of(std::size_t point, const std::set<std::size_t>& out,
                                 const Points& points) {
  std::vector<std::string> rest = points.values[point];
  for (const std::size_t key : out) rest[key].clear();
  return rest;
}

/// The points of a side by rest_of() them. Throws UsageError if two have the same.
std::map<std::vector<std::string>, std::size_t> by_rest(const char* side,
                                                        const std::vector<std::size_t>& own,
                                                        const std::set<std::size_t>& out,
                                                        const Points& points) {
  std::map<std::vector<std::string>, std::size_t> all;
  for (const std::size_t point : own) {
    const auto [other, is_new] = all.try_emplace(rest_of(point, out, points), point);
    if (is_new) continue;
    for (const std::size_t key : out) {
      if (points.values[point][key] == points.values[other->second][key]) continue;
      throw UsageError(
          fmt::format("several points of {} are alike but for {}; name its value there, too", side,
                      points.keys[key]));
    }
  }
  return all;
}

/// The keys that tell groups apart: those that stay, but for the seed, and vary among these points.
std::vector<std::size_t> keys_of_groups(const std::vector<std::size_t>& own,
                                        const std::set<std::size_t>& out, const Points& points) {
  std::vector<std::size_t> keys;
  for (std::size_t key = 0; key < points.keys.size(); ++key) {
    const auto has_another = [&](std::size_t point) {
      return points.values[point][key] != points.values[own[0]][key];
    };
    if (!out.contains(key) && points.keys[key] != seed_key && std::ranges::any_of(own, has_another))
      keys.push_back(key);
  }
  return keys;
}

std::vector<Group> pair_up(const std::vector<std::size_t>& first,
                           const std::vector<std::size_t>& second, const std::set<std::size_t>& out,
                           const Points& points) {
  const auto partners = by_rest("B", second, out, points);
  by_rest("A", first, out, points);  // nor has it two that are alike
  const std::vector<std::size_t> keys = keys_of_groups(first, out, points);
  std::vector<Group> groups;
  for (const std::size_t point : first) {
    const auto partner = partners.find(rest_of(point, out, points));
    if (partner == partners.end()) continue;
    Choice others;
    for (const std::size_t key : keys) others[key] = points.values[point][key];
    const std::string name = describe(others, points);
    auto group = std::ranges::find(groups, name, &Group::name);
    if (group == groups.end()) group = groups.insert(groups.end(), {name, {}});
    group->pairs.emplace_back(point, partner->second);
  }
  return groups;
}

/// Of the pairs in which both sides know an outcome. What pairs of one seed have in common, such as data and batches, is one draw:
/// the interval is that of means over each seed's pairs.
struct Difference {
  std::size_t pairs = 0;
  std::size_t seeds = 0;
  double first = 0, second = 0;  // means
  double mean = 0;
  double interval = std::nan("");  // half of it

  bool is_chance =
      false;  // that means over seeds differ alike, where pairs do not, or values do from seed to seed

  bool is_clear() const { return !is_chance && std::fabs(mean) > interval; }
};

Difference difference_of(const Pairs& pairs, std::size_t outcome, const Points& points) {
  struct Sum {
    std::size_t pairs = 0;
    double first = 0, second = 0;
  };
  std::map<std::string, Sum> by_seed;
  Difference all;
  double least = std::numeric_limits<double>::infinity();  // of pairs' differences
  double most = -least;
  for (const auto& [a, b] : pairs) {
    const double x = points.numbers[a][outcome], y = points.numbers[b][outcome];
    if (!std::isfinite(x) || !std::isfinite(y)) continue;
    Sum& sum = by_seed[points.seed_of(a)];
    ++sum.pairs;
    sum.first += x;
    sum.second += y;
    ++all.pairs;
    least = std::min(least, x - y);
    most = std::max(most, x - y);
  }
  all.seeds = by_seed.size();
  const auto count = static_cast<double>(all.seeds);
  std::vector<double> differences;
  for (const auto& [seed, sum] : by_seed) {
    const auto own = static_cast<double>(sum.pairs);
    all.first += sum.first / own / count;
    all.second += sum.second / own / count;
    differences.push_back((sum.first - sum.second) / own);
    all.mean += differences.back() / count;
  }
  constexpr double rounding = 1e-14;
  if (std::fabs(all.mean) < rounding * std::fabs(all.first)) all.mean = 0;
  if (all.seeds < 2) return all;
  double squares = 0;
  for (const double one : differences) squares += (one - all.mean) * (one - all.mean);
  const boost::math::students_t distribution(count - 1);
  constexpr double beyond = 0.025;  // on each side
  all.interval =
      quantile(complement(distribution, beyond)) * std::sqrt(squares / (count - 1) / count);
  const double negligible = rounding * std::fabs(all.first);
  if (all.interval < negligible) all.interval = 0;
  const auto differs = [&](double Sum::*side) {
    const double first = by_seed.begin()->second.*side;
    return std::ranges::any_of(by_seed, [&](const auto& seed) {
      return std::fabs(seed.second.*side - first) > rounding * std::fabs(first);
    });
  };
  // Of a pair for each seed, as accuracies are counts of samples.
  const bool are_few = all.pairs == all.seeds && differs(&Sum::first);
  all.is_chance = all.interval == 0 && (most - least > negligible || are_few);
  return all;
}

void print_row(const std::string& name, std::size_t width, const Difference& difference,
               std::size_t pairs) {
  const bool has_interval = !std::isnan(difference.interval);
  const double relative = 100 * difference.mean / std::fabs(difference.second);
  fmt::print("  {:<{}}{:>12.5g}{:>12.5g}{:>+12.4g}{:>11}{:>12}{:>9}{:>7}{}\n", name, width,
             difference.first, difference.second, difference.mean,
             has_interval ? fmt::format("{:.3g}", difference.interval) : "",
             std::isfinite(relative) ? fmt::format("{:+.2f} %", relative) : "",
             difference.pairs == pairs ? fmt::format("{}", pairs)
                                       : fmt::format("{} of {}", difference.pairs, pairs),
             difference.seeds,
             difference.is_clear() ? difference.mean > 0 ? "  A larger" : "  B larger" : "");
}

/// Prints nothing, and returns false, if no pair knows the outcome.
bool print_outcome(std::size_t outcome, const std::vector<Group>& groups, const Points& points) {
  Pairs everything;
  std::size_t width = std::string_view("all pairs").size();
  for (const Group& group : groups) {
    everything.insert(everything.end(), group.pairs.begin(), group.pairs.end());
    if (groups.size() > 1) width = std::max(width, group.name.size());
  }
  const Difference all = difference_of(everything, outcome, points);
  if (all.pairs == 0) return false;
  fmt::print("\n{:<{}}{:>12}{:>12}{:>12}{:>11}{:>12}{:>9}{:>7}\n", points.outcomes[outcome],
             width + 2, "A", "B", "A - B", "+- 95 %", "of B", "pairs", "seeds");
  for (const Group& group : groups) {
    const Difference difference = difference_of(group.pairs, outcome, points);
    if (groups.size() > 1 && difference.pairs > 0)
      print_row(group.name, width, difference, group.pairs.size());
  }
  print_row("all pairs", width, all, everything.size());
  return true;
}

/// Those that most sweeps are about.
std::vector<std::string> usual_outcomes(const Points& points) {
  std::vector<std::string> usual{"test_accuracy",        "test_auc",       "test_loss",
                                 "virtual_time_seconds", "bytes_per_step", "target_reached",
                                 "target_time_seconds"};
  std::erase_if(usual, [&](const std::string& name) {
    return std::ranges::find(points.outcomes, name) == points.outcomes.end();
  });
  return usual;
}

std::vector<std::size_t> numbers_of(const std::vector<std::string>& names, const Points& points) {
  std::vector<std::size_t> numbers;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(points.outcomes, name);
    if (found == points.outcomes.end()) {
      throw UsageError(fmt::format("{} is no outcome of the sweep{}; these are {}", name,
                                   did_you_mean(name, points.outcomes),
                                   fmt::join(points.outcomes, ", ")));
    }
    numbers.push_back(static_cast<std::size_t>(found - points.outcomes.begin()));
  }
  return numbers;
}

}  // namespace

void compare_settings(const std::string& folder, const std::string& a, const std::string& b,
                      const std::vector<std::string>& outcomes) {
  const Points points = read_points(folder);
  Choice first = read_setting(a, points), second = read_setting(b, points);
  const std::vector<std::size_t> own = points_of(first, points), others = points_of(second, points);
  first.merge(companions(own, others, points));
  second.merge(companions(others, own, points));
  std::set<std::size_t> out;
  for (const Choice* setting : {&first, &second}) {
    for (const auto& [key, value] : *setting) out.insert(key);
  }
  const std::vector<Group> groups = pair_up(own, others, out, points);
  if (std::ranges::any_of(own, [&](std::size_t p) { return std::ranges::count(others, p) > 0; }))
    throw UsageError(fmt::format("A and B share points: {}, and {}", a, b));
  if (groups.empty())
    throw Error(fmt::format("{}: no point of A has one of B that is alike in all else", folder));

  fmt::print("A: {} ({} points)\nB: {} ({} points)\n", describe(first, points), own.size(),
             describe(second, points), others.size());
  fmt::print(
      "differences of points that are alike in all else, means of the means of each seed, with "
      "Student's 95 % interval\nover seeds: what pairs of one seed have in common is drawn once\n");
  std::set<std::size_t> paired;
  for (const Group& group : groups) {
    for (const auto& [a_point, b_point] : group.pairs) paired.insert({a_point, b_point});
  }
  const auto is_alone = [&](std::size_t point) { return !paired.contains(point); };
  const auto left_out_a = std::ranges::count_if(own, is_alone);
  const auto left_out_b = std::ranges::count_if(others, is_alone);
  if (left_out_a + left_out_b > 0)
    fmt::print("without a partner that is alike in all else, and left out: {} of A, {} of B\n",
               left_out_a, left_out_b);
  bool is_any_known = false;
  for (const std::size_t outcome :
       numbers_of(outcomes.empty() ? usual_outcomes(points) : outcomes, points)) {
    is_any_known |= print_outcome(outcome, groups, points);
  }
  if (!is_any_known) fmt::print("\nno pair knows these outcomes\n");
}

}  // namespace starling
