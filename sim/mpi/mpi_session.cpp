#include "sim/mpi/mpi_session.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <limits>
#include <thread>
#include <utility>

#include <fmt/core.h>
#include <mpi.h>
#include <sched.h>

#include "sim/base/backoff.hpp"
#include "sim/mpi/short_turns.hpp"

namespace starling {
namespace {

using Clock = MpiSession::Clock;

constexpr auto farewell = std::chrono::seconds(5);
constexpr auto while_keeper_saves = std::chrono::minutes(1);
constexpr auto endless = std::chrono::hours(24 * 365);
constexpr auto between_looks = std::chrono::milliseconds(5);
// Of the second that mpirun leaves after its signal.
constexpr auto after_signal = std::chrono::milliseconds(500);
constexpr auto call_after_signal = std::chrono::milliseconds(200);
constexpr auto call = std::chrono::seconds(2);
// From one look to the next; more is time for which this process, or the whole machine, stood still, or others had the processor.
constexpr auto longest_awake = 2 * between_looks;
constexpr int bytes_tag = 1;
constexpr int clock_tag = 2;
constexpr int call_tag = 3;
constexpr int verdict_tag = 4;
constexpr int bytes_of_the_rest_tag = 5;
constexpr int ping_pongs = 30;

Clock::duration awake(Clock::duration since_look) {
  return std::min<Clock::duration>(since_look, longest_awake);
}

void wait(MpiSession& session, MPI_Request request) {
  for (Vigil vigil(session);; vigil.pause()) {
    int is_done = 0;
    check_mpi(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    if (is_done) return;
  }
}

/// Of a receive. The memory may end with the wait, so nothing shall be written there after a rank is lost.
void wait_to_receive(MpiSession& session, MPI_Request request) {
  try {
    wait(session, request);
  } catch (const Lost&) {
    MPI_Cancel(&request);
    MPI_Request_free(&request);
    throw;
  }
}

std::int64_t clock_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

/// Cores that at least one rank of `host` may run on. Where they are bound, each knows its own alone.
int count_cores(MPI_Comm host) {
  std::array<cpu_set_t, 16> own{};  // room for 16,384
  sched_getaffinity(0, sizeof(own), own.data());
  std::array<cpu_set_t, 16> all{};
  check_mpi(MPI_Allreduce(own.data(), all.data(), sizeof(own), MPI_BYTE, MPI_BOR, host),
            "MPI_Allreduce");
  return std::max(CPU_COUNT_S(sizeof(all), all.data()), 1);
}

}  // namespace

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) [[likely]]
    return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(
      fmt::format("{} failed: {}", call, std::string_view(text, static_cast<std::size_t>(length))));
}

/// Of the wait under way. MPI cannot take back what it has begun, and goes on reading and writing here after a rank was lost.
struct MpiSession::Buffers {
  std::int64_t number = 0;
  std::int64_t most = 0;
  std::uint64_t size = 0;
  std::string text;
};

struct MpiSession::Communicators {
  MPI_Comm control = MPI_COMM_NULL;                 // the session's own
  MPI_Comm messages = MPI_COMM_NULL;                // messages of nodes
  MPI_Comm census = MPI_COMM_NULL;                  // counts of a run
  MPI_Comm reports = MPI_COMM_NULL;                 // what ranks record
  MPI_Comm farewell = MPI_COMM_NULL;                // the end
  std::vector<std::pair<char, MPI_Request>> calls;  // to and from each rank
  std::array<Buffers, 2> buffers;                   // until a rank is lost, and after that
};

