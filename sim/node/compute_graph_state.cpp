// What a ComputeGraph puts into a checkpoint, and how it takes it out again. A replay records as the run did, so the
// same values get the same ids; only nothing is handed to the executor, and numbers come from the journal.

#include <algorithm>
#include <array>

#include "sim/base/error.hpp"
#include "sim/node/compute_graph.hpp"
#include "sim/node/executor.hpp"
#include "sim/node/sharding.hpp"
#include "sim/record/checkpoint.hpp"

namespace starling {
namespace {

/// To be extended at the end.
constexpr auto all_counters = std::to_array<GraphStatistics::Counter>({
    {&GraphStatistics::gradients, "gradients"},
    {&GraphStatistics::sums, "sums"},
    {&GraphStatistics::transforms, "transforms"},
    {&GraphStatistics::distances, "distances"},
    {&GraphStatistics::evaluations, "evaluations"},
    {&GraphStatistics::joined, "joined"},
    {&GraphStatistics::shared, "shared"},
    {&GraphStatistics::dropped, "dropped"},
    {&GraphStatistics::gradient_batches, nullptr},
    {&GraphStatistics::sum_batches, nullptr},
    {&GraphStatistics::windows, "windows"},
    {&GraphStatistics::waves, "waves"},
    {&GraphStatistics::peak_bytes, "peak_bytes"},
    {&GraphStatistics::folded, "folded"},
    {&GraphStatistics::transform_batches, nullptr},
    {&GraphStatistics::distance_batches, nullptr},
    {&GraphStatistics::evaluation_batches, nullptr},
});

[[noreturn]] void went_astray(const std::string& what) {
  throw Error("the replay did not come to the checkpoint's place: " + what +
              "; a file that the scenario names may have changed");
}

}  // namespace

std::span<const GraphStatistics::Counter> GraphStatistics::counters() { return all_counters; }

void ComputeGraph::keep_journal() { journal_.keep(); }

void ComputeGraph::begin_replay(std::span<const double> journal) { journal_.begin_replay(journal); }

void ComputeGraph::set_window(std::int64_t bytes) { limits_.window_bytes = bytes; }

std::vector<Checkpoint::Vector> ComputeGraph::living_vectors() const {
  std::vector<Checkpoint::Vector> vectors;
  if (!has_numbers_) return vectors;
  for (ValueId id = 0; id < values_.size(); ++id) {
    if (values_[id].handles > 0) vectors.push_back({id, values_[id].size});
  }
  return vectors;
}

void ComputeGraph::describe(Checkpoint& checkpoint) {
  flush();
  if (Sharding* sharding = executor_->sharding()) sharding->wish({});
  agreed_ = {};  // what was wished is granted here
  const GraphStatistics statistics = this->statistics();
  checkpoint.counters.clear();
  for (const auto& counter : all_counters)
    checkpoint.counters.push_back(statistics.*counter.number);
  checkpoint.journal = journal_.numbers();
  checkpoint.numbers.clear();
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].handles > 0) checkpoint.numbers.push_back({slot, slots_[slot].number});
  }
  checkpoint.vectors = living_vectors();
}

void ComputeGraph::fetch(const Checkpoint::Vector& vector, std::span<float> to) {
  bring_up(vector.value);
  if (Sharding* sharding = executor_->sharding()) {
    const std::span<const float> values = sharding->fetch(vector.value, 0, vector.size);
    std::copy(values.begin(), values.end(), to.begin());  // process 0 alone has them
    return;
  }
  backend_.read(to, executor_->row(vector.value));
}

void ComputeGraph::end_replay(const CheckpointFile& file) {
  flush();
  const Checkpoint& saved = file.content();
  if (!journal_.is_used_up()) went_astray("the run had asked for more numbers by then");
  if (living_vectors() != saved.vectors) went_astray("other vectors are alive there");
  std::size_t found = 0;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].handles == 0) continue;
    if (found == saved.numbers.size() || saved.numbers[found].slot != slot)
      went_astray("other numbers are alive there");
    slots_[slot].number = saved.numbers[found++].number;
  }
  if (found != saved.numbers.size()) went_astray("fewer numbers are alive there");
  if (saved.counters.size() != all_counters.size()) went_astray("it counted other things");
  GraphStatistics statistics;
  for (std::size_t i = 0; i < all_counters.size(); ++i)
    statistics.*all_counters[i].number = saved.counters[i];
  executor_->restore(statistics);
  Sharding* sharding = executor_->sharding();
  for (std::size_t i = 0; i < saved.vectors.size(); ++i) {
    const auto [value, size] = saved.vectors[i];
    const NodeId recorder = values_[value].recorder;
    if (sharding != nullptr && recorder != nobody && !sharding->adopt(value, recorder)) continue;
    backend_.write(executor_->allocate(value, size), file.vector(i));
  }
  journal_.end_replay();
}

}  // namespace starling
