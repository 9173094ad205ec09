// Node: the one class an algorithm talks to. A program is a coroutine over a Node that reads like the paper's
// pseudo-code; it cannot tell a simulation from a real run.
// Waiting verbs are awaited as temporaries: `const Message m = co_await node.receive(peer, tag);` What they wait with lies in
// the program's frame, so their classes must be complete here; that makes the file long.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/base/prefetch.hpp"
#include "sim/base/random.hpp"
#include "sim/base/task.hpp"
#include "sim/base/time.hpp"
#include "sim/base/types.hpp"
#include "sim/node/compute_graph.hpp"
#include "sim/node/exchange_plan.hpp"
#include "sim/node/message.hpp"
#include "sim/node/observer.hpp"
#include "sim/node/topology.hpp"
#include "sim/node/transport.hpp"

namespace starling {

/// The backward pass of a gradient whose pieces may leave before it has ended.
struct BackwardPass {
  Time begin{}, end{};
  Duration work{};  // less than what lies between if the node was away
};

/// What all nodes of a run share. Owned by the run, outlives every Node.
struct World {
  Transport& transport;
  ComputeGraph& graph;
  Observer& observer;
  const Topology& topology;
  Step steps;
  std::uint64_t seed;
  ExchangePlan plan = {};
  Piece whole = {0, graph.parameters(), 1.0};  // what travels where the plan cuts no pieces
  /// (nodes), of the last gradient in pieces; empty if exchanges do not overlap it.
  std::vector<BackwardPass> backward = std::vector<BackwardPass>(
      plan.overlaps_backward ? static_cast<std::size_t>(topology.nodes()) : 0);
  std::vector<NodeId> everybody = {};              // made when a node asks for it
  std::vector<std::vector<NodeId>> of_place = {};  // (places), the same
  bool makes_codes = false;                        // or reads them, see Node::encode
  /// Nodes whose program waits for their other fibres, and until when its time is accounted.
  std::unordered_map<NodeId, Time> joining = {};

  BackwardPass backward_of(NodeId node) const {
    return backward.empty() ? BackwardPass{} : backward[static_cast<std::size_t>(node)];
  }
};

/// Of a run that ends before its programs: accounts for what programs were doing then. Who waits for messages counts as waiting
/// for others.
void account_until(World& world, Time until);

class Node {
 public:
  Node(World& world, NodeId id) : world_(world), id_(id) {}
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // --- Identity and neighbors -----------------------------------------------------------------------------
  NodeId id() const { return id_; }
  NodeId nodes() const { return world_.topology.nodes(); }
  /// All of them, 0 .. n-1: one list, which outlives every fibre.
  std::span<const NodeId> everybody() const;
  /// Of all nodes, those that have this one's place among plan().collective_group consecutive ones; one list for all of them.
  std::span<const NodeId> of_same_place() const;
  Step steps() const { return world_.steps; }
  /// Whom to send to and from whom to receive at step `k`, in order of peer.
  Edges out(Step k = 0) const { return world_.topology.out(id_, k); }
  Edges in(Step k = 0) const { return world_.topology.in(id_, k); }
  double self_weight(Step k = 0) const { return world_.topology.self_weight(id_, k); }
  const Topology& topology() const { return world_.topology; }

  // --- Time and chance -------------------------------------------------------------------------------------
  Time now() const { return world_.transport.read_clock(id_); }
  /// The node's own stream for (purpose, k); that of another node; and one that is the same on every node.
  Random random(std::string_view purpose, Step k) const { return {world_.seed, purpose, id_, k}; }
  Random random_of(NodeId node, std::string_view purpose, Step k) const {
    return {world_.seed, purpose, node, k};
  }
  Random shared_random(std::string_view purpose, Step k) const {
    return {world_.seed, purpose, shared_stream, k};
  }
  /// Does nothing for so long, on the clock that now() reads; counts as waiting.
  class Sleep;
  Sleep sleep(Duration duration);

