// Census: while all ranks work, their counters are summed over and over. From the sums every rank
// learns the same, at the same count: that all have ended and no message is under way, that
// somebody failed, or that nothing can happen any more.
//
// Why two equal counts in a row prove a standstill (Mattern, "Algorithms for distributed
// termination detection", Distributed Computing 2, 1987, the four-counter method): a rank
// contributes to a count only after the one before is complete. If no rank has acted between its
// two contributions, all of them stood still at the moment between the counts; if moreover as many
// messages were received as sent, none is under way to wake anybody.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "sim/mpi/mpi_session.hpp"

namespace starling {

class Census {
 public:
  struct Counts {
    std::int64_t ended = 0;     // 1: no fibre of this rank will ever run again
    std::int64_t idle = 0;      // 1: nothing but a message can make this rank go on
    std::int64_t acted = 0;     // times that a fibre ran
    std::int64_t sent = 0;      // messages to other ranks
    std::int64_t received = 0;  // messages from other ranks
    std::int64_t failed = 0;    // 1: this rank has an error to tell
    std::int64_t interrupted = 0;
    std::int64_t reports = 0;   // that rank 0 has asked for (reports.hpp)
    std::int64_t restarts = 0;  // of the reports: how often it has lost what was told
    friend bool operator==(const Counts&, const Counts&) = default;
  };

  explicit Census(MpiSession& session);
  ~Census();

  /// Moves the count on; never waits. If one is due, this rank contributes `own`. Returns the sums
  /// over all ranks when a count is complete: all ranks get the same sums in the same order.
  std::optional<Counts> poll(const Counts& own);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace starling
