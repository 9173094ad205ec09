// ShardPlan: what one process runs of a window that all processes have recorded, and which rows cross between
// processes. Every process makes the plan of all, from the recording alone, and keeps its own part.
//
// Where an operation runs. A sum or transform belongs to the process of the node whose program recorded it; a
// gradient likewise; a number (distance, measure, evaluation) is taken where its first vector lies. What is made of
// nothing (the initial model, zeros) is made everywhere. A value lies where it was made, its home; a copy
// crosses to each process that reads it, once per window, only the part that is read, and dies there with
// its last reader.
//
// Chains. A sum over vectors of many homes (the mean model) would bring all rows together. It is cut where the home of
// its terms changes; each process adds its own terms to what the one before has passed on. That is the
// same chain of fused multiply-adds in the same order, so the bits are those of one process.
//
// Waves. The waves of the recorded order are numbered from 1, and a link of a chain gets a wave of its own. Waves are
// the same everywhere, though a process takes part in some only: what is read in a wave was made in an earlier one.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/node/blocks.hpp"
#include "sim/node/compute_graph.hpp"

namespace starling {

class ShardPlan {
 public:
  using ValueId = ComputeGraph::ValueId;
  using OperationId = ComputeGraph::OperationId;
  using Operation = ComputeGraph::Operation;
  using Term = ComputeGraph::Term;
  using Window = ComputeGraph::Window;
  using Wave = std::uint32_t;  // 0: before the window

  static constexpr std::int32_t everywhere = -1;

  /// Rows that cross from one process to another in one message: those made in one wave.
  struct Message {
    std::int32_t peer;
    Wave made;
    Wave needed;          // the first wave that reads one of them
    std::size_t floats;   // in all
    std::uint32_t first;  // into the rows
    std::uint32_t rows;
  };
  struct Row {
    ValueId value;
    std::uint32_t offset;  // of the part that crosses
    std::uint32_t size;
  };

  /// `own` is this process.
  ShardPlan(Blocks blocks, std::int32_t own, std::int32_t processes);

  /// Fills `mine` with this process's part of `whole`. Its waves are those of all processes.
  void cut(Window& whole, Window& mine);

  // --- Of the window cut last ------------------------------------------------------------------------------

  const std::vector<Message>& outgoing() const { return outgoing_; }  // by wave made
  const std::vector<Message>& incoming() const { return incoming_; }  // the same
  const std::vector<Row>& outgoing_rows() const { return outgoing_rows_; }
  const std::vector<Row>& incoming_rows() const { return incoming_rows_; }
  /// Older rows here that die in the window and that this process does not read.
  const std::vector<ValueId>& unread() const { return unread_; }
  /// Where the numbers of the window go, by the process that computes them.
  const std::vector<std::vector<double*>>& numbers() const { return numbers_; }
  /// Process that has the row of a value that lives on.
  std::int32_t home(ValueId value) const {
    return value < tracks_.size() ? tracks_[value].home : everywhere;
  }
  std::int32_t process_of(NodeId node) const { return blocks_[static_cast<std::size_t>(node)]; }
  /// A value that was not recorded lies in `home`.
  void put(ValueId value, std::int32_t home);
  /// What all processes have run, counted as one would.
  const GraphStatistics& statistics() const { return statistics_; }
  /// Counts on from `statistics`.
  void restore(const GraphStatistics& statistics) { statistics_ = statistics; }

 private:
  static constexpr std::uint32_t none = ComputeGraph::none;

  /// A value: where it lies, and what this window does with it.
  struct Track {
    std::int32_t home = everywhere;
    Wave made = 0;
    std::uint32_t readers = 0;      // of this process: operations, and a message to each other one
    std::uint32_t crossing = none;  // the first of it
  };
  struct Crossing {
    ValueId value;
    std::int32_t from, to;
    Wave made, needed;
    std::uint32_t begin, end;  // the part that is read
    std::uint32_t next;        // of the same value
  };
  /// A link of a chain, between two processes.
  struct Partial {
    ValueId value;
    std::uint32_t size;
  };

  bool is_here(std::int32_t home) const { return home == own_ || home == everywhere; }
  void start(Window& whole);
  static void fetch_ahead(const Window& whole, std::size_t index);
  Wave place(const Window& whole, const Operation& operation, Wave wave);
  std::int32_t process_of(const Window& whole, const Operation& operation) const;
  bool is_chained(const Window& whole, const Operation& operation, std::int32_t process);
  Wave chain(const Window& whole, const Operation& operation, Wave wave);
  void count(const Operation& operation);
  static constexpr std::uint32_t bit_of(ComputeGraph::Kind kind) {
    return 1U << static_cast<int>(kind);
  }
  /// Of a wave that has these kinds.
  void count_batches(std::uint32_t kinds);
  Crossing* find(ValueId value, std::int32_t to);
  void cross(const Term& term, std::int32_t to, Wave wave);
  void made(ValueId value, std::int32_t home, Wave wave);
  /// The operation and its terms run on `process`.
  void run(const Window& whole, const Operation& operation, std::int32_t process, Wave wave);
  /// An operation of this process, without terms yet; in the order, unless it is folded.
  void begin(const Operation& operation, Wave wave);
  /// One more term of it.
  void add(const Term& term);
  void resolve_uses(const Window& whole);
  void pack(bool is_outgoing, std::vector<Message>& messages, std::vector<Row>& rows);

  const Blocks blocks_;
  const std::int32_t own_;

  std::vector<Track> tracks_;        // by value
  std::vector<Crossing> crossings_;  // of all processes, as the recorded order asks for them
  std::vector<Partial> partials_;
  Window* mine_ = nullptr;
  std::vector<Message> outgoing_, incoming_;
  std::vector<Row> outgoing_rows_, incoming_rows_;
  std::vector<ValueId> unread_;
  std::vector<std::vector<double*>> numbers_;  // (processes)
  std::vector<std::uint32_t> picked_;
  GraphStatistics statistics_;
};

}  // namespace starling
