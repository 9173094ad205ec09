#include "sim/mpi/mpi_channel.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include <mpi.h>
#include <sys/mman.h>

#include "sim/base/error.hpp"
#include "sim/base/memory.hpp"
#include "sim/mpi/message_header.hpp"

namespace starling {
namespace {

constexpr int header_tag = 0;
constexpr int numbers_tag = 1;
constexpr int most_headers = 64;                 // taken in one go
constexpr std::size_t beside_numbers = 1 << 21;  // what the C library asks for beside a block

std::size_t size_of(const Zeros& block) { return block ? block.get_deleter().bytes : 0; }

/// Bytes that stand in for those of a model. Many are mapped by huge pages, which saves two thousand faults for 10 MB at either
/// end.
Zeros make_zeros(std::size_t size) {
  constexpr std::size_t huge_page = std::size_t{1} << 21;
  if (size < huge_page / 16) return map_zeros(size);
  Zeros block = map_zeros((size + huge_page - 1) / huge_page * huge_page);
  madvise(block.get(), size_of(block), MADV_HUGEPAGE);  // advice only; failure changes nothing
  return block;
}

/// A message on its way in.
struct Incoming {
  Arrival arrival;
  int pending = 0;  // transfers that are not complete
  Zeros filler;
};

/// MPI requests under way and what each of them keeps alive or belongs to.
template <class Owner>
class Requests {
 public:
  /// So many more can be added where there is no memory.
  void make_room(std::size_t more) {
    const std::size_t all = requests_.size() + more;
    if (all <= room_) return;
    const std::size_t room = std::max(all, 2 * room_);
    requests_.reserve(room);
    owners_.reserve(room);
    indices_.resize(room);
    room_ = room;
  }
  MPI_Request& add(Owner owner) {
    owners_.push_back(std::move(owner));
    return requests_.emplace_back(MPI_REQUEST_NULL);
  }
  std::size_t size() const { return requests_.size(); }

  /// Calls done(owner) for each that has completed.
  template <class Done>
  bool complete(Done done) {
    if (requests_.empty()) return false;
    int count = 0;
    check_mpi(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                           indices_.data(), MPI_STATUSES_IGNORE),
              "MPI_Testsome");
    if (count == MPI_UNDEFINED || count == 0) return false;
    std::sort(indices_.begin(), indices_.begin() + count);
    std::size_t kept = 0;
    std::size_t next = 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (next < static_cast<std::size_t>(count) && static_cast<std::size_t>(indices_[next]) == i) {
        ++next;
        done(owners_[i]);
      } else if (kept++ != i) {
        requests_[kept - 1] = requests_[i];
        owners_[kept - 1] = std::move(owners_[i]);
      }
    }
    requests_.resize(kept);
    owners_.erase(owners_.begin() + static_cast<std::ptrdiff_t>(kept), owners_.end());
    return true;
  }

 private:
  std::vector<MPI_Request> requests_;
  std::vector<Owner> owners_;
  std::vector<int> indices_;
  std::size_t room_ = 0;
};

std::size_t pieces_of(std::size_t bytes) { return (bytes + largest_piece - 1) / largest_piece; }

}  // namespace

struct MpiChannel::State {
  /// What a send needs until it is complete: its header, or the vector that its bytes belong to.
  struct Kept {
    std::unique_ptr<MessageHeader> header;
    Vector values;
  };

  ComputeGraph& graph;
  NodeId nodes;  // of the run
  MPI_Comm communicator;
  std::vector<std::deque<Incoming>> incoming;  // (ranks), in order of headers
  /// Off the wire, from that rank; what follows has not been asked for.
  std::optional<std::pair<int, MessageHeader>> taken;
  bool is_behind = false;  // messages may be complete and not handed out
  Requests<Kept> sends;
  Requests<Incoming*> receives;
  std::vector<Zeros> zero_blocks;  // the last is the largest; older ones may still be under way
  std::vector<Zeros> free_fillers;
  Zeros reserve;        // to drop a model in
  Zeros dropped;        // where messages go for which there is no room
  std::string failure;  // since when they are dropped
  std::int64_t sent = 0;
  std::int64_t received = 0;

