#include "sim/mpi/reports.hpp"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include <fmt/core.h>
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
  State(MpiSession& of_ranks, NodeBlock of_nodes, const Recorder& to_tell, MPI_Comm of_reports)
      : session(of_ranks), block(of_nodes), recorder(to_tell), communicator(of_reports) {}

  MpiSession& session;
  NodeBlock block;
  const Recorder& recorder;
  MPI_Comm communicator;
  Told told;

  std::int64_t asked = 0;     // on rank 0; elsewhere always 0
  std::int64_t answered = 0;  // of them, on all ranks
  std::int64_t taken = 0;     // of them, on rank 0
  std::int64_t restarts = 0;  // on rank 0; elsewhere always 0
  std::int64_t restarted = 0;

  std::vector<std::string>
      outgoing;           // two, if nobody has seen yet that MPI has done with the first
  std::size_t sent = 0;   // bytes of the first of them
  std::size_t piece = 0;  // bytes that follow, on their way
  MPI_Request sending = MPI_REQUEST_NULL;

  std::vector<std::string> incoming;  // (ranks)
  int missing = 0;                    // ranks whose report is not complete
  std::string room;                   // for a piece,
  std::size_t sender = 0;             // of this rank,
  std::size_t arriving = 0;           // so long
  MPI_Request receiving = MPI_REQUEST_NULL;
  std::optional<std::size_t> short_rank;  // has no room for a report; those of others are dropped

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
      outgoing.erase(outgoing.begin());
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
      if (!short_rank) incoming[sender].append(room, 0, arriving);
    } catch (const std::bad_alloc&) {
      short_rank = 0;
    }
    if (arriving == most_of_a_piece) return true;
    --missing;
    if (!short_rank && incoming[sender].empty()) short_rank = sender;
    return true;
  }
};

Reports::Reports(MpiSession& session, NodeBlock block, const Recorder& recorder)
    : state_(std::make_unique<State>(session, block, recorder,
                                     MPI_Comm_f2c(session.reports_communicator()))) {
  state_->outgoing.reserve(2);
  state_->incoming.resize(static_cast<std::size_t>(session.ranks()));
  if (session.rank() == 0) state_->room.resize(most_of_a_piece);
}

Reports::~Reports() = default;

void Reports::ask() {
  State& state = *state_;
  if (state.asked == state.taken) ++state.asked;
}

std::vector<std::string> Reports::take() {
  State& state = *state_;
  if (state.taken == state.answered || state.missing > 0) return {};
  std::vector<std::string> reports(state.incoming.size());
  state.incoming.swap(reports);
  state.taken = state.answered;
  if (const auto rank = std::exchange(state.short_rank, std::nullopt)) {
    throw Error(fmt::format("rank {} of {} has no room for what is reported of the nodes", *rank,
                            state.session.ranks()));
  }
  return reports;
}

void Reports::restart() { ++state_->restarts; }

void Reports::count(Census::Counts& own) const {
  own.reports = state_->asked;
  own.restarts = state_->restarts;
}

void Reports::hear(const Census::Counts& sums) {
  State& state = *state_;
  if (state.answered == sums.reports) return;
  state.answered = sums.reports;
  if (state.restarted != sums.restarts) state.told = {};
  state.restarted = sums.restarts;
  std::string report;  // stays empty if there is no room for it
  try {
    report = pack_records(state.recorder, state.block, state.told);
  } catch (const std::bad_alloc&) {
    if (state.session.rank() == 0) state.short_rank = 0;
  }
  if (state.session.rank() != 0) return state.outgoing.push_back(std::move(report));
  state.missing = state.session.ranks() - 1;
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