  // --- Numbers ---------------------------------------------------------------------------------------------
  /// The model all nodes start from.
  Vector initial_model() { return world_.graph.initial_model(); }
  Vector zeros(std::size_t size) { return world_.graph.zeros(size); }
  /// So many standard normal numbers, drawn from `random`.
  Vector normals(std::size_t size, Random random) { return world_.graph.normals(size, random); }
  std::size_t parameters() const { return world_.graph.parameters(); }
  /// Floats of each tensor of the model, first layer first. Empty: it is one tensor.
  std::span<const std::size_t> tensors() const { return world_.graph.facts().tensors; }
  /// The weight matrices of the model: where each lies and how large it is. Empty if it has none.
  std::span<const WeightMatrix> matrices() const { return world_.graph.facts().matrices; }
  /// Gradient of the node's next mini-batch at the snapshot `x`; takes the modelled (or real) time to compute, whatever
  /// other fibres of the node compute meanwhile.
  class ComputeGradient;
  ComputeGradient gradient(const Vector& x);
  /// Gradient of the draw-th mini-batch of node `owner`, whose samples this node holds, too (coded computing). Takes the
  /// time of a gradient of this node.
  ComputeGradient gradient_of(NodeId owner, Step draw, const Vector& x);
  /// The same, but abandoned as soon as a message by `tag` comes from `source`: then the answer is that message, and the node has
  /// computed until it came, or not at all if it was there.
  class GradientUnless;
  GradientUnless gradient_unless(NodeId source, Tag tag, NodeId owner, Step draw, const Vector& x);
  /// The same, but goes on when the backward pass begins if exchanges overlap it (ExchangePlan): piece by piece the
  /// gradient may then be used after stage_out(). For the program alone, which awaits finish_backward() before its step
  /// ends.
  ComputeGradient gradient_in_pieces(const Vector& x);
  class Until;
  Until finish_backward();

  // --- Messages --------------------------------------------------------------------------------------------
  /// Sends `values` (which may be empty) and `number` to node `to`, which may be the node itself: then at once. Never
  /// blocks.
  void send(NodeId to, Tag tag, Vector values = {}, double number = 0,
            Where where = Where::current());
  /// The same for a compressed vector; the receiver finds its words in the message's `values`.
  void send_code(NodeId to, Tag tag, const Code& code, double number = 0,
                 Where where = Where::current());
  /// The same for values in host memory, which stage_out() has brought there: see Host.
  void send_from_host(NodeId to, Tag tag, Vector values, double number = 0,
                      Where where = Where::current());
  void send_from_host(NodeId to, Tag tag, const Code& code, double number = 0,
                      Where where = Where::current());
  /// The first, as a step of a collective: see Message.
  void send_in_turn(NodeId to, Tag tag, Vector values, double number = 0,
                    Where where = Where::current());
  void send_in_turn(NodeId to, Tag tag, const Code& code, double number = 0,
                    Where where = Where::current());
  /// Waits for a message; any_source and any_tag accept all. Messages of one (source, tag) come in order.
  class Receive;
  Receive receive(NodeId source, Tag tag = any_tag);
  /// Waits for a message that matches one of `patterns`, at most until `deadline`. `patterns` must outlive the
  /// await. The result's `index` is patterns.size() if the deadline came first.
  class Select;
  Select select(std::span<const Pattern> patterns, std::optional<Time> deadline = std::nullopt);
  /// A message that has already arrived and matches, if any; does not wait.
  std::optional<Message> poll(NodeId source, Tag tag);

  /// Where long messages wait for their receivers (Rendezvous): posts receives for all that is sent to this node by `tag`, until
  /// close_receives(). For exchanges that take several messages, one after the other; before anybody's is waited for.
  void post_receives(Tag tag) {
    if (world_.transport.rendezvous() != nullptr) world_.transport.post(id_, tag);
  }
  void close_receives(Tag tag) {
    if (world_.transport.rendezvous() != nullptr) world_.transport.rendezvous()->close(id_, tag);
  }
  /// There, waits until all that this node has sent by `tag` is through; elsewhere only for what it has sent in turn, where the
  /// network says so (NetworkModel::is_sending).
  class Sent;
  Sent sent(Tag tag);

