// MpiSession: MPI from start to end, and the few things that all ranks do together outside a run.
// Nobody above sees mpi.h. Every wait in here naps between looks: many ranks may share a core.
//
// Lost ranks: who waits longer than limit_waits() allows calls all others; those that do not answer are lost, and the
// others go on to the end without them, where they answer, too. `keeper()` is then the one that saves what there is.
//
// How a failure ends: run() of the transport fails on all ranks alike. Anything else that fails on
// one rank only must not leave the others waiting: the session's end is a meeting of all ranks, and
// a failing rank that waits there in vain for a few seconds (for the patience, if all ranks share the
// failure, because one of them may be saving results) ends them all by MPI_Abort. So the one
// `catch` belongs inside the session's life: it prints if speaks() says so, then calls fail().
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/backoff.hpp"
#include "sim/node/peers.hpp"

namespace starling {

/// Throws Error with the system's words unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* call);

inline constexpr std::size_t largest_piece = std::size_t{1} << 30;  // MPI counts in int

/// Calls f(data, count) for consecutive pieces that MPI can count.
template <class Byte, class F>
void for_each_piece(Byte* bytes, std::size_t size, F f) {
  for (std::size_t at = 0; at < size; at += largest_piece) {
    f(bytes + at, static_cast<int>(std::min(largest_piece, size - at)));
  }
}

class MpiSession {
 public:
  /// Starts MPI; one per process. Throws Error if MPI cannot live beside other threads
  /// (MPI_THREAD_FUNNELED). The thread that calls this is the only one that may use the session, a
  /// channel or a transport; but see may_change_threads().
  MpiSession();
  /// Ends MPI, after all ranks have come here; see above for failures.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// Whether this process was started by mpirun or its like.
  static bool is_launched();

  /// Whether threads may use it one after the other (MPI_THREAD_SERIALIZED).
  bool may_change_threads() const { return may_change_threads_; }

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  /// Ranks on this host, and which of them this one is, from 0.
  int ranks_here() const { return ranks_here_; }
  int rank_here() const { return rank_here_; }
  /// Cores of this host for each of them, at least 1.
  int cores_per_rank() const { return std::max(1, cores_here_ / ranks_here_); }
  /// Whether there is one for each.
  bool has_core() const { return ranks_here_ <= cores_here_; }
  /// What ranks tell of this one when it has no memory left.
  std::string out_of_memory() const;
  /// Hosts, if each has as many ranks as this one.
  int hosts() const { return (ranks_ + ranks_here_ - 1) / ranks_here_; }

  // --- What all ranks do together; each must call, in the same order -----------------------------

  void barrier();
  /// On rank 0 everybody's bytes, by rank; nothing elsewhere.
  std::vector<std::string> gather(std::string_view bytes);
  /// Rank 0's bytes, on every rank; what the others hand in is ignored.
  std::string broadcast(std::string bytes);
  /// The largest of everybody's numbers, on every rank.
  std::int64_t largest(std::int64_t number);
  /// Tells all ranks of a failure: the text of the lowest rank that has one, on every rank; empty
  /// if all is well.
  std::string share_failure(std::string_view own);

  /// What to add to this rank's steady clock (ns) to get rank 0's, and how far off that can be.
  struct ClockOffset {
    std::int64_t nanoseconds = 0;
    std::int64_t error = 0;
  };
  /// Zero if all ranks share a host, else measured. Clocks that drift apart later are not followed.
  ClockOffset clock_offset();
  /// By ping-pong with rank 0, one rank after the other: half of the shortest of `rounds` round
  /// trips bounds the error.
  ClockOffset measure_clock_offset(int rounds);

  // --- Between two ranks; in order, of the size that was sent ------------------------------------

  void send(int to, std::span<const std::byte> bytes);
  void receive(int from, std::span<std::byte> bytes);
  /// Bytes whose size only the sender knows.
  void send_text(int to, std::string text);
  std::string receive_text(int from);

  // --- Failures ----------------------------------------------------------------------------------

