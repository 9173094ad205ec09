#include "sim/mpi/reports.hpp"

#include <algorithm>
#include <deque>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <mpi.h>

#include "sim/base/error.hpp"
#include "sim/mpi/records.hpp"

namespace starling {
namespace {

constexpr int report_tag = 0;
// Small enough that no message of a node waits long behind one. The last piece of a report is not full.
constexpr std::size_t most_of_a_piece = std::size_t{1} << 20;

}  // namespace

struct Reports::State {
  MpiSession& session;
  NodeBlock block;
  const Recorder& recorder;
  MPI_Comm communicator;
  Told told;

  std::int64_t asked = 0;     // on rank 0; elsewhere always 0
  std::int64_t answered = 0;  // of them, on all ranks
  std::int64_t taken = 0;     // of them, on rank 0

  std::deque<std::string> outgoing;
  std::size_t sent = 0;   // bytes of the first of them
  std::size_t piece = 0;  // bytes that follow, on their way
  MPI_Request sending = MPI_REQUEST_NULL;

  std::vector<std::string> incoming;  // (ranks)
  int missing = 0;                    // ranks whose report is not complete
  std::string room;                   // for a piece,
  std::size_t sender = 0;             // of this rank,
  std::size_t arriving = 0;           // so long
  MPI_Request receiving = MPI_REQUEST_NULL;
  std::string failure;  // no room for a report; those that still come are dropped

  void fail(std::size_t rank) {
    failure = fmt::format("rank {} of {} has no room for what is reported of the nodes", rank,
                          session.ranks());
  }

  bool send_piece() {
    if (outgoing.empty()) return false;
    const std::string& report = outgoing.front();
    if (sending == MPI_REQUEST_NULL) {
      piece = std::min(most_of_a_piece, report.size() - sent);
      check_mpi(MPI_Isend(report.data() + sent, static_cast<int>(piece), MPI_BYTE, 0, report_tag,
                          communicator, &sending),
                "MPI_Isend");
      return true;
    }
    int is_done = 0;
    check_mpi(MPI_Test(&sending, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    if (!is_done) return false;
    sent += piece;
    if (piece < most_of_a_piece) {
      outgoing.pop_front();
      sent = 0;
    }
    return true;
  }

  bool receive_piece() {
    if (missing == 0) return false;
    int is_there = 0;
    if (receiving == MPI_REQUEST_NULL) {
      MPI_Message handle = MPI_MESSAGE_NULL;
      MPI_Status status;
      check_mpi(MPI_Improbe(MPI_ANY_SOURCE, report_tag, communicator, &is_there, &handle, &status),
                "MPI_Improbe");
      if (!is_there) return false;
      int length = 0;
      check_mpi(MPI_Get_count(&status, MPI_BYTE, &length), "MPI_Get_count");
      check_mpi(MPI_Imrecv(room.data(), length, MPI_BYTE, &handle, &receiving), "MPI_Imrecv");
      sender = static_cast<std::size_t>(status.MPI_SOURCE);
      arriving = static_cast<std::size_t>(length);
      return true;
    }
    check_mpi(MPI_Test(&receiving, &is_there, MPI_STATUS_IGNORE), "MPI_Test");
    if (!is_there) return false;
    try {
      if (failure.empty()) incoming[sender].append(room, 0, arriving);
    } catch (const std::bad_alloc&) {
      fail(0);
    }
    if (arriving == most_of_a_piece) return true;
    --missing;
    if (failure.empty() && incoming[sender].empty()) fail(sender);
    return true;
  }
};

Reports::Reports(MpiSession& session, NodeBlock block, const Recorder& recorder)
    : state_(std::make_unique<State>(
          State{.session = session,
                .block = block,
                .recorder = recorder,
                .communicator = MPI_Comm_f2c(session.reports_communicator()),
                .told = {},
                .outgoing = {},
                .incoming = {},
                .room = std::string(session.rank() == 0 ? most_of_a_piece : 0, '\0'),
                .failure = {}})) {}

Reports::~Reports() = default;

void Reports::ask() {
  State& state = *state_;
  if (state.asked == state.taken) ++state.asked;
}

std::vector<std::string> Reports::take() {
  State& state = *state_;
  if (state.taken == state.answered || state.missing > 0) return {};
  if (!state.failure.empty()) throw Error(state.failure);
  state.taken = state.answered;
  return std::exchange(state.incoming, {});
}

void Reports::count(Census::Counts& own) const { own.reports = state_->asked; }

void Reports::hear(const Census::Counts& sums) {
  State& state = *state_;
  if (state.answered == sums.reports) return;
  state.answered = sums.reports;
  std::string report;  // stays empty if there is no room for it
  try {
    report = pack_records(state.recorder, state.block, state.told);
  } catch (const std::bad_alloc&) {
    if (state.session.rank() == 0) state.fail(0);
  }
  if (state.session.rank() != 0) return state.outgoing.push_back(std::move(report));
  state.missing = state.session.ranks() - 1;
  state.incoming.resize(static_cast<std::size_t>(state.session.ranks()));
  state.incoming[0] = std::move(report);
}

bool Reports::progress() {
  const bool has_sent = state_->send_piece();
  return state_->receive_piece() || has_sent;
}

void Reports::finish() {
  const State& state = *state_;
  for (Vigil vigil(state.session); !state.outgoing.empty() || state.missing > 0; vigil.pause())
    progress();
}

bool Reports::have_begun() const { return state_->answered > 0; }

}  // namespace starling