  // --- What exchanging costs beside the network (nothing over MPI, see Host) --------------------------------
  /// The pieces in which a model travels, in order of exchange; at least one.
  std::span<const Piece> pieces() const {
    return world_.plan.pieces.empty() ? std::span(&std::as_const(world_.whole), 1)
                                      : std::span(world_.plan.pieces);
  }
  const ExchangePlan& plan() const { return world_.plan; }
  /// The begin of an exchange, for stage_out(); no reading of the clock that a replay would have to repeat.
  Time begin_exchange() const { return world_.transport.now(); }
  /// Waits until the backward pass has come to `piece`.
  Until reached(const Piece& piece);
  /// The same, and until `v`, its values, are in host memory. Copies of an exchange
  /// follow each other from `since` on, beside everything else.
  Until stage_out(const Piece& piece, const Vector& v, Time since);
  /// The same for so many bytes in place of the piece.
  Until stage_out(const Piece& piece, std::int64_t bytes, Time since);
  /// Lets `v`, or so many bytes, be copied back to the device, beside everything else.
  void stage_in(const Vector& v) { stage_in(v.wire_bytes()); }
  void stage_in(std::int64_t bytes);
  /// Waits for the last of those copies.
  Until staged_in();
  /// Adds so many bytes, which have been received, to a sum in host memory.
  Until reduce(std::int64_t bytes);
  /// Copies so many bytes from one place of host memory to another.
  Until copy(std::int64_t bytes);
  /// Combines `v` with others in loops of the program's own that go through `arrays` of its size: those that come from
  /// memory, not what the operation has just touched, which is in the cache; but one per loop at least.
  Until operate(const Vector& v, int arrays);
  /// Makes codes of `count` vectors like `v`, or reads so many.
  Until encode(const Vector& v, std::size_t count = 1);
  Until decode(const Vector& v, std::size_t count = 1);
  /// Hands an operation to the node's communication thread.
  Until enter_operation();

  // --- Fibres ----------------------------------------------------------------------------------------------
  /// Starts a fibre of this node: the first is its program, whose time is accounted. Fibres of a node share its state
  /// and run alone between waits. A program returns after all that use its frame (algorithms/companions.hpp).
  void spawn(Task<> task);
  /// Until end_joining() the program waits for nothing but other fibres of the node: its time is accounted as theirs, that of
  /// what they wait for.
  void begin_joining();
  void end_joining();
  /// Meets the other members of a group (sorted, the same list on each; must outlive the await) in one
  /// closed-form step; see Transport::meet. Answers null where messages must be exchanged instead.
  class Meet;
  Meet meet(Tag tag, std::span<const NodeId> members, CollectiveKind kind, Vector value);
  Meet meet(Tag tag, std::span<const NodeId> members, CollectiveKind kind, const Code& code);
  /// Tells all other nodes in closed form; see Transport::announce. False: send messages instead.
  bool announce(Tag tag, double number);

  // --- Telling ---------------------------------------------------------------------------------------------
  /// Records a number of step `k`, in place of an earlier one; the metric's name, other than those that every run has,
  /// becomes a table in the results file. Steps that it has no row for (`record_every`) are left out.
  void record(std::string_view metric, Step k, double value, Where where = Where::current()) {
    check_metric(metric, where);
    world_.observer.record(id_, metric, k, value);
  }
  void record(std::string_view metric, Step k, const Scalar& s, Where where = Where::current()) {
    check_metric(metric, where);
    world_.observer.record(id_, metric, k, s);
  }
  /// Marks the end of step `k` with model `x`: counts the step, evaluates where the scenario asks for it. All steps of a
  /// run end, 0, 1, 2, .., each once. `weight`, which is positive where there are numbers: of x in the mean over the nodes
  /// (push-sum: mean of s / w with weights w is sum of s / sum of w).
  void end_step(Step k, const Vector& x, double weight = 1, Where where = Where::current()) {
    ensure(k == world_.observer.steps(id_) && k < world_.steps,
           "a step ends out of turn, or beyond the run's", where);
    check_model(x, where);
    ensure(weight > 0 || !x.has_numbers(), "a model without a positive weight in the mean", where);
    has_loss_ = 0;
    world_.observer.end_step(id_, k, x, world_.transport.now(), weight);
  }
  /// Says that the node's model, and with it perhaps its weight, changed after its last step (exchanges that were still under
  /// way).
  void set_final_model(const Vector& x, double weight = 1, Where where = Where::current()) {
    check_model(x, where);
    ensure(weight > 0 || !x.has_numbers(), "a model without a positive weight in the mean", where);
    world_.observer.set_final_model(id_, x, world_.transport.now(), weight);
  }

