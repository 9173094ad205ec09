#include "sim/mpi/mpi_transport.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <list>
#include <new>
#include <utility>

#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/mpi/reports.hpp"

namespace starling {
namespace {

constexpr auto pulse_period = std::chrono::milliseconds(100);
constexpr auto to_wake_up = std::chrono::microseconds(60);            // at most, mostly
constexpr std::size_t floats_between_flushes = std::size_t{1} << 24;  // 64 MiB
constexpr std::size_t most_ranks_named = 8;

NodeBlock checked_block(MpiSession& session, NodeId nodes) {
  if (session.ranks() > nodes) {
    throw Error(session.share_failure(
        fmt::format("every rank must host a node, but there are {} ranks and only {} nodes",
                    session.ranks(), nodes)));
  }
  return block_of(session.rank(), session.ranks(), nodes);
}

[[noreturn]] void rethrow_for(const GradientWait& wait, const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    throw Error(
        fmt::format("gradient {} of node {}: {}", wait.draw, wait.fibre->node, error.what()));
  }
}

}  // namespace

MpiTransport::MpiTransport(Settings settings, MpiSession& session, ComputeGraph& graph,
                           const Workload& workload, GradientDuration duration)
    : Transport(settings.nodes, true),
      settings_(std::move(settings)),
      session_(session),
      graph_(graph),
      duration_(std::move(duration)),
      block_(checked_block(session, settings_.nodes)),
      channel_(session, graph, settings_.nodes),
      census_(session),
      worker_(workload) {
  if (!graph_.has_numbers() && !duration_) {
    throw Error(
        session.share_failure("a workload without numbers has no compute time of its own: over MPI "
                              "it needs the modelled one"));
  }
}

// --- What fibres ask for -------------------------------------------------------------------------

Time MpiTransport::real_time() const {
  if (!start_) return {};
  const auto passed = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - *start_);
  return Time{std::max(Duration{0}, Duration(passed))};
}

Time MpiTransport::read_clock(NodeId node) {
  const Time time = now();
  note(node, Act::clock(time));
  return time;
}

void MpiTransport::send(NodeId to, Message&& message) {
  const int rank = rank_of(to, session_.ranks(), settings_.nodes);
  if (rank != session_.rank()) return channel_.send(rank, to, message);
  ++statistics_.messages_within;
  arrived_.push_back({to, std::move(message)});
}

void MpiTransport::wake(Fibre& fibre, Time time) {
  push({std::max(time, now()), sequence_++, &fibre, 0});
}

void MpiTransport::start(Fibre& fibre) { wake(fibre, now()); }

void MpiTransport::push(const Event& event) {
  ++live_events_;
  events_.push_back(event);
  std::push_heap(events_.begin(), events_.end(), std::greater<>());
}

void MpiTransport::receive(ReceiveWait& wait) {
  mailbox_.enqueue(wait.fibre->node, wait);
  if (wait.has_deadline()) set_deadline(wait);
}

void MpiTransport::set_deadline(ReceiveWait& wait) {
  if (free_timers_.empty()) {
    free_timers_.push_back(static_cast<std::uint32_t>(timers_.size()));
    timers_.push_back(nullptr);
  }
  wait.timer = free_timers_.back();
  free_timers_.pop_back();
  timers_[wait.timer] = &wait;
  push({std::max(wait.deadline, now()), sequence_++, nullptr, wait.timer});
}

void MpiTransport::compute(GradientWait& wait, ReceiveWait& unless) {
  mailbox_.enqueue(wait.fibre->node, unless);
  begin(wait, &unless);
}

void MpiTransport::begin(GradientWait& wait, ReceiveWait* unless) {
  const Time begin = now();
  GradientWorker::Work work{&wait, unless, graph_.begin_gradient(wait.owner, wait.draw, wait.x),
                            begin, nullptr};
  wait.x = {};
  ++statistics_.gradients;
  if (!graph_.has_numbers()) {
    graph_.finish_gradient(work.job);
    wait.result = std::move(work.job.result);
    return end(wait, unless,
               after(begin, duration_(wait.fibre->node, wait.count, {wait.owner, wait.draw})));
  }
  note_made(graph_.parameters());
  ++gradients_under_way_;
  if (unless != nullptr) abandonable_.push_back(unless);
  worker_.submit(std::move(work));
}

void MpiTransport::end(const GradientWait& wait, ReceiveWait* unless, Time time) {
  if (unless == nullptr) return wake(*wait.fibre, time);
  unless->deadline = time;
  set_deadline(*unless);
}

// --- The scheduler's round -----------------------------------------------------------------------