MpiSession::MpiSession()
    : exceptions_at_start_(std::uncaught_exceptions()),
      communicators_(std::make_unique<Communicators>()) {
  take_short_turns();
  // By default Open MPI puts large messages over TCP, and asks for that in the stream that carries
  // the data of the other direction: two ranks that exchange models then do so one after the other.
  setenv("OMPI_MCA_btl_tcp_flags", "send,inplace,need-ack,need-csum", 0);
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  if (provided < MPI_THREAD_FUNNELED) {
    MPI_Finalize();
    throw Error(
        "this MPI cannot be used beside other threads: expected MPI_THREAD_FUNNELED, found "
        "MPI_THREAD_SINGLE");
  }
  may_change_threads_ = provided >= MPI_THREAD_SERIALIZED;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &ranks_), "MPI_Comm_size");
  is_lost_.resize(static_cast<std::size_t>(ranks_));
  for (MPI_Comm* communicator :
       {&communicators_->control, &communicators_->messages, &communicators_->census,
        &communicators_->reports, &communicators_->farewell}) {
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, communicator), "MPI_Comm_dup");
  }
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(
      MPI_Comm_split_type(communicators_->control, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
      "MPI_Comm_split_type");
  check_mpi(MPI_Comm_size(host, &ranks_here_), "MPI_Comm_size");
  check_mpi(MPI_Comm_rank(host, &rank_here_), "MPI_Comm_rank");
  cores_here_ = count_cores(host);
  check_mpi(MPI_Comm_free(&host), "MPI_Comm_free");
}

std::string MpiSession::out_of_memory() const {
  return fmt::format("rank {} of {} is out of memory", rank_, ranks_);
}

MpiSession::~MpiSession() {
  if (!all_leave()) MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  MPI_Finalize();
}

bool MpiSession::all_leave() {
  if (has_lost_) {
    // Whatever MPI still had to receive has no place any more, so it gets no turn. The keeper has saved by now.
    if (rank_ != keeper()) std::this_thread::sleep_for(while_keeper_saves);
    return false;
  }
  const bool is_failing = is_failed_ || std::uncaught_exceptions() > exceptions_at_start_;
  // Who shares a failure comes here, too, but the keeper saves first, and a slow disk takes its time.
  const auto limit =
      failure_is_shared_ ? std::max<std::chrono::nanoseconds>(farewell, patience_) : farewell;
  const auto began = Clock::now();
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Ibarrier(communicators_->farewell, &request) != MPI_SUCCESS) return false;
  for (Backoff backoff;; backoff.pause()) {
    int is_done = 0;
    if (MPI_Test(&request, &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    if (is_done) return true;
    if (is_failing && Clock::now() - began > limit) return false;
    try {
      if (patience_ != std::chrono::nanoseconds::max() && has_message(call_tag)) lose();  // answers
    } catch (const Error&) {
      return has_lost_ && all_leave();
    }
  }
}

// --- Lost ranks ----------------------------------------------------------------------------------

void MpiSession::limit_waits(std::chrono::nanoseconds patience, std::function<int()> interruption) {
  patience_ = patience;
  interruption_ = std::move(interruption);
  signal_ = 0;
}

void MpiSession::be_patient() {
  if (patience_ != std::chrono::nanoseconds::max()) patience_ = endless;
}

void MpiSession::watch(Clock::duration waited) {
  const auto now = Clock::now();
  const auto since_look = now - last_look_;
  if (patience_ == std::chrono::nanoseconds::max() || since_look < between_looks ||
      waited < between_looks)
    return;
  last_look_ = now;
  bool is_over = waited > patience_;
  if (has_signal()) {
    since_signal_ += awake(since_look);
    is_over = is_over || std::min(waited, since_signal_) > after_signal;
  }
  if (is_over || has_message(call_tag)) lose();
}

bool MpiSession::has_signal() {
  if (signal_ == 0 && interruption_) {
    signal_ = interruption_();
    since_signal_ = {};
  }
  return signal_ != 0;
}

bool MpiSession::has_message(int tag) {
  int is_there = 0;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, tag, communicators_->farewell, &is_there, MPI_STATUS_IGNORE),
            "MPI_Iprobe");
  return is_there != 0;
}