  void send_bytes(int rank, const std::byte* bytes, std::size_t size, const Vector& keep) {
    for_each_piece(bytes, size, [&](const std::byte* piece, int count) {
      MPI_Request& request = sends.add({nullptr, keep});
      check_mpi(MPI_Isend(piece, count, MPI_BYTE, rank, numbers_tag, communicator, &request),
                "MPI_Isend");
    });
  }

  void receive_bytes(int rank, Incoming& incoming_message, std::byte* bytes, std::size_t size) {
    for_each_piece(bytes, size, [&](std::byte* piece, int count) {
      MPI_Request& request = receives.add(&incoming_message);
      check_mpi(MPI_Irecv(piece, count, MPI_BYTE, rank, numbers_tag, communicator, &request),
                "MPI_Irecv");
      ++incoming_message.pending;
    });
  }

  const std::byte* zeros_of(std::size_t size) {
    if (zero_blocks.empty() || size_of(zero_blocks.back()) < size)
      zero_blocks.push_back(make_zeros(size));
    return zero_blocks.back().get();
  }

  Zeros filler_of(std::size_t size) {
    const auto fitting =
        std::find_if(free_fillers.begin(), free_fillers.end(),
                     [size](const Zeros& block) { return size_of(block) >= size; });
    if (fitting == free_fillers.end()) return make_zeros(size);
    Zeros block = std::move(*fitting);
    free_fillers.erase(fitting);
    return block;
  }

  /// Makes room for what follows a header.
  std::span<std::byte> make_room(Incoming& message, const MessageHeader& header) {
    std::span<float> room;
    if (header.size != MessageHeader::no_vector) {
      message.arrival.message.values = graph.make(header.size, room).with_wire_marks(header.marks);
    }
    if (header.filler > 0) message.filler = filler_of(header.filler);
    return std::as_writable_bytes(room);
  }

  /// The same for a message that is dropped: a place for its numbers, and behind it one for its filler.
  std::span<std::byte> make_place_to_drop(const MessageHeader& header) {
    const bool has_numbers = header.size != MessageHeader::no_vector && graph.has_numbers();
    const std::size_t numbers = has_numbers ? header.size * sizeof(float) : 0;
    const std::size_t size = numbers + header.filler;
    if (size_of(dropped) < size) {
      dropped = {};
      dropped = make_zeros(size);
    }
    return {dropped.get(), numbers};
  }

  /// From now on this rank keeps no message, but what is sent to it must be received.
  void give_up(const char* why) {
    reserve.reset();
    free_fillers.clear();
    failure = why;
  }

  /// Takes a header off the wire. False if there is none.
  bool take_header() {
    int is_there = 0;
    MPI_Message handle = MPI_MESSAGE_NULL;
    MPI_Status status;
    // Open MPI asks the network only when it has seen that nothing was there: what has just come is found by a second look.
    for (int look = 0; look < 2 && !is_there; ++look) {
      check_mpi(MPI_Improbe(MPI_ANY_SOURCE, header_tag, communicator, &is_there, &handle, &status),
                "MPI_Improbe");
    }
    if (!is_there) return false;
    std::array<std::byte, 2 * sizeof(MessageHeader)> bytes{};  // room to see that one is too long
    int length = 0;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &length), "MPI_Get_count");
    length = std::min(length, static_cast<int>(bytes.size()));
    // The header lies here already: MPI sends messages this small at once.
    check_mpi(MPI_Mrecv(bytes.data(), length, MPI_BYTE, &handle, MPI_STATUS_IGNORE), "MPI_Mrecv");
    taken.emplace(
        status.MPI_SOURCE,
        read_message_header(std::span(bytes).first(static_cast<std::size_t>(length)), nodes));
    return true;
  }

  /// Takes a message, and asks for what follows its header. False if there is none. After std::bad_alloc the next call goes on
  /// with the same one.
  bool take_message() {
    if (!failure.empty() && receives.size() > 0) return false;  // there is one place to drop them
    if (!taken && !take_header()) return false;
    const auto [rank, header] = *taken;
    Incoming message;
    message.arrival.to = header.destination;
    message.arrival.message = {.source = header.source,
                               .tag = header.tag,
                               .values = {},
                               .number = header.number,
                               .network_since = Time{Duration{header.network_since}}};
    std::span<std::byte> numbers;
    if (failure.empty()) {
      try {
        numbers = make_room(message, header);
      } catch (const std::bad_alloc&) {
        give_up("out of memory");
      } catch (const Error& error) {
        give_up(error.what());
      }
    }
    std::byte* filler = message.filler.get();
    if (!failure.empty()) {
      numbers = make_place_to_drop(header);
      filler = numbers.data() + numbers.size();
    }
    receives.make_room(pieces_of(numbers.size()) + pieces_of(header.filler));
    Incoming& last = incoming[static_cast<std::size_t>(rank)].emplace_back(std::move(message));
    taken.reset();
    is_behind = true;
    receive_bytes(rank, last, numbers.data(), numbers.size());
    receive_bytes(rank, last, filler, header.filler);
    return true;
  }

  void hand_out(std::deque<Incoming>& queue, std::deque<Arrival>& arrived) {
    while (!queue.empty() && queue.front().pending == 0) {
      if (queue.front().filler) free_fillers.push_back(std::move(queue.front().filler));
      arrived.push_back(std::move(queue.front().arrival));
      queue.pop_front();
      ++received;
    }
  }
};