void MpiTransport::run() {
  start_clock();
  Backoff backoff;
  for (watch_.reset();; watch_.look()) {
    bool something_happened = move_messages();
    if (failure_.empty() && !channel_.failure().empty()) {
      failure_ = fmt::format("rank {} of {} has no room for a message: {}", session_.rank(),
                             session_.ranks(), channel_.failure());
    }
    if (!is_late_ && now() > settings_.until) is_late_ = !settings_.is_done || !settings_.is_done();
    if (is_ending_ || !failure_.empty() || signal_ != 0 || is_late_) {
      arrived_.clear();
    } else {
      try {
        something_happened |= go_on();
      } catch (const Interrupted& interrupted) {
        signal_ = interrupted.signal();
      } catch (const std::bad_alloc&) {
        run_out_of_memory();
      } catch (const Halted& halted) {
        failure_ = halted.what();
        is_halted_ = true;
      } catch (const std::exception& error) {
        failure_ = error.what();
      }
    }
    if (settings_.reports != nullptr) something_happened |= settings_.reports->progress();
    if (take_census()) break;
    if (something_happened) {
      backoff.reset();
    } else {
      nap(backoff);
    }
  }
  // Everything has been received; MPI still has to tell the senders.
  for (Vigil vigil(session_); channel_.outstanding() > 0; vigil.pause()) move_messages();
  if (settings_.reports != nullptr) settings_.reports->finish();
  if (!is_ending_) return;
  is_cut_ = shared_failure_.empty() && shared_signal_ == 0;
  if (is_cut_) return;
  if (shared_failure_.empty()) throw Interrupted(shared_signal_);
  if (stands_still_) throw Stalled(shared_failure_);
  if (are_halted_) throw Halted(shared_failure_);
  throw Error(shared_failure_);
}

void MpiTransport::start_clock() {
  // Nobody is still in an earlier run, which would take our messages for its own.
  session_.barrier();
  const std::int64_t offset = session_.clock_offset().nanoseconds;
  session_.barrier();
  const std::chrono::nanoseconds here = Clock::now().time_since_epoch();
  const std::string zero = session_.broadcast(std::to_string(here.count()));
  start_ = Clock::time_point(std::chrono::nanoseconds(std::stoll(zero) - offset));
}

bool MpiTransport::move_messages() {
  try {
    return channel_.progress(arrived_);
  } catch (const std::bad_alloc&) {
    run_out_of_memory();
    return true;
  }
}

bool MpiTransport::go_on() {
  bool any = finish_gradients();
  any |= deliver_arrivals();
  any |= fire_events();
  give_pulse();
  return any;
}

bool MpiTransport::finish_gradients() {
  std::list<GradientWorker::Work> finished = worker_.take_finished();
  for (GradientWorker::Work& work : finished) {
    --gradients_under_way_;
    if (work.wait == nullptr) continue;  // abandoned
    std::erase(abandonable_, work.unless);
    GradientWait& wait = *work.wait;
    if (work.failure) rethrow_for(wait, work.failure);
    graph_.finish_gradient(work.job);
    wait.result = std::move(work.job.result);
    end(wait, work.unless, end_of(wait, work.begin));
  }
  return !finished.empty();
}

Time MpiTransport::end_of(const GradientWait& wait, Time begin) const {
  if (!duration_) return begin;
  const NodeId node = wait.fibre->node;
  try {
    return after(begin, duration_(node, wait.count, {wait.owner, wait.draw}));
  } catch (const Error& error) {  // a trace that is too short
    throw Halted(fmt::format("node {} at {:.6g} s: {}", node, to_seconds(begin), error.what()));
  }
}

bool MpiTransport::deliver_arrivals() {
  // Those that fibres of this rank send each other meanwhile have to wait for the next round.
  const std::size_t count = arrived_.size();
  for (std::size_t i = 0; i < count; ++i) {
    Arrival arrival = std::move(arrived_.front());
    arrived_.pop_front();
    note(arrival.to, Act::delivery(arrival.message.source, arrival.message.tag));
    if (arrival.message.values) note_made(arrival.message.values.size());
    ReceiveWait* wait = mailbox_.arrive(arrival.to, arrival.message);
    if (wait == nullptr) continue;
    if (wait->has_deadline()) {
      timers_[wait->timer] = nullptr;
      --live_events_;
    } else if (std::erase(abandonable_, wait) > 0) {
      worker_.abandon(*wait);
    }
    act(*wait->fibre);
  }
  return count > 0;
}

bool MpiTransport::fire_events() {
  const Time limit = now();
  bool any = false;
  while (!events_.empty() && events_.front().time <= limit) {
    std::pop_heap(events_.begin(), events_.end(), std::greater<>());
    const Event event = events_.back();
    events_.pop_back();
    fire(event);
    any = true;
  }
  return any;
}