 private:
  friend class Signal;

  /// Which mini-batch, of whom; how many gradients of this node came before; and whose step's training loss it gives.
  struct Batch {
    NodeId owner;
    Step draw;
    Step count;
    Step step;  // -1: of none, as the step has one already
  };

  /// Of the gradient that begins now.
  Batch batch(NodeId owner, Step draw) {
    const Step step = has_loss_ != 0 ? -1 : world_.observer.steps(id_);
    has_loss_ = 1;
    world_.observer.note_batch(id_, draw);
    return {owner, draw, draws_++, step};
  }

  void check_gradient(NodeId owner, Step draw, const Vector& x) const;
  ComputeGradient compute(NodeId owner, Step draw, const Vector& x, bool is_in_pieces);
  /// Waits as long as cost(Host) says; not at all where there is no Host.
  template <class Cost>
  Until spend(const Cost& cost);
  void send(NodeId to, Message&& message, Where where);
  void check_model(const Vector& x, Where where) const {
    ensure(x.size() == parameters(), "a model of another size than the workload's", where);
  }
  static void check_metric(std::string_view metric, Where where) {
    ensure(metric != "time" && metric != "bytes_sent" && metric != "train_loss",
           "a metric with a name that every run's results have", where);
    ensure(is_metric_name(metric), "a metric whose name is empty, . or step, or has a /", where);
  }
  /// When the backward pass comes to `piece`; 0 if exchanges do not overlap it.
  Time time_of(const Piece& piece) const;

  World& world_;
  NodeId id_;
  std::uint32_t fibres_ : 31 = 0;   // spawned so far
  std::uint32_t has_loss_ : 1 = 0;  // whether a gradient gives the present step its training loss
  Step draws_ = 0;
};

/// All nodes of a run, side by side; they never move.
class Nodes {
 public:
  Nodes(World& world, NodeId count) : count_(static_cast<std::size_t>(count)) {
    static_assert(std::is_trivially_destructible_v<Node>);
    first_ = std::allocator<Node>().allocate(count_);
    for (NodeId i = 0; i < count; ++i) std::construct_at(first_ + i, world, i);
  }
  ~Nodes() { std::allocator<Node>().deallocate(first_, count_); }
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  Node* begin() { return first_; }
  Node* end() { return first_ + count_; }
  NodeRecords records() const { return {first_, sizeof(Node)}; }

 private:
  Node* first_;
  std::size_t count_;
};

/// Lets fibres of one node wait for each other. wait() suspends until the next notify(); there is no memory, so
/// wait in a loop on a condition. Waiting fibres go on in the order they came.
class Signal {
 public:
  explicit Signal(Node& node) : node_(node) {}
  class Wait;
  Wait wait();
  void notify();

 private:
  Node& node_;
  Wait* first_ = nullptr;  // of those that wait, a list
  Wait* last_ = nullptr;
};

using Program = std::function<Task<>(Node&)>;

// --- Awaiters ------------------------------------------------------------------------------------------------

/// Waits for a time; does not even suspend if that has come.
class [[nodiscard]] Node::Until {
 public:
  /// Waiting for others turns into communicating at `network_since`.
  Until(World& world, Time time, Time network_since = {}) : world_(world), time_(time) {
    wait_.network_since = network_since;
  }
  bool await_ready() const noexcept { return time_ <= world_.transport.now(); }
  void await_suspend(std::coroutine_handle<> handle) {
    world_.transport.suspend(wait_, handle);
    world_.transport.wake(*wait_.fibre, time_);
  }
  void await_resume();

