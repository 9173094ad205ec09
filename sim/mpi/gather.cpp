#include "sim/mpi/gather.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/mpi/packer.hpp"
#include "sim/mpi/records.hpp"

namespace starling {
namespace {

/// What the keeper tells ranks that need not tell their records again.
constexpr std::string_view is_known_text = "known";

/// A model that lies on some rank: `row` of a table of evaluations, or the last model of a node.
struct ModelPlace {
  Observer::By by;
  std::size_t row;
  NodeId node;
  int rank;
  Time time;
  std::size_t size;  // floats; 0: none
  Observer::Handed handed;

  bool is_of_row(const ModelPlace& other) const { return by == other.by && row == other.row; }
  friend bool operator<(const ModelPlace& a, const ModelPlace& b) {
    return std::tie(a.by, a.row, a.node) < std::tie(b.by, b.row, b.node);
  }
};

std::size_t size_of(const Vector& model) { return model ? model.size() : 0; }

void send_model(MpiSession& session, ComputeGraph& graph, const Vector& model) {
  if (model) session.send(0, std::as_bytes(graph.read(model)));
}

Vector receive_model(MpiSession& session, ComputeGraph& graph, const ModelPlace& place) {
  if (place.size == 0) return {};
  std::span<float> room;
  Vector model = graph.make(place.size, room);
  session.receive(place.rank, std::as_writable_bytes(room));
  return model;
}

/// Rank 0 learns which models lie where, sorted by (table, row, node). A rank sends its own in this order.
std::vector<ModelPlace> gather_places(MpiSession& session, std::span<const ModelPlace> own) {
  std::vector<ModelPlace> all;
  for (const std::string& bytes :
       session.gather({reinterpret_cast<const char*>(own.data()), own.size_bytes()})) {
    Unpacker unpacker(bytes);
    for (std::size_t i = 0; i < bytes.size() / sizeof(ModelPlace); ++i)
      all.push_back(unpacker.take<ModelPlace>());
  }
  std::sort(all.begin(), all.end());
  return all;
}

/// Rank 0 learns which nodes diverged, before it evaluates.
void gather_diverged(MpiSession& session, ComputeGraph& graph, Observer& observer) {
  Packer packer;
  for (const auto& [node, draw] : graph.diverged().by_node()) {
    packer.put(node);
    packer.put(draw);
  }
  for (const std::string& told : session.gather(packer.bytes())) {
    Unpacker unpacker(told);
    while (!unpacker.is_empty()) {
      const auto node = unpacker.take<NodeId>();
      observer.add_diverged(node, unpacker.take<Step>());
    }
  }
}

void gather_snapshots(MpiSession& session, ComputeGraph& graph, Observer& observer,
                      const std::function<bool()>& goes_on) {
  std::vector<Observer::Snapshot> snapshots = observer.take_snapshots();
  std::vector<ModelPlace> own;
  for (const auto& snapshot : snapshots) {
    own.push_back({snapshot.by, snapshot.row, snapshot.node, session.rank(), snapshot.time,
                   size_of(snapshot.model), snapshot.handed});
  }
  const std::vector<ModelPlace> places = gather_places(session, own);
  if (session.rank() != 0) {
    for (auto& snapshot : snapshots) send_model(session, graph, std::exchange(snapshot.model, {}));
  }
  auto next_own = snapshots.begin();
  bool is_over = false;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const ModelPlace& place = places[i];
    Vector model =
        place.rank == 0 ? std::move((next_own++)->model) : receive_model(session, graph, place);
    if (i == 0 || !places[i - 1].is_of_row(place)) is_over = is_over || !goes_on();
    if (is_over) continue;
    observer.add_snapshot(
        {place.by, place.node, place.row, place.time, std::move(model), place.handed});
    // Evaluate the row now, so that its models can go.
    if (i + 1 == places.size() || !places[i + 1].is_of_row(place)) graph.flush();
  }
}

void gather_models(MpiSession& session, NodeBlock block, ComputeGraph& graph, Observer& observer) {
  std::vector<ModelPlace> own;
  for (NodeId node = block.begin; session.rank() != 0 && node < block.end; ++node) {
    ModelPlace place{};
    place.node = node;
    place.rank = session.rank();
    place.size = size_of(observer.model(node));
    own.push_back(place);
  }
  for (const ModelPlace& place : gather_places(session, own)) {
    if (place.size > 0) observer.set_model(place.node, receive_model(session, graph, place));
  }
  for (const ModelPlace& place : own) send_model(session, graph, observer.model(place.node));
}

/// Empty, where there is no room: nothing is known of these nodes.
std::string pack_if_possible(const Recorder& recorder, NodeBlock block) {
  try {
    Told nothing;
    return pack_records(recorder, block, nothing);
  } catch (const std::bad_alloc&) {
    return "";
  }
}

void unpack_if_known(std::string_view told, Recorder& recorder) {
  if (!told.empty()) unpack_records(told, recorder);
}

/// Numbers that were asked for reach their cells. Why they do not; else empty.
std::string failure_of_flush(ComputeGraph& graph, const std::string& out_of_memory) {
  try {
    graph.flush();
  } catch (const std::bad_alloc&) {
    return out_of_memory;
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

void gather_results(MpiSession& session, NodeBlock block, ComputeGraph& graph, Observer& observer,
                    Recorder& recorder, bool with_models, KnownRanks& known,
                    const std::function<bool()>& goes_on) {
  const bool is_first = session.rank() == 0;
  const std::string out_of_memory = session.out_of_memory();
  std::string failure = failure_of_flush(graph, out_of_memory);
  std::string own = is_first ? "" : pack_if_possible(recorder, block);
  if (!is_first && own.empty() && failure.empty()) failure = out_of_memory;
  if (is_first) {
    for (int rank = 1; rank < session.ranks(); ++rank) {
      unpack_if_known(session.receive_text(rank), recorder);
      known.insert(rank);
    }
    sort_timeline(recorder);
  } else {
    session.send_text(0, std::move(own));
  }
  failure = session.share_failure(failure);
  if (!failure.empty()) throw Error(failure);
  // An evaluation may take longer than ranks wait for each other, and a signal ends but those that are to come. Rank 0 alone
  // gives up on who is silent for long after one: models come at once, unless it was a rank's death that made mpirun send it.
  if (!is_first) {
    session.ignore_signals();
    session.be_patient();
  }
  gather_diverged(session, graph, observer);
  gather_snapshots(session, graph, observer, goes_on);
  if (with_models) gather_models(session, block, graph, observer);
}

void gather_what_is_left(MpiSession& session, NodeBlock block, Recorder& recorder,
                         const KnownRanks& known, const Recorder* saved) {
  if (session.is_lost(session.rank())) return;  // for the others
  session.gather_the_rest();
  const int keeper = session.keeper();
  if (session.rank() != keeper) {
    const bool is_known = session.receive_text(keeper) == is_known_text;
    if (!is_known) session.send_text(keeper, pack_if_possible(recorder, block));
    return;
  }
  const auto nodes = static_cast<NodeId>(recorder.nodes.size());
  for (int rank = 0; rank < session.ranks(); ++rank) {
    if (rank == keeper) continue;
    const bool is_known = known.contains(rank);
    if (!session.is_lost(rank)) {
      session.send_text(rank, std::string(is_known ? is_known_text : ""));
      if (!is_known) unpack_if_known(session.receive_text(rank), recorder);
    } else if (saved != nullptr && !is_known) {
      Told nothing;
      const NodeBlock lost = block_of(rank, session.ranks(), nodes);
      unpack_records(pack_records(*saved, lost, nothing), recorder);
    }
  }
  sort_timeline(recorder);
}

}  // namespace starling