MpiChannel::MpiChannel(MpiSession& session, ComputeGraph& graph, NodeId nodes)
    : state_(std::make_unique<State>(State{
          .graph = graph,
          .nodes = nodes,
          .communicator = MPI_Comm_f2c(session.messages_communicator()),
          .incoming = std::vector<std::deque<Incoming>>(static_cast<std::size_t>(session.ranks())),
          .taken = {},
          .sends = {},
          .receives = {},
          .zero_blocks = {},
          .free_fillers = {},
          .reserve = map_zeros((graph.has_numbers() ? graph.parameters() * sizeof(float) : 0) +
                               beside_numbers),
          .dropped = {},
          .failure = {}})) {}

MpiChannel::~MpiChannel() = default;

void MpiChannel::send(int rank, NodeId to, const Message& message) {
  State& state = *state_;
  auto header = std::make_unique<MessageHeader>(
      MessageHeader{.tag = message.tag,
                    .number = message.number,
                    .network_since = message.network_since.time_since_epoch().count(),
                    .size = MessageHeader::no_vector,
                    .marks = 0,
                    .filler = 0,
                    .source = message.source,
                    .destination = to});
  std::span<const std::byte> numbers;
  if (message.values) {
    header->size = static_cast<std::uint32_t>(message.values.size());
    header->marks = message.values.wire_marks();
    numbers = std::as_bytes(state.graph.read(message.values));
    const auto wire_bytes = static_cast<std::size_t>(message.values.wire_bytes());
    if (wire_bytes > numbers.size()) header->filler = wire_bytes - numbers.size();
  }
  const std::size_t filler = header->filler;
  // Before the header: who has got one waits for all that it announces.
  state.sends.make_room(1 + pieces_of(numbers.size()) + pieces_of(filler));
  const std::byte* const zeros = filler > 0 ? state.zeros_of(filler) : nullptr;
  const MessageHeader* bytes = header.get();
  MPI_Request& request = state.sends.add({std::move(header), {}});
  check_mpi(MPI_Isend(bytes, sizeof(MessageHeader), MPI_BYTE, rank, header_tag, state.communicator,
                      &request),
            "MPI_Isend");
  state.send_bytes(rank, numbers.data(), numbers.size(), message.values);
  state.send_bytes(rank, zeros, filler, {});
  ++state.sent;
}

bool MpiChannel::progress(std::deque<Arrival>& arrived) {
  State& state = *state_;
  bool any = state.sends.complete([](State::Kept& kept) { kept = {}; });
  for (int i = 0; i < most_headers && state.take_message(); ++i) any = true;
  state.is_behind |= state.receives.complete([](Incoming* owner) { --owner->pending; });
  if (!state.is_behind) return any;
  for (auto& queue : state.incoming) state.hand_out(queue, arrived);
  state.is_behind = false;
  return true;
}

const std::string& MpiChannel::failure() const { return state_->failure; }
std::int64_t MpiChannel::sent() const { return state_->sent; }
std::int64_t MpiChannel::received() const { return state_->received; }
std::size_t MpiChannel::outstanding() const { return state_->sends.size(); }
bool MpiChannel::is_moving() const { return outstanding() > 0 || state_->receives.size() > 0; }

}  // namespace starling