void MpiSession::lose() {
  if (std::exchange(has_lost_, true))
    throw Lost("one more rank was lost while results were gathered");
  failure_is_shared_ = is_failed_ = true;
  // Who comes here calls all others, and who is called comes here.
  auto& calls = communicators_->calls;
  calls.resize(2 * is_lost_.size());
  for (int other = 0; other < ranks_; ++other) {
    if (other == rank_) continue;
    auto& [sent, sending] = calls[2 * static_cast<std::size_t>(other)];
    auto& [heard, hearing] = calls[2 * static_cast<std::size_t>(other) + 1];
    check_mpi(MPI_Isend(&sent, 1, MPI_CHAR, other, call_tag, communicators_->farewell, &sending),
              "MPI_Isend");
    check_mpi(MPI_Irecv(&heard, 1, MPI_CHAR, other, call_tag, communicators_->farewell, &hearing),
              "MPI_Irecv");
    is_lost_[static_cast<std::size_t>(other)] = true;
  }
  // A signal that comes meanwhile hastens all: who has seen it does not wait long for who has not.
  Clock::duration called{};
  auto last = Clock::now();
  const auto is_over = [&] {
    const auto now = Clock::now();
    called += awake(now - std::exchange(last, now));
    return called > (has_signal() ? Clock::duration(call_after_signal) : call);
  };
  const auto is_any_lost = [this] { return std::ranges::find(is_lost_, true) != is_lost_.end(); };
  for (Backoff backoff; is_any_lost() && !is_over(); backoff.pause()) {
    for (std::size_t other = 0; other < is_lost_.size(); ++other) {
      int is_done = 0;
      MPI_Request& hearing = calls[2 * other + 1].second;
      if (is_lost_[other]) check_mpi(MPI_Test(&hearing, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
      if (is_done) is_lost_[other] = false;
    }
  }
  std::string names;
  for (int other = 0; other < ranks_; ++other) {
    if (!is_lost(other)) continue;
    // Should it come back, it must not take the results for its own.
    MPI_Request verdict = MPI_REQUEST_NULL;
    check_mpi(MPI_Isend(&calls[0].first, 1, MPI_CHAR, other, verdict_tag, communicators_->farewell,
                        &verdict),
              "MPI_Isend");
    names += fmt::format("{}{}", names.empty() ? "" : ", ", other);
  }
  if (has_message(verdict_tag)) {
    is_lost_[static_cast<std::size_t>(rank_)] = true;
    throw Lost("this rank was away for so long that the others went on without it");
  }
  const std::chrono::duration<double> patience = patience_;
  const std::string since =
      signal_ != 0 ? fmt::format("since signal {} came", signal_)
                   : fmt::format("for {:.4g} s, the time of run.patience", patience.count());
  if (names.empty()) throw Lost(fmt::format("{} ranks waited for each other {}", ranks_, since));
  throw Lost(fmt::format("lost rank {} of {}: no answer {}; it has ended, hangs or is busy", names,
                         ranks_, since));
}

int MpiSession::keeper() const {
  return static_cast<int>(std::ranges::find(is_lost_, false) - is_lost_.begin());
}

bool MpiSession::is_launched() {
  // Open MPI; MPICH, Intel MPI and their kin; PMIx launchers (srun).
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

int MpiSession::messages_communicator() const { return MPI_Comm_c2f(communicators_->messages); }
int MpiSession::census_communicator() const { return MPI_Comm_c2f(communicators_->census); }
int MpiSession::reports_communicator() const { return MPI_Comm_c2f(communicators_->reports); }

void MpiSession::barrier() {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(communicators_->control, &request), "MPI_Ibarrier");
  wait(*this, request);
}

MpiSession::Buffers& MpiSession::buffers() { return communicators_->buffers[has_lost_ ? 1 : 0]; }

int MpiSession::tag_of_bytes() const {
  return gathers_the_rest_ ? bytes_of_the_rest_tag : bytes_tag;
}

void MpiSession::send(int to, std::span<const std::byte> bytes) {
  for_each_piece(bytes.data(), bytes.size(), [&](const std::byte* piece, int count) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(
        MPI_Isend(piece, count, MPI_BYTE, to, tag_of_bytes(), communicators_->control, &request),
        "MPI_Isend");
    wait(*this, request);
  });
}

void MpiSession::receive(int from, std::span<std::byte> bytes) {
  for_each_piece(bytes.data(), bytes.size(), [&](std::byte* piece, int count) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(
        MPI_Irecv(piece, count, MPI_BYTE, from, tag_of_bytes(), communicators_->control, &request),
        "MPI_Irecv");
    wait_to_receive(*this, request);
  });
}

