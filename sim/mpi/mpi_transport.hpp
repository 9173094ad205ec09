// MpiTransport: nodes live on the ranks of an MPI job, in real time. One thread per rank, the
// caller of run(), owns MPI and all fibres; gradients run on a worker thread, so a rank serves
// messages while it computes. A rank hosts a block of consecutive nodes; messages within a rank
// bypass MPI.
//
// The scheduler's round: move transfers on, resume whom a finished gradient, a message or the clock
// lets go on, take part in the census (census.hpp), nap if nothing happened.
//
// However a run ends, it ends on all ranks alike: when every fibre has ended and no message is
// under way; when all fibres wait for messages that nobody can send any more; when a fibre fails or
// `pulse` throws on any rank.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/backoff.hpp"
#include "sim/base/memory.hpp"
#include "sim/mpi/census.hpp"
#include "sim/mpi/gradient_worker.hpp"
#include "sim/mpi/mpi_channel.hpp"
#include "sim/mpi/mpi_session.hpp"
#include "sim/mpi/node_block.hpp"
#include "sim/node/compute_graph.hpp"
#include "sim/node/transport.hpp"
#include "sim/record/act.hpp"

namespace starling {

class Reports;

class MpiTransport final : public Transport {
 public:
  struct Settings {
    NodeId nodes;
    /// When the run ends on all ranks, unless is_done() says that nothing is left on any that counts; some steps may still end
    /// some milliseconds later.
    Time until = Time::max();
    std::function<bool()> is_done = {};
    /// Called several times a second; may throw to end the run on all ranks (Interrupted).
    std::function<void()> pulse;
    /// (nodes); what happens to each node of this rank is noted here, in order, for a replay. Null:
    /// nothing is noted. Messages of one (source, tag) come in the order they were sent, so the pair
    /// alone tells which message it was.
    std::vector<std::vector<Act>>* acts = nullptr;
    /// What ranks tell rank 0 meanwhile; outlives the transport. Null: nothing.
    Reports* reports = nullptr;
    /// Given up once this rank is out of memory, so that it can tell the others; outlives the transport. Null: there is none.
    Zeros* reserve = nullptr;
  };

  struct Statistics {
    std::int64_t messages_sent = 0;      // to other ranks
    std::int64_t messages_received = 0;  // from other ranks
    std::int64_t messages_within = 0;    // between nodes of this rank
    std::int64_t gradients = 0;
  };

  /// All ranks make theirs together. `graph` executes inline and, with `session` and `workload`,
  /// outlives the transport. `duration` is the modelled compute time: a gradient takes that long,
  /// or longer if its kernel does (or has to wait: gradients of one rank's nodes run one after the
  /// other). Without it a gradient takes what it takes. Throws Error on every rank if there are
  /// more ranks than nodes, or neither numbers nor `duration`.
  MpiTransport(Settings settings, MpiSession& session, ComputeGraph& graph,
               const Workload& workload, GradientDuration duration);

  /// The nodes whose fibres are to be spawned here.
  NodeBlock block() const { return block_; }

  /// Runs until every fibre on every rank has ended, or `until`. All ranks call it together, once, and it
  /// throws the same on all of them: Halted when a program failed anywhere, another Error when something else did (the numbers, a
  /// rank's memory), Stalled when all of them wait for each other, Interrupted when a pulse threw that. Afterwards no message is
  /// under way, whatever happened, and the session can be used.
  void run();
  /// Whether the run ended at `until`.
  bool is_cut() const { return is_cut_; }

  Statistics statistics() const;

  Time read_clock(NodeId node) override;
  void send(NodeId to, Message&& message) override;
  void receive(ReceiveWait& wait) override;
  void compute(GradientWait& wait) override { begin(wait, nullptr); }
  /// A gradient that is under way when it is abandoned is computed nevertheless: those of this rank that come next wait for that.
  void compute(GradientWait& wait, ReceiveWait& unless) override;
  void wake(Fibre& fibre, Time time) override;
  bool meet(MeetWait&) override { return false; }
  bool announce(NodeId, Tag, double) override { return false; }

 private:
  /// A fibre that goes on, or a receive whose deadline passes (then `fibre` is null), at `time`.
  struct Event {
    Time time;
    std::int64_t sequence;
    Fibre* fibre;
    std::uint32_t timer;
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : sequence > other.sequence;
    }
  };
  using Clock = std::chrono::steady_clock;

  void start_clock();
  bool move_messages();
  bool go_on();
  void begin(GradientWait& wait, ReceiveWait* unless);
  bool finish_gradients();
  /// Who waits for a gradient that is there goes on at `time`, unless a message comes before.
  void end(const GradientWait& wait, ReceiveWait* unless, Time time);
  void set_deadline(ReceiveWait& wait);
  /// When a gradient that is computed ends, by its modelled duration.
  Time end_of(const GradientWait& wait, Time begin) const;
  bool deliver_arrivals();
  bool fire_events();
  void start(Fibre& fibre) override;
  Time real_time() const override;
  void push(const Event& event);
  void fire(const Event& event);
  void act(Fibre& fibre);
  void note(NodeId node, const Act& act);
  void give_pulse();
  void note_made(std::size_t floats);
  bool is_idle() const;
  /// Takes part in the census; true when the run is over everywhere.
  bool take_census();
  /// This rank fails, and gives up what was set aside. Throws std::bad_alloc if it has failed before, and has nothing left.
  void run_out_of_memory();
  /// All ranks learn how the run ends; from here on nobody's fibres run.
  void share_ending(bool is_standstill);
  void nap(Backoff& backoff);

  Settings settings_;
  MpiSession& session_;
  ComputeGraph& graph_;
  const GradientDuration duration_;
  const NodeBlock block_;
  MpiChannel channel_;
  Census census_;
  std::deque<Arrival> arrived_;  // to be delivered, in order

  std::optional<Clock::time_point> start_;  // of time zero, on this rank's clock
  std::vector<Event> events_;               // a heap, soonest first
  std::int64_t sequence_ = 0;
  std::int64_t live_events_ = 0;      // without those of receives that have been served
  std::vector<ReceiveWait*> timers_;  // null: the receive was served before its deadline
  std::vector<std::uint32_t> free_timers_;
  Clock::time_point next_pulse_{};
  Watch watch_{session_};        // reset by each census
  std::size_t floats_made_ = 0;  // since the graph was last flushed

  std::int64_t acted_ = 0;
  std::int64_t gradients_under_way_ = 0;
  std::vector<const ReceiveWait*> abandonable_;  // that wait beside some of these
  std::optional<Census::Counts> last_counts_;
  std::string failure_;         // of this rank
  bool is_halted_ = false;      // it is one of a program alone
  int signal_ = 0;              // that interrupted this rank
  bool is_late_ = false;        // this rank has seen `until`
  bool is_ending_ = false;      // all ranks know that the run ends early
  bool stands_still_ = false;   // because all wait for each other
  bool are_halted_ = false;     // programs alone have failed, anywhere
  std::string shared_failure_;  // why; empty: interrupted, or else cut
  int shared_signal_ = 0;
  bool is_cut_ = false;

  Statistics statistics_;
  GradientWorker worker_;  // last: its thread ends first
};

}  // namespace starling
