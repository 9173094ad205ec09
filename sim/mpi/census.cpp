#include "sim/mpi/census.hpp"

#include <chrono>
#include <type_traits>

#include <mpi.h>

namespace starling {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto period = std::chrono::milliseconds(20);
constexpr int fields = sizeof(Census::Counts) / sizeof(std::int64_t);
static_assert(std::is_standard_layout_v<Census::Counts>);

}  // namespace

struct Census::State {
  MPI_Comm communicator;
  MPI_Request request = MPI_REQUEST_NULL;
  Counts own;  // of the count under way
  Counts total;
  Clock::time_point due{};
};

Census::Census(MpiSession& session)
    : state_(std::make_unique<State>(State{
          .communicator = MPI_Comm_f2c(session.census_communicator()), .own = {}, .total = {}})) {}

Census::~Census() = default;

std::optional<Census::Counts> Census::poll(const Counts& own) {
  State& state = *state_;
  if (state.request == MPI_REQUEST_NULL) {
    const bool is_urgent = own.ended > 0 || own.failed > 0 || own.interrupted > 0;
    if (!is_urgent && Clock::now() < state.due) return std::nullopt;
    state.own = own;
    check_mpi(MPI_Iallreduce(&state.own, &state.total, fields, MPI_INT64_T, MPI_SUM,
                             state.communicator, &state.request),
              "MPI_Iallreduce");
  }
  int is_done = 0;
  check_mpi(MPI_Test(&state.request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
  if (!is_done) return std::nullopt;
  state.due = Clock::now() + period;
  return state.total;
}

}  // namespace starling