void MpiSession::send_text(int to, std::string text) {
  Buffers& own = buffers();
  own.text = std::move(text);
  own.size = own.text.size();
  send(to, std::as_bytes(std::span(&own.size, 1)));
  send(to, std::as_bytes(std::span(own.text)));
  own.text = {};
}

std::string MpiSession::receive_text(int from) {
  Buffers& own = buffers();
  receive(from, std::as_writable_bytes(std::span(&own.size, 1)));
  own.text.resize(own.size);
  receive(from, std::as_writable_bytes(std::span(own.text)));
  return std::exchange(own.text, {});
}

std::vector<std::string> MpiSession::gather(std::string_view bytes) {
  if (rank_ != 0) {
    send_text(0, std::string(bytes));
    return {};
  }
  std::vector<std::string> all(static_cast<std::size_t>(ranks_));
  all[0] = bytes;
  for (int from = 1; from < ranks_; ++from)
    all[static_cast<std::size_t>(from)] = receive_text(from);
  return all;
}

std::string MpiSession::broadcast(std::string bytes) {
  const auto spread = [this](void* data, int count) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibcast(data, count, MPI_BYTE, 0, communicators_->control, &request),
              "MPI_Ibcast");
    wait(*this, request);
  };
  Buffers& own = buffers();
  own.text = std::move(bytes);
  own.size = own.text.size();
  spread(&own.size, sizeof own.size);
  own.text.resize(own.size);
  for_each_piece(own.text.data(), own.size, spread);
  return std::exchange(own.text, {});
}

std::int64_t MpiSession::largest(std::int64_t number) {
  Buffers& own = buffers();
  own.number = number;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallreduce(&own.number, &own.most, 1, MPI_INT64_T, MPI_MAX, communicators_->control,
                           &request),
            "MPI_Iallreduce");
  wait(*this, request);
  return own.most;
}

std::string MpiSession::share_failure(std::string_view own) {
  const std::vector<std::string> texts = gather(own);
  const auto first = std::find_if(texts.begin(), texts.end(),
                                  [](const std::string& text) { return !text.empty(); });
  std::string shared = broadcast(first == texts.end() ? std::string() : *first);
  if (!shared.empty()) failure_is_shared_ = true;
  return shared;
}

MpiSession::ClockOffset MpiSession::clock_offset() {
  const bool is_spread_out = largest(ranks_here_ < ranks_ ? 1 : 0) > 0;
  return is_spread_out ? measure_clock_offset(ping_pongs) : ClockOffset{};
}

MpiSession::ClockOffset MpiSession::measure_clock_offset(int rounds) {
  // A rank asks rank 0 for its clock. The answer was given somewhere between asking and hearing, so
  // its middle is off by half the round trip at most; the shortest trip wins.
  ClockOffset best{.nanoseconds = 0, .error = std::numeric_limits<std::int64_t>::max()};
  std::int64_t& value = buffers().number;
  const auto pass = [this, &value](bool is_send, int peer) {
    MPI_Request request = MPI_REQUEST_NULL;
    const MPI_Comm control = communicators_->control;
    check_mpi(is_send ? MPI_Isend(&value, 1, MPI_INT64_T, peer, clock_tag, control, &request)
                      : MPI_Irecv(&value, 1, MPI_INT64_T, peer, clock_tag, control, &request),
              "MPI_Isend or MPI_Irecv");
    wait(*this, request);
  };
  for (int peer = 1; peer < ranks_; ++peer) {
    for (int round = 0; round < rounds && (rank_ == 0 || rank_ == peer); ++round) {
      if (rank_ == 0) {
        pass(false, peer);
        value = clock_now();
        pass(true, peer);
        continue;
      }
      const std::int64_t asked = clock_now();
      pass(true, 0);
      pass(false, 0);
      const std::int64_t heard = clock_now();
      const std::int64_t error = (heard - asked + 1) / 2;
      if (error < best.error) best = {value - (asked + (heard - asked) / 2), error};
    }
  }
  return rank_ == 0 ? ClockOffset{} : best;
}

}  // namespace starling
