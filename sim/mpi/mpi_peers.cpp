#include "sim/mpi/mpi_peers.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <new>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include <fmt/core.h>
#include <mpi.h>

#include "sim/base/error.hpp"

namespace starling {
namespace {

constexpr int rows_tag = 1;
constexpr int failure_tag = 2;
constexpr int farewell_looks = 40;
// A row that comes late holds up a whole process, with small models in hundreds of waves per second.
const Backoff watchful(std::chrono::microseconds(20));

/// A failure as text that travels: its kind, a signal, the sentence.
std::string to_text(const std::exception_ptr& failure, int rank, int ranks) {
  const auto here = [&](const char* what) {
    return fmt::format("E0 process {} of {}: {}", rank, ranks, what);
  };
  try {
    std::rethrow_exception(failure);
  } catch (const Diverged& diverged) {
    return fmt::format("D0 {}", diverged.what());
  } catch (const Interrupted& interrupted) {
    return fmt::format("I{} ", interrupted.signal());
  } catch (const Error& error) {
    return fmt::format("E0 {}", error.what());
  } catch (const std::bad_alloc&) {
    return here("out of memory");
  } catch (const std::exception& error) {
    return here(error.what());
  } catch (...) {
    return here("failed");
  }
}

[[noreturn]] void throw_again(const std::string& text) {
  const std::size_t blank = text.find(' ');
  const std::string sentence = text.substr(blank + 1);
  if (text[0] == 'I') throw Interrupted(std::stoi(text.substr(1, blank - 1)));
  if (text[0] == 'D') throw Diverged(sentence);
  throw Error(sentence);
}

}  // namespace

struct MpiPeers::Traffic {
  using Numbers = std::array<std::uint64_t, 3>;
  struct Letter {
    std::vector<float> numbers;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  /// Forgets what has been sent.
  void sweep() {
    while (!sent.empty()) {
      int is_done = 0;
      check_mpi(MPI_Test(&sent.front().request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
      if (!is_done) return;
      sent.pop_front();
    }
  }

  MPI_Comm rows = MPI_COMM_NULL;
  MPI_Comm meetings = MPI_COMM_NULL;
  std::deque<Letter> sent;
  std::vector<std::deque<Letter>> expected;  // by sender, the oldest first
  std::deque<std::pair<Place, MPI_Request>> notices;
  // Of what all do together.
  Numbers numbers{}, largest{};
  struct {
    std::uint64_t size = 0;
    std::string text;
  } words;
  struct {
    std::vector<int> sizes, places;
    std::vector<double> all;
  } gathered;
};

MpiPeers::MpiPeers(MpiSession& session, std::function<int()> interruption)
    : session_(session),
      interruption_(std::move(interruption)),
      traffic_(std::make_unique<Traffic>()) {
  traffic_->rows = MPI_Comm_f2c(session.messages_communicator());
  traffic_->meetings = MPI_Comm_f2c(session.census_communicator());
  traffic_->expected.resize(static_cast<std::size_t>(count()));
}

MpiPeers::~MpiPeers() {
  // After a failure some of it will never arrive, and MPI keeps the addresses until it ends.
  if (has_failed_ || failed_here_ != nowhere) static_cast<void>(traffic_.release());
}

void MpiPeers::pause(Vigil& vigil) {
  try {
    vigil.pause();
  } catch (const Lost&) {
    lost_ = std::current_exception();
    has_failed_ = true;
    throw;
  }
}

template <class Request>
void MpiPeers::finish(Request& request) {
  for (Vigil vigil(session_, watchful);; pause(vigil)) {
    int is_done = 0;
    check_mpi(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    if (is_done) return;
  }
}

void MpiPeers::send(int to, std::vector<float>&& numbers) {
  traffic_->sweep();
  Traffic::Letter& letter = traffic_->sent.emplace_back();
  letter.numbers = std::move(numbers);
  check_mpi(MPI_Isend(letter.numbers.data(), static_cast<int>(letter.numbers.size()), MPI_FLOAT, to,
                      rows_tag, traffic_->rows, &letter.request),
            "MPI_Isend");
}

void MpiPeers::clear() {
  for (Vigil vigil(session_, watchful); !traffic_->sent.empty(); pause(vigil)) {
    traffic_->sweep();
    look(nowhere);
  }
}

void MpiPeers::expect(int from, std::size_t size) {
  Traffic::Letter& letter = traffic_->expected[static_cast<std::size_t>(from)].emplace_back();
  letter.numbers.resize(size);
  check_mpi(MPI_Irecv(letter.numbers.data(), static_cast<int>(size), MPI_FLOAT, from, rows_tag,
                      traffic_->rows, &letter.request),
            "MPI_Irecv");
}

std::vector<float> MpiPeers::take(int from, Place here) {
  auto& queue = traffic_->expected[static_cast<std::size_t>(from)];
  ensure(!queue.empty(), "a message that nobody expects");
  for (Vigil vigil(session_, watchful);; pause(vigil)) {
    int is_done = 0;
    check_mpi(MPI_Test(&queue.front().request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    if (is_done) break;
    traffic_->sweep();
    look(here);
  }
  // Whoever goes on to compute lets MPI rest: what others wait for should have left by then.
  for (int i = 0; i < farewell_looks && !traffic_->sent.empty(); ++i) {
    std::this_thread::yield();
    traffic_->sweep();
  }
  std::vector<float> numbers = std::move(queue.front().numbers);
  queue.pop_front();
  return numbers;
}

void MpiPeers::look(Place here) {
  if (const int signal = interruption_ ? interruption_() : 0) throw Interrupted(signal);
  for (;;) {
    int is_there = 0;
    MPI_Status status;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, failure_tag, traffic_->meetings, &is_there, &status),
              "MPI_Iprobe");
    if (!is_there) break;
    Place place = nowhere;
    check_mpi(MPI_Recv(&place, 1, MPI_UINT64_T, status.MPI_SOURCE, failure_tag, traffic_->meetings,
                       MPI_STATUS_IGNORE),
              "MPI_Recv");
    failed_anywhere_ = std::min(failed_anywhere_, place);
  }
  if (failed_anywhere_ < here) throw Abandoned();
}

void MpiPeers::fail(Place here, std::exception_ptr failure) {
  if (failed_here_ != nowhere || lost_) return;
  try {
    std::rethrow_exception(failure);
  } catch (const Abandoned&) {
    return;  // it is another's failure
  } catch (...) {
  }
  failed_here_ = here;
  failure_ = std::move(failure);
  for (int to = 0; to < count(); ++to) {
    if (to == own()) continue;
    auto& [place, request] = traffic_->notices.emplace_back(here, MPI_REQUEST_NULL);
    check_mpi(MPI_Isend(&place, 1, MPI_UINT64_T, to, failure_tag, traffic_->meetings, &request),
              "MPI_Isend");
  }
}

Wish MpiPeers::end_window(const Wish& own_wish) {
  if (lost_) std::rethrow_exception(lost_);
  const auto largest = [this](const Traffic::Numbers& numbers) {
    traffic_->numbers = numbers;
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallreduce(traffic_->numbers.data(), traffic_->largest.data(),
                             static_cast<int>(numbers.size()), MPI_UINT64_T, MPI_MAX,
                             traffic_->meetings, &request),
              "MPI_Iallreduce");
    finish(request);
    return traffic_->largest;
  };
  // The first place is the one from which it is farthest to nowhere.
  const Traffic::Numbers most = largest(
      {nowhere - failed_here_, own_wish.checkpoint, static_cast<std::uint64_t>(own_wish.signal)});
  const Place first = nowhere - most[0];
  if (first == nowhere) return {most[1] != 0, static_cast<int>(most[2])};
  has_failed_ = true;
  // The first process that failed there tells.
  const bool is_mine = failed_here_ == first;
  const auto back = static_cast<std::uint64_t>(is_mine ? count() - own() : 0);
  const int teller = count() - static_cast<int>(largest({back, 0, 0})[0]);
  auto& [size, text] = traffic_->words;
  text = teller == own() ? to_text(failure_, own(), count()) : std::string();
  size = text.size();
  const auto spread = [&](void* data, int bytes) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibcast(data, bytes, MPI_BYTE, teller, traffic_->meetings, &request),
              "MPI_Ibcast");
    finish(request);
  };
  spread(&size, sizeof size);
  text.resize(size);
  spread(text.data(), static_cast<int>(size));
  throw_again(text);
}

std::vector<double> MpiPeers::gather(std::span<const double> own,
                                     std::span<const std::size_t> counts) {
  auto& [sizes, places, all] = traffic_->gathered;
  sizes.assign(counts.begin(), counts.end());
  places.resize(sizes.size());
  std::exclusive_scan(sizes.begin(), sizes.end(), places.begin(), 0);
  all.resize(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  if (all.empty()) return {};
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallgatherv(own.data(), static_cast<int>(own.size()), MPI_DOUBLE, all.data(),
                            sizes.data(), places.data(), MPI_DOUBLE, traffic_->meetings, &request),
            "MPI_Iallgatherv");
  finish(request);
  return std::exchange(all, {});
}

}  // namespace starling