 private:
  World& world_;
  Time time_;
  TimedWait wait_;
};

/// The same, but lets others go first in any case, and is waiting all along.
class [[nodiscard]] Node::Sleep {
 public:
  Sleep(World& world, Time until) : world_(world), time_(until) {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    Fibre& fibre = world_.transport.suspend(handle);
    world_.transport.wake(fibre, std::exchange(time_, world_.transport.now()));
  }
  void await_resume();

 private:
  World& world_;
  Time time_;  // until when; from then on, since when: nodes that idle keep no more
};

class [[nodiscard]] Node::Sent {
 public:
  Sent(World& world, NodeId node, Tag tag) : world_(world), node_(node), tag_(tag) {}
  bool await_ready() const noexcept { return !world_.transport.is_sending(node_, tag_); }
  void await_suspend(std::coroutine_handle<> handle) {
    world_.transport.suspend(wait_, handle);
    world_.transport.finish_sends(wait_, tag_);
  }
  void await_resume();

 private:
  World& world_;
  NodeId node_;
  Tag tag_;
  TimedWait wait_;
};

class [[nodiscard]] Node::ComputeGradient {
 public:
  ComputeGradient(World& world, Batch batch, const Vector& x, bool is_in_pieces)
      : world_(world), step_(batch.step) {
    wait_.x = x;
    wait_.owner = batch.owner;
    wait_.draw = batch.draw;
    wait_.count = batch.count;
    wait_.is_in_pieces = is_in_pieces;
  }
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    world_.transport.suspend(wait_, handle, true);
    world_.transport.compute(wait_);
  }
  Gradient await_resume();

 private:
  friend class Node::GradientUnless;
  /// Accounts for what was computed so far.
  void account();

  World& world_;
  Step step_;
  GradientWait wait_;
};

class [[nodiscard]] Node::GradientUnless {
 public:
  GradientUnless(Node& node, Pattern pattern, NodeId owner, Step draw, const Vector& x)
      : node_(node), pattern_{pattern}, owner_(owner), draw_(draw), x_(x) {
    unless_.patterns = pattern_;
  }
  bool await_ready() {
    unless_.message = node_.world_.transport.mailbox().take(node_.id(), pattern_, unless_.matched);
    return unless_.message != nullptr;
  }
  void await_suspend(std::coroutine_handle<> handle);
  /// One of the two.
  struct Result {
    std::optional<Gradient> gradient;
    Message message;
  };
  Result await_resume();

 private:
  Node& node_;
  std::array<Pattern, 1> pattern_;
  NodeId owner_;
  Step draw_;
  const Vector& x_;
  std::optional<ComputeGradient> gradient_;  // once it has begun
  ReceiveWait unless_;
};

class [[nodiscard]] Node::Select {
 public:
  Select(World& world, NodeId node, std::span<const Pattern> patterns, Time deadline)
      : world_(world), node_(node) {
    wait_.patterns = patterns;
    wait_.deadline = deadline;
  }
  bool await_ready() {
    wait_.message = world_.transport.mailbox().take(node_, wait_.patterns, wait_.matched);
    return wait_.message != nullptr;
  }
  void await_suspend(std::coroutine_handle<> handle) {
    world_.transport.suspend(wait_, handle);
    world_.transport.receive(wait_);
  }
  struct Result {
    std::size_t index;
    Message message;
  };
  Result await_resume();

 private:
  friend class Node::Receive;
  /// What the receive got, if it got one; accounts for the waiting.
  Message message();

  World& world_;
  NodeId node_;
  ReceiveWait wait_;
};