  /// This rank has failed: do not wait for the others for ever at the end.
  void fail() { is_failed_ = true; }
  /// All ranks have failed, and know it.
  void fail_together() { failure_is_shared_ = is_failed_ = true; }
  /// So have they, but this one has failed once more, and the others may wait for it.
  void fail_alone() { failure_is_shared_ = false, is_failed_ = true; }
  /// Whether all ranks know of a failure.
  bool has_failed_together() const { return failure_is_shared_; }
  /// Whether this rank should print the error it caught: not if all ranks share it and another one
  /// prints.
  bool speaks() const { return rank_ == keeper() || !failure_is_shared_; }

  using Clock = std::chrono::steady_clock;

  /// From now on no wait for other ranks lasts longer than `patience`. Once `interruption`, if there
  /// is one, gives a signal, it ends within a second: mpirun sends one to all ranks when it has
  /// noticed that one died, and kills them a second later. Forgets signals of before.
  void limit_waits(std::chrono::nanoseconds patience, std::function<int()> interruption);
  /// No signal ends waits any more.
  void ignore_signals() {
    interruption_ = nullptr;
    signal_ = 0;
  }
  /// This rank has told all that it knows, and may wait for one that works on it: it calls nobody any more, but answers.
  void be_patient();
  /// After a failure, those that are left: what they send each other from now on meets nothing of before, of which some was
  /// perhaps sent and never received.
  void gather_the_rest() { gathers_the_rest_ = true; }
  /// To be called now and then while this rank waits for others, as it has for so long. Throws Lost.
  void watch(Clock::duration waited);
  bool is_lost(int rank) const { return is_lost_[static_cast<std::size_t>(rank)]; }
  /// The lowest rank that is not lost: it keeps the results.
  int keeper() const;

  /// Communicators of their own, so that nobody's messages meet another's; Fortran handles
  /// (MPI_Comm_f2c).
  int messages_communicator() const;
  int census_communicator() const;
  int reports_communicator() const;

 private:
  struct Communicators;
  struct Buffers;

  Buffers& buffers();
  int tag_of_bytes() const;
  bool all_leave();
  /// Whether a message about lost ranks waits.
  bool has_message(int tag);
  [[noreturn]] void lose();
  /// Whether this process was asked to end.
  bool has_signal();

  int rank_ = 0;
  int ranks_ = 1;
  int ranks_here_ = 1;
  int cores_here_ = 1;
  int rank_here_ = 0;
  int exceptions_at_start_ = 0;
  bool may_change_threads_ = false;
  bool is_failed_ = false;
  bool failure_is_shared_ = false;
  bool gathers_the_rest_ = false;
  std::chrono::nanoseconds patience_ = std::chrono::nanoseconds::max();
  std::function<int()> interruption_;
  Clock::time_point last_look_{};
  int signal_ = 0;
  Clock::duration since_signal_{};  // while this rank was awake and waited
  std::vector<bool> is_lost_;       // (ranks)
  bool has_lost_ = false;
  std::unique_ptr<Communicators> communicators_;
};

/// How long this rank has waited for others.
class Watch {
 public:
  explicit Watch(MpiSession& session) : session_(session) {}
  /// The others are alive.
  void reset() { waited_ = {}; }
  /// Throws Lost. From one look to the next no more than a second counts: what keeps this rank away, or the whole job,
  /// is no sign that others are lost.
  void look() {
    const auto now = Clock::now();
    waited_ += std::min<Clock::duration>(now - last_look_, std::chrono::seconds(1));
    last_look_ = now;
    session_.watch(waited_);
  }

 private:
  using Clock = MpiSession::Clock;
  MpiSession& session_;
  Clock::duration waited_{};
  Clock::time_point last_look_ = Clock::now();
};

/// A wait for other ranks: naps between looks, and ends when one of them is lost.
class Vigil {
 public:
  explicit Vigil(MpiSession& session, Backoff backoff = Backoff())
      : backoff_(backoff), watch_(session) {}
  void pause() {
    backoff_.pause();
    watch_.look();
  }

 private:
  Backoff backoff_;
  Watch watch_;
};

}  // namespace starling
