// The tables of a sweep: one line per finished point, and one per combination of settings with mean and spread over
// seeds. Plots and reports read nothing else of a sweep but these and the results files.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "scenarios/sweep.hpp"
#include "sim/record/facts.hpp"
#include "tools/summary.hpp"

namespace starling {

/// Where the results of a point lie.
std::filesystem::path results_of(const std::filesystem::path& folder, const SweepPoint& point);

/// What is known of the points of a sweep. Refers to the sweep.
class SweepTable {
 public:
  SweepTable(const Sweep& sweep, std::filesystem::path folder);

  /// Whether the results file of a point is there and says that its run is complete. A file that does is read once.
  bool is_finished(std::size_t point);

  /// Which file has changed since finished points have read it, and which these are; "" if none has. One that is gone has not.
  std::string changed_file();

  /// How many finished points another version of the program has run, and which; "" if none.
  std::string other_version(const std::string& own);

  /// What is to be said of finished points: which seem to have diverged, of which nodes end far apart; a sentence each.
  std::vector<std::string> warnings() const;

  /// Writes, from the finished points,
  ///   points.csv   point, every swept key, then every outcome (tools/summary.hpp)
  ///   table.csv    every swept key but the seed, runs, then of every outcome mean and standard deviation (n - 1; empty
  ///                for one run)
  ///   table.h5     both as groups /points and /table, a data set per column: keys are texts, the rest float64, NaN
  ///                where the CSV is empty (sim/record/table_file.hpp). /points has the attribute `planned`: how many points the
  ///                sweep has, finished or not
  /// The same sweep gives the same bytes. Returns the number of finished points.
  std::size_t write();

 private:
  struct Finished {
    std::vector<Outcome> outcomes;
    std::string version;          // of the program
    std::string folder;           // that it was started in
    std::vector<FileRead> files;  // that it has read
    std::string divergence;       // a sign of it, or ""
    std::string ends_apart;       // see there
  };

  const Sweep& sweep_;
  std::filesystem::path folder_;
  std::vector<std::optional<Finished>> finished_;  // every point, as far as known
};

}  // namespace starling
