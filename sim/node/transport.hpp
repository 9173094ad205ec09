// Transport: where nodes live. Passes time, carries messages, decides when a fibre goes on. Simulated
// (sim/engine) or real (sim/mpi); no program can tell which.
//
// Fibres are resumed from the transport's own loop only, never from inside another fibre.
#pragma once

#include <coroutine>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/time.hpp"
#include "sim/node/fibre.hpp"
#include "sim/node/host.hpp"
#include "sim/node/mailbox.hpp"
#include "sim/node/rendezvous.hpp"

namespace starling {

/// Duration of the gradient that a node computes at its local step, of that batch: the compute-time model.
using GradientDuration = std::function<Duration(NodeId node, Step step, BatchName batch)>;

/// "tag 7", or "reply, tag 7" of another channel than the programs' own.
std::string describe_tag(Tag tag);

class Transport {
 public:
  virtual ~Transport() = default;

  Time now() const { return is_real_ ? real_time() : now_; }
  /// The time as a program of `node` asks for it; not now() in a simulation that repeats a real run, see Act.
  virtual Time read_clock(NodeId) { return now(); }
  /// Carries `message` (source set) to `to`; never blocks.
  virtual void send(NodeId to, Message&& message) = 0;
  /// Suspends until a message matches. The mailbox has been asked: nothing suitable has arrived yet.
  virtual void receive(ReceiveWait& wait) = 0;
  /// Whether what `node` has sent by `tag` must be through before it goes on, and is not.
  virtual bool is_sending(NodeId, Tag) const { return false; }
  /// Suspends until it is.
  virtual void finish_sends(TimedWait&, Tag) {}
  /// Posts receives for all that is sent to `node` by `tag`, until rendezvous() closes them; only where there is one.
  virtual void post(NodeId, Tag) {}
  /// A program polls for a message that has not arrived; the same.
  virtual void ask(NodeId, const Pattern&) {}
  /// Suspends while the gradient is computed. A simulated one is best recorded late, beside the sums that read it.
  virtual void compute(GradientWait& wait) = 0;
  /// The same, until a message matches `unless`, of the same fibre: then that has it, and the gradient is abandoned. The mailbox
  /// has been asked.
  virtual void compute(GradientWait& wait, ReceiveWait& unless) = 0;
  /// Resumes a suspended fibre at `time`; at once, in the order of calls, if that is not later than now.
  virtual void wake(Fibre& fibre, Time time) = 0;
  /// When `node` has done work of that duration, begun at `begin`; later than after() says if it is away meanwhile.
  virtual Time finish(NodeId, Time begin, Duration work) { return after(begin, work); }
  /// Suspends until all members met and the closed-form cost has passed. Returns false, and does nothing, where
  /// messages are really exchanged one by one: the caller then runs the collective itself.
  virtual bool meet(MeetWait& wait) = 0;
  /// Sends an empty message (`tag`, `number`) from `source` to every other node along binomial trees in closed
  /// form. Numbers of a tag grow; one that is not newer than the newest has been announced already and is left
  /// out. Returns false, and does nothing, where the caller must send the messages itself.
  virtual bool announce(NodeId source, Tag tag, double number) = 0;

  /// Starts a fibre, in the order of calls, from the transport's loop. `number`: how many the node had before.
  void spawn(NodeId node, std::int32_t number, Task<> task);
  /// Notes where the fibre that runs goes on, and since when it waits; every awaiter calls it before it hands itself to the
  /// transport.
  Fibre& suspend(std::coroutine_handle<> handle, bool is_computing = false) {
    current_->handle = handle;
    if (!suspended_.empty() && current_->is_program()) [[unlikely]]
      suspended_[static_cast<std::size_t>(current_->node)] = {now(), is_computing};
    return *current_;
  }
  void suspend(TimedWait& wait, std::coroutine_handle<> handle, bool is_computing = false) {
    wait.fibre = &suspend(handle, is_computing);
    wait.since = now();
  }
  /// What a program that has not ended does: computes, or waits.
  struct Suspended {
    Time since = Time::max();  // never: it did neither yet
    bool is_computing = false;
  };
  /// Has suspended() know, in a run that may end before its programs; before they begin.
  void keep_suspended() { suspended_.resize(static_cast<std::size_t>(nodes_)); }
  /// The same of every node whose program has not ended.
  std::vector<std::pair<NodeId, Suspended>> suspended() const;
  /// The fibre that runs now.
  Fibre* current() const { return current_; }
  /// The node whose fibre runs, or ran last.
  const NodeId& running() const { return running_; }
  Mailbox& mailbox() { return mailbox_; }
  /// Which messages wait for their receivers; null where none does, as over MPI, which agrees by itself.
  Rendezvous* rendezvous() const { return rendezvous_.get(); }
  /// What exchanging costs beside the network; null where real machines take their own time.
  Host* host() const { return host_; }
  /// Fibres that have not ended.
  std::size_t active() const { return fibres_.size() - free_fibres_.size(); }

 protected:
  Transport(NodeId nodes, bool is_real) : mailbox_(nodes), nodes_(nodes), is_real_(is_real) {}

  /// Begins a fibre later, from the transport's loop, behind what is due now.
  virtual void start(Fibre& fibre) = 0;
  /// Only of real transports.
  virtual Time real_time() const { return now_; }
  /// Lets a fibre run until it waits again; frees it when it has ended. What it throws is rethrown as Halted with node and
  /// time added; but for what ends the run by itself (Interrupted, Diverged, Lost) and std::bad_alloc, which pass as they are.
  void resume(Fibre& fibre) {
    current_ = &fibre;
    running_ = fibre.node;
    fibre.handle.resume();
    current_ = nullptr;
    if (fibre.task.is_done()) end(fibre);
  }
  /// Nodes with fibres that have not ended, sorted.
  std::vector<NodeId> unfinished_nodes() const;
  /// Who of `nodes` waits for whom, and since when: for the error that a stall ends in.
  std::string describe_waiting(const std::vector<NodeId>& nodes) const;

  Mailbox mailbox_;
  Host* host_ = nullptr;
  std::unique_ptr<Rendezvous> rendezvous_;
  Time now_{};                // virtual time, if time is virtual
  std::deque<Fibre> fibres_;  // an ended one has no task and is used again

 private:
  void end(Fibre& fibre);

  std::vector<Fibre*> free_fibres_;   // those that have ended
  std::vector<Suspended> suspended_;  // (nodes); empty unless they are kept
  NodeId nodes_;
  bool is_real_;  // time passes by itself: real_time() tells it
  Fibre* current_ = nullptr;
  NodeId running_ = 0;
};

}  // namespace starling
