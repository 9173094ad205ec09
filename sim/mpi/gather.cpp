#include "sim/mpi/gather.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "sim/base/error.hpp"

namespace starling {
namespace {

/// Plain values one after the other; read back in the order they were put.
class Packer {
 public:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put_text(std::string_view text) {
    put(text.size());
    bytes_.append(text);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T take() {
    T value;
    std::memcpy(&value, take_bytes(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view take_text() { return take_bytes(take<std::size_t>()); }
  bool is_empty() const { return bytes_.empty(); }

 private:
  std::string_view take_bytes(std::size_t size) {
    ensure(size <= bytes_.size(), "a rank told less than was read");
    const std::string_view piece = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return piece;
  }

  std::string_view bytes_;
};

/// A model that lies on some rank: `row` of the evaluation table, or the last model of a node.
struct Place {
  std::size_t row;
  NodeId node;
  int rank;
  Time time;
  std::size_t size;  // floats; 0: none
  double weight;     // in the mean of a row
  Step draws;        // of the node by then

  friend bool operator<(const Place& a, const Place& b) {
    return std::tie(a.row, a.node) < std::tie(b.row, b.node);
  }
};

void pack(Packer& packer, NodeBlock block, const Recorder& recorder) {
  const std::vector<std::string> metrics = recorder.steps.metrics();
  packer.put(block);
  packer.put(metrics.size());
  for (const std::string& metric : metrics) {
    packer.put_text(metric);
    packer.put(recorder.steps.rows(metric));
    for (std::size_t row = 0; row < recorder.steps.rows(metric); ++row) {
      for (NodeId node = block.begin; node < block.end; ++node) {
        packer.put(recorder.steps.value(metric, row, static_cast<std::size_t>(node)));
      }
    }
  }
  for (NodeId node = block.begin; node < block.end; ++node) {
    packer.put(recorder.nodes[static_cast<std::size_t>(node)]);
  }
  for (NodeId node = block.begin; node < block.end && !recorder.acts.empty(); ++node) {
    const std::vector<Act>& acts = recorder.acts[static_cast<std::size_t>(node)];
    packer.put(acts.size());
    for (const Act& act : acts) packer.put(act);
  }
  packer.put(recorder.timeline.size());
  for (const Segment& segment : recorder.timeline) packer.put(segment);
  packer.put(recorder.statistics.size());
  for (const auto& [name, value] : recorder.statistics) {
    packer.put_text(name);
    packer.put(value);
  }
}

void unpack(Unpacker& unpacker, Recorder& recorder) {
  const auto block = unpacker.take<NodeBlock>();
  for (auto metrics = unpacker.take<std::size_t>(); metrics > 0; --metrics) {
    const std::string_view metric = unpacker.take_text();
    const auto rows = unpacker.take<std::size_t>();
    for (std::size_t row = 0; row < rows; ++row) {
      const std::span<double> cells = recorder.steps.cells(metric, row);
      for (NodeId node = block.begin; node < block.end; ++node) {
        cells[static_cast<std::size_t>(node)] = unpacker.take<double>();
      }
    }
  }
  for (NodeId node = block.begin; node < block.end; ++node) {
    recorder.nodes[static_cast<std::size_t>(node)] = unpacker.take<NodeTotals>();
  }
  for (NodeId node = block.begin; node < block.end && !recorder.acts.empty(); ++node) {
    std::vector<Act>& acts = recorder.acts[static_cast<std::size_t>(node)];
    acts.resize(unpacker.take<std::size_t>());
    for (Act& act : acts) act = unpacker.take<Act>();
  }
  for (auto segments = unpacker.take<std::size_t>(); segments > 0; --segments) {
    recorder.timeline.push_back(unpacker.take<Segment>());
  }
  for (auto statistics = unpacker.take<std::size_t>(); statistics > 0; --statistics) {
    const std::string name(unpacker.take_text());
    recorder.statistics[name] += unpacker.take<double>();
  }
}

void sort_timeline(Recorder& recorder) {
  std::stable_sort(recorder.timeline.begin(), recorder.timeline.end(),
                   [](const Segment& a, const Segment& b) {
                     return std::tie(a.end, a.node) < std::tie(b.end, b.node);
                   });
}

void send_model(MpiSession& session, ComputeGraph& graph, const Vector& model) {
  session.send(0, std::as_bytes(graph.read(model)));
}

Vector receive_model(MpiSession& session, ComputeGraph& graph, const Place& place) {
  std::span<float> room;
  Vector model = graph.make(place.size, room);
  session.receive(place.rank, std::as_writable_bytes(room));
  return model;
}

/// Rank 0 learns which models lie where, sorted by (row, node). A rank sends its own in this order.
std::vector<Place> gather_places(MpiSession& session, std::span<const Place> own) {
  std::vector<Place> all;
  for (const std::string& bytes :
       session.gather({reinterpret_cast<const char*>(own.data()), own.size_bytes()})) {
    Unpacker unpacker(bytes);
    for (std::size_t i = 0; i < bytes.size() / sizeof(Place); ++i)
      all.push_back(unpacker.take<Place>());
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
  std::vector<Observer::Snapshot> snapshots;
  if (session.rank() != 0) snapshots = observer.take_snapshots();  // by row, then node
  std::vector<Place> own;
  for (const auto& snapshot : snapshots) {
    own.push_back({snapshot.row, snapshot.node, session.rank(), snapshot.time,
                   snapshot.model.size(), snapshot.weight, snapshot.draws});
  }
  const std::vector<Place> places = gather_places(session, own);
  for (auto& snapshot : snapshots) {
    send_model(session, graph, snapshot.model);
    snapshot.model = {};
  }
  bool is_over = false;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Place& place = places[i];
    Vector model = receive_model(session, graph, place);
    if (i == 0 || places[i - 1].row != place.row) is_over = is_over || !goes_on();
    if (is_over) continue;
    observer.add_snapshot(
        {place.node, place.row, place.time, std::move(model), place.weight, place.draws});
    // Evaluate the row now, so that its models can go.
    if (i + 1 == places.size() || places[i + 1].row != place.row) graph.flush();
  }
}

void gather_models(MpiSession& session, NodeBlock block, ComputeGraph& graph, Observer& observer) {
  std::vector<Place> own;
  for (NodeId node = block.begin; session.rank() != 0 && node < block.end; ++node) {
    own.push_back({0,
                   node,
                   session.rank(),
                   {},
                   observer.model(node) ? observer.model(node).size() : 0,
                   1,
                   0});
  }
  for (const Place& place : gather_places(session, own)) {
    if (place.size > 0) observer.set_model(place.node, receive_model(session, graph, place));
  }
  for (const Place& place : own) {
    if (place.size > 0) send_model(session, graph, observer.model(place.node));
  }
}

}  // namespace

void gather_results(MpiSession& session, NodeBlock block, ComputeGraph& graph, Observer& observer,
                    Recorder& recorder, bool with_models, const std::function<bool()>& goes_on) {
  graph.flush();  // scalars that were recorded reach their cells
  Packer packer;
  if (session.rank() != 0) pack(packer, block, recorder);
  const std::vector<std::string> told = session.gather(packer.bytes());
  // An evaluation may take longer than ranks wait for each other.
  if (session.rank() != 0) session.be_patient();
  for (std::size_t rank = 1; rank < told.size(); ++rank) {
    Unpacker unpacker(told[rank]);
    unpack(unpacker, recorder);
  }
  if (session.rank() == 0) sort_timeline(recorder);
  gather_diverged(session, graph, observer);
  gather_snapshots(session, graph, observer, goes_on);
  if (with_models) gather_models(session, block, graph, observer);
}

void gather_what_is_left(MpiSession& session, NodeBlock block, Recorder& recorder) {
  if (session.is_lost(session.rank())) return;  // for the others
  if (session.rank() != session.keeper()) {
    Packer packer;
    pack(packer, block, recorder);
    session.send_text(session.keeper(), packer.bytes());
    return;
  }
  for (int rank = session.rank() + 1; rank < session.ranks(); ++rank) {
    if (session.is_lost(rank)) continue;
    const std::string told = session.receive_text(rank);
    Unpacker unpacker(told);
    unpack(unpacker, recorder);
  }
  sort_timeline(recorder);
}

}  // namespace starling
