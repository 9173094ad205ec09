#include "sim/mpi/channel.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>

#include "sim/base/error.hpp"
#include "sim/base/memory.hpp"
#include "sim/mpi/message_header.hpp"

namespace starling {
namespace {

constexpr int header_tag = 0;
constexpr int numbers_tag = 1;
constexpr int most_headers = 64;                 // taken in one go
constexpr std::size_t beside_numbers = 1 << 16;  // what the C library adds to a block

struct Free {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};

struct Block {
  std::unique_ptr<std::byte[], Free> bytes;
  std::size_t size = 0;
};

/// Untouched zeros cost no memory: the system maps them when they are read.
Block zeros(std::size_t size) {
  Block block{std::unique_ptr<std::byte[], Free>(static_cast<std::byte*>(std::calloc(size, 1))),
              size};
  if (!block.bytes)
    throw Error(fmt::format("out of memory: {} bytes of filler of a message", size));
  return block;
}

/// A message on its way in.
struct Incoming {
  Arrival arrival;
  int pending = 0;  // transfers that are not complete
  Block filler;
};

/// MPI requests under way and what each of them keeps alive or belongs to.
template <class Owner>
class Requests {
 public:
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
    indices_.resize(requests_.size());
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
};

}  // namespace

struct Channel::State {
  /// What a send needs until it is complete: its header, or the vector that its bytes belong to.
  struct Kept {
    std::unique_ptr<MessageHeader> header;
    Vector values;
  };

  ComputeGraph& graph;
  NodeId nodes;  // of the run
  MPI_Comm communicator;
  std::vector<std::deque<Incoming>> incoming;  // (ranks), in order of headers
  Requests<Kept> sends;
  Requests<std::pair<int, Incoming*>> receives;  // from rank
  std::vector<Block> zero_blocks;  // the last is the largest; older ones may still be under way
  std::vector<Block> free_fillers;
  Reserve reserve;      // to drop a model in
  Block dropped;        // where messages go for which there is no room
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
      MPI_Request& request = receives.add({rank, &incoming_message});
      check_mpi(MPI_Irecv(piece, count, MPI_BYTE, rank, numbers_tag, communicator, &request),
                "MPI_Irecv");
      ++incoming_message.pending;
    });
  }

  const std::byte* zeros_of(std::size_t size) {
    if (zero_blocks.empty() || zero_blocks.back().size < size) zero_blocks.push_back(zeros(size));
    return zero_blocks.back().bytes.get();
  }

  Block filler_of(std::size_t size) {
    const auto fitting = std::find_if(free_fillers.begin(), free_fillers.end(),
                                      [size](const Block& block) { return block.size >= size; });
    if (fitting == free_fillers.end()) return zeros(size);
    Block block = std::move(*fitting);
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
    if (dropped.size < size) {
      dropped = {};
      dropped = zeros(size);
    }
    return {dropped.bytes.get(), numbers};
  }

  /// From now on this rank keeps no message, but what is sent to it must be received.
  void give_up(const char* why) {
    reserve.reset();
    free_fillers.clear();
    failure = why;
  }

  /// Takes a header off the wire and asks for what follows it. False if there is none.
  bool take_header(std::deque<Arrival>& arrived) {
    if (!failure.empty() && receives.size() > 0) return false;  // there is one place to drop them
    int is_there = 0;
    MPI_Message handle = MPI_MESSAGE_NULL;
    MPI_Status status;
    check_mpi(MPI_Improbe(MPI_ANY_SOURCE, header_tag, communicator, &is_there, &handle, &status),
              "MPI_Improbe");
    if (!is_there) return false;
    std::array<std::byte, 2 * sizeof(MessageHeader)> bytes{};  // room to see that one is too long
    int length = 0;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &length), "MPI_Get_count");
    length = std::min(length, static_cast<int>(bytes.size()));
    // The header lies here already: MPI sends messages this small at once.
    check_mpi(MPI_Mrecv(bytes.data(), length, MPI_BYTE, &handle, MPI_STATUS_IGNORE), "MPI_Mrecv");
    const MessageHeader header =
        read_message_header(std::span(bytes).first(static_cast<std::size_t>(length)), nodes);

    const int rank = status.MPI_SOURCE;
    Incoming& message = incoming[static_cast<std::size_t>(rank)].emplace_back();
    message.arrival.to = header.destination;
    message.arrival.message = {.source = header.source,
                               .tag = header.tag,
                               .values = {},
                               .number = header.number,
                               .sent = Time{Duration{header.sent}}};
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
    std::byte* filler = message.filler.bytes.get();
    if (!failure.empty()) {
      numbers = make_place_to_drop(header);
      filler = numbers.data() + numbers.size();
    }
    receive_bytes(rank, message, numbers.data(), numbers.size());
    receive_bytes(rank, message, filler, header.filler);
    hand_out(rank, arrived);
    return true;
  }

  void hand_out(int rank, std::deque<Arrival>& arrived) {
    auto& queue = incoming[static_cast<std::size_t>(rank)];
    while (!queue.empty() && queue.front().pending == 0) {
      arrived.push_back(std::move(queue.front().arrival));
      if (queue.front().filler.size > 0) free_fillers.push_back(std::move(queue.front().filler));
      queue.pop_front();
      ++received;
    }
  }
};

Channel::Channel(MpiSession& session, ComputeGraph& graph, NodeId nodes)
    : state_(std::make_unique<State>(State{
          .graph = graph,
          .nodes = nodes,
          .communicator = MPI_Comm_f2c(session.messages_communicator()),
          .incoming = std::vector<std::deque<Incoming>>(static_cast<std::size_t>(session.ranks())),
          .sends = {},
          .receives = {},
          .zero_blocks = {},
          .free_fillers = {},
          .reserve = graph.has_numbers()
                         ? set_aside(graph.parameters() * sizeof(float) + beside_numbers)
                         : nullptr,
          .dropped = {},
          .failure = {}})) {}

Channel::~Channel() = default;

void Channel::send(int rank, NodeId to, const Message& message) {
  State& state = *state_;
  auto header =
      std::make_unique<MessageHeader>(MessageHeader{.tag = message.tag,
                                                    .number = message.number,
                                                    .sent = message.sent.time_since_epoch().count(),
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

bool Channel::progress(std::deque<Arrival>& arrived) {
  State& state = *state_;
  bool any = state.sends.complete([](State::Kept& kept) { kept = {}; });
  for (int i = 0; i < most_headers && state.take_header(arrived); ++i) any = true;
  any |= state.receives.complete([&](const std::pair<int, Incoming*>& owner) {
    --owner.second->pending;
    // A message is gone once it is handed out, so look only at the front of its rank's queue.
    state.hand_out(owner.first, arrived);
  });
  return any;
}

const std::string& Channel::failure() const { return state_->failure; }
std::int64_t Channel::sent() const { return state_->sent; }
std::int64_t Channel::received() const { return state_->received; }
std::size_t Channel::outstanding() const { return state_->sends.size(); }

}  // namespace starling