class [[nodiscard]] Node::Receive {
 public:
  Receive(World& world, NodeId node, Pattern pattern)
      : pattern_{pattern}, select_(world, node, std::span<const Pattern>(pattern_), Time::max()) {}
  bool await_ready() { return select_.await_ready(); }
  void await_suspend(std::coroutine_handle<> handle) { select_.await_suspend(handle); }
  Message await_resume() { return select_.message(); }

 private:
  std::array<Pattern, 1> pattern_;
  Select select_;
};

class [[nodiscard]] Node::Meet {
 public:
  Meet(World& world, Tag tag, std::span<const NodeId> members, CollectiveKind kind, Vector value,
       std::int64_t bytes)
      : world_(world) {
    wait_.tag = tag;
    wait_.members = members;
    wait_.kind = kind;
    wait_.value = std::move(value);
    wait_.bytes_brought = bytes;
  }
  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> handle) {
    world_.transport.suspend(wait_, handle);
    return world_.transport.meet(wait_);
  }
  /// What every member brought; null if the caller must exchange messages itself.
  std::shared_ptr<Met> await_resume();

 private:
  World& world_;
  MeetWait wait_;
};

class [[nodiscard]] Signal::Wait {
 public:
  explicit Wait(Signal& signal) : signal_(signal) {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    signal_.node_.world_.transport.suspend(wait_, handle);
    (signal_.last_ == nullptr ? signal_.first_ : signal_.last_->next_) = this;
    signal_.last_ = this;
  }
  void await_resume();

 private:
  friend class Signal;

  Signal& signal_;
  TimedWait wait_;
  Wait* next_ = nullptr;
};

// --- Verbs that most runs pass without waiting ---------------------------------------------------------------------

inline Node::Receive Node::receive(NodeId source, Tag tag) { return {world_, id_, {source, tag}}; }

inline Node::Sent Node::sent(Tag tag) { return {world_, id_, tag}; }

inline Node::Until Node::finish_backward() {
  const Time end = world_.backward_of(id_).end;
  return {world_, end, end};
}

inline Node::Until Node::reached(const Piece& piece) {
  const Time ready = time_of(piece);
  return {world_, ready, ready};
}

inline Node::Until Node::stage_out(const Piece& piece, std::int64_t bytes, Time since) {
  const Time ready = time_of(piece);
  Host* host = world_.transport.host();
  const Time out = host == nullptr ? ready : host->copy_out(id_, std::max(since, ready), bytes);
  return {world_, out, ready};
}

inline Node::Until Node::stage_out(const Piece& piece, const Vector& v, Time since) {
  return stage_out(piece, v.wire_bytes(), since);
}

inline void Node::stage_in(std::int64_t bytes) {
  Host* host = world_.transport.host();
  if (host != nullptr) host->copy_in(id_, world_.transport.now(), bytes);
}

inline Node::Until Node::staged_in() {
  const Host* host = world_.transport.host();
  return {world_, host == nullptr ? Time{} : host->copied_in(id_)};
}

template <class Cost>
Node::Until Node::spend(const Cost& cost) {
  Host* host = world_.transport.host();
  if (host == nullptr) return {world_, Time{}};
  return {world_, after(world_.transport.now(), cost(*host))};
}

inline Node::Until Node::reduce(std::int64_t bytes) {
  return spend([&](Host& host) { return host.reduction(bytes); });
}

inline Node::Until Node::copy(std::int64_t bytes) {
  return spend([&](Host& host) { return host.copying(bytes); });
}

inline Node::Until Node::operate(const Vector& v, int arrays) {
  return spend([&](Host& host) { return host.operation(v.wire_bytes(), arrays); });
}

inline Node::Until Node::encode(const Vector& v, std::size_t count) {
  world_.makes_codes |= count > 0;
  return spend([&](Host& host) { return host.encoding(v.wire_bytes(), count); });
}

inline Node::Until Node::decode(const Vector& v, std::size_t count) {
  world_.makes_codes |= count > 0;
  return spend([&](Host& host) { return host.decoding(v.wire_bytes(), count); });
}

}  // namespace starling
