// Reports: while the ranks of a run work, rank 0 gets now and then what all have recorded since the last time, to save it. It
// asks by the census (census.hpp), so all ranks learn of it at the same count, and a run that ends leaves no report under
// way. Nothing but finish() waits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/mpi/census.hpp"
#include "sim/mpi/mpi_session.hpp"
#include "sim/mpi/node_block.hpp"
#include "sim/record/recorder.hpp"

namespace starling {

class Reports {
 public:
  /// Of the nodes of `block`, from this rank's `recorder`. Session and recorder outlive the reports.
  Reports(MpiSession& session, NodeBlock block, const Recorder& recorder);
  ~Reports();

  // --- Rank 0 --------------------------------------------------------------------------------------

  /// Asks all for a report, unless those asked for have not been taken.
  void ask();
  /// Those asked for, by rank, for unpack_records(); none unless all are there. Throws Error, once, if a rank had no room for
  /// its report, or rank 0 for the others'; then only restart() leads to whole ones.
  std::vector<std::string> take();
  /// What was told so far is lost: the next reports begin anew.
  void restart();

  // --- Every rank ----------------------------------------------------------------------------------

  /// Adds to `own` what rank 0 asks for.
  void count(Census::Counts& own) const;
  /// Reports, if the sums of a census say that it is asked for.
  void hear(const Census::Counts& sums);
  /// Moves reports on. True if anything happened.
  bool progress();
  /// Waits until no report is under way, to or from this rank.
  void finish();
  /// Whether any have been asked for.
  bool have_begun() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace starling