void MpiTransport::fire(const Event& event) {
  if (event.fibre != nullptr) {
    --live_events_;
    note(event.fibre->node, Act::resume(event.fibre->number));
    return act(*event.fibre);
  }
  ReceiveWait* wait = timers_[event.timer];
  free_timers_.push_back(event.timer);
  if (wait == nullptr) return;
  --live_events_;
  mailbox_.withdraw(wait->fibre->node, *wait);
  wait->matched = static_cast<std::uint32_t>(wait->patterns.size());
  wait->network_since = now();
  note(wait->fibre->node, Act::deadline(wait->fibre->number));
  act(*wait->fibre);
}

void MpiTransport::act(Fibre& fibre) {
  ++acted_;
  resume(fibre);
}

void MpiTransport::note(NodeId node, const Act& act) {
  if (settings_.acts != nullptr) (*settings_.acts)[static_cast<std::size_t>(node)].push_back(act);
}

void MpiTransport::give_pulse() {
  if (!settings_.pulse || Clock::now() < next_pulse_) return;
  next_pulse_ = Clock::now() + pulse_period;
  settings_.pulse();
}

void MpiTransport::note_made(std::size_t floats) {
  // Rows that nobody holds any more are recycled when the graph runs; a node that only passes
  // messages on would never make it run.
  if (!graph_.has_numbers()) return;
  floats_made_ += floats;
  if (floats_made_ < floats_between_flushes) return;
  floats_made_ = 0;
  graph_.flush();
}

void MpiTransport::nap(Backoff& backoff) {
  const bool has_core = session_.has_core() && gradients_under_way_ == 0;
  if (has_core && channel_.is_moving()) backoff.reset();  // MPI moves bytes only while it is called
  std::chrono::nanoseconds nap = backoff.next(has_core);
  if (!events_.empty()) {
    const auto left =
        std::chrono::duration_cast<std::chrono::nanoseconds>(events_.front().time - now());
    nap = std::clamp(left - to_wake_up, std::chrono::nanoseconds(0), nap);
  }
  if (nap.count() == 0) return std::this_thread::yield();
  worker_.nap(nap);
}

// --- How it ends ---------------------------------------------------------------------------------

bool MpiTransport::is_idle() const {
  return gradients_under_way_ == 0 && live_events_ == 0 && arrived_.empty();
}

bool MpiTransport::take_census() {
  const bool has_failed = !failure_.empty();
  const bool has_ended = (active() == 0 && arrived_.empty()) || is_ending_;
  Census::Counts own{.ended = has_ended,
                     .idle = has_ended || is_idle(),
                     .acted = acted_,
                     .sent = channel_.sent(),
                     .received = channel_.received(),
                     .failed = has_failed,
                     .interrupted = signal_ != 0 || is_late_};
  if (settings_.reports != nullptr) settings_.reports->count(own);
  const std::optional<Census::Counts> counts = census_.poll(own);
  if (!counts) return false;
  watch_.reset();
  if (settings_.reports != nullptr) settings_.reports->hear(*counts);
  const bool stood_still = counts == std::exchange(last_counts_, counts);
  const bool nothing_under_way = counts->sent == counts->received;
  if (!is_ending_ && counts->failed + counts->interrupted > 0) {
    share_ending(false);
  } else if (counts->ended == session_.ranks()) {
    return nothing_under_way;
  } else if (!is_ending_ && stood_still && nothing_under_way && counts->idle == session_.ranks()) {
    share_ending(true);
  }
  return false;
}

void MpiTransport::run_out_of_memory() {
  const bool has_reserve = settings_.reserve != nullptr && *settings_.reserve;
  if (has_reserve) settings_.reserve->reset();
  if (failure_.empty()) {
    failure_ = session_.out_of_memory();
  } else if (!has_reserve) {
    throw std::bad_alloc();
  }
}

void MpiTransport::share_ending(bool is_standstill) {
  is_ending_ = true;
  stands_still_ = is_standstill;
  if (is_standstill) {
    std::string all;
    std::size_t named = 0;
    for (const std::string& waiting : session_.gather(describe_waiting(unfinished_nodes()))) {
      if (waiting.empty() || ++named > most_ranks_named) continue;
      all += (all.empty() ? "" : "; ") + waiting;
    }
    if (named > most_ranks_named)
      all += fmt::format("; and nodes of {} more ranks", named - most_ranks_named);
    failure_ =
        session_.rank() == 0 ? fmt::format("deadlock at {:.6g} s: {}", to_seconds(now()), all) : "";
  }
  shared_failure_ = session_.share_failure(failure_);
  are_halted_ = session_.largest(!failure_.empty() && !is_halted_ ? 1 : 0) == 0;
  shared_signal_ = static_cast<int>(session_.largest(signal_));
}

MpiTransport::Statistics MpiTransport::statistics() const {
  Statistics statistics = statistics_;
  statistics.messages_sent = channel_.sent();
  statistics.messages_received = channel_.received();
  return statistics;
}

}  // namespace starling
