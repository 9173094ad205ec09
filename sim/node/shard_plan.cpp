#include "sim/node/shard_plan.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/prefetch.hpp"

namespace starling {
namespace {

/// A message grows no longer than this, unless a single row does: 64 MiB.
constexpr std::size_t most_floats = std::size_t{1} << 24;
/// A sum with no more foreign terms than this fetches them.
constexpr std::size_t few_terms = 4;
/// Operations of a level lie far apart in the recording: so many ahead are on their way from memory.
constexpr std::size_t ahead = 8;

}  // namespace

ShardPlan::ShardPlan(Blocks blocks, std::int32_t own, std::int32_t processes)
    : blocks_(std::move(blocks)), own_(own), numbers_(static_cast<std::size_t>(processes)) {}

void ShardPlan::put(ValueId value, std::int32_t home) {
  if (tracks_.size() <= value) tracks_.resize(value + 1);
  tracks_[value].home = home;
}

void ShardPlan::start(Window& whole) {
  if (tracks_.size() < whole.value_count) tracks_.resize(whole.value_count);
  for (const auto& use : whole.uses) tracks_[use.value] = {.home = tracks_[use.value].home};
  crossings_.clear();
  partials_.clear();
  unread_.clear();
  for (auto& numbers : numbers_) numbers.clear();
  mine_->operations.clear();
  mine_->terms.clear();
  mine_->order.clear();
  mine_->uses.clear();
  mine_->garbage.clear();
  mine_->value_count = whole.value_count;
  std::swap(mine_->transforms, whole.transforms);
  std::swap(mine_->measures, whole.measures);
  std::swap(mine_->batches, whole.batches);
}

void ShardPlan::fetch_ahead(const Window& whole, std::size_t index) {
  const auto fetch = [](const auto& item) { prefetch(&item, sizeof(item)); };
  if (index + 2 * ahead >= whole.order.size()) return;
  fetch(whole.operations[whole.order[index + 2 * ahead]]);
  const Operation& soon = whole.operations[whole.order[index + ahead]];
  if (soon.first_term != none) fetch(whole.terms[soon.first_term]);
  if (soon.next_folded != none) fetch(whole.operations[soon.next_folded]);
}

void ShardPlan::cut(Window& whole, Window& mine) {
  mine_ = &mine;
  start(whole);
  ++statistics_.windows;
  const auto recorded = [&](std::size_t i) { return whole.operations[whole.order[i]].wave; };
  Wave wave = 0;
  for (std::size_t begin = 0, end = 0; begin < whole.order.size(); begin = end) {
    ++wave;
    ++statistics_.waves;
    Wave links = 0;
    std::uint32_t kinds = 0;  // a bit for each that the wave has
    for (; end < whole.order.size() && recorded(end) == recorded(begin); ++end) {
      fetch_ahead(whole, end);
      const Operation& operation = whole.operations[whole.order[end]];
      count(operation);
      kinds |= bit_of(operation.kind);
      links = std::max(links, place(whole, operation, wave));
    }
    count_batches(kinds);
    wave += links;
  }
  // Links of chains run in later waves than operations of their level that were placed after them.
  if (!partials_.empty()) {
    std::stable_sort(mine.order.begin(), mine.order.end(), [&](OperationId a, OperationId b) {
      return mine.operations[a].wave < mine.operations[b].wave;
    });
  }
  resolve_uses(whole);
  pack(true, outgoing_, outgoing_rows_);
  pack(false, incoming_, incoming_rows_);
}

void ShardPlan::count(const Operation& operation) {
  switch (operation.kind) {
    case ComputeGraph::Kind::sum:
    case ComputeGraph::Kind::concatenation:
      ++statistics_.sums;
      break;
    case ComputeGraph::Kind::transform:
      ++statistics_.transforms;
      break;
    case ComputeGraph::Kind::distance:
    case ComputeGraph::Kind::measure:
      ++statistics_.distances;
      break;
    case ComputeGraph::Kind::evaluation:
      ++statistics_.evaluations;
      break;
    case ComputeGraph::Kind::gradient:
      ++statistics_.gradients;
      break;
  }
}

void ShardPlan::count_batches(std::uint32_t kinds) {
  using Kind = ComputeGraph::Kind;
  const auto has = [kinds](Kind kind) { return (kinds & bit_of(kind)) != 0; };
  statistics_.sum_batches += has(Kind::sum) || has(Kind::concatenation);
  statistics_.transform_batches += has(Kind::transform);
  statistics_.distance_batches += has(Kind::distance) + has(Kind::measure);
  statistics_.evaluation_batches += has(Kind::evaluation);
  statistics_.gradient_batches += has(Kind::gradient);
}

// --- Where operations run ------------------------------------------------------------------------------------

std::int32_t ShardPlan::process_of(const Window& whole, const Operation& operation) const {
  if (operation.out == none) {  // a number: where its vectors are
    for (std::uint32_t t = operation.first_term; t != none; t = whole.terms[t].next) {
      const std::int32_t home = tracks_[whole.terms[t].value].home;
      if (home != everywhere) return home;
    }
  } else if (operation.first_term == none) {
    return everywhere;
  }
  return process_of(operation.recorder);
}

bool ShardPlan::is_chained(const Window& whole, const Operation& operation, std::int32_t process) {
  if (operation.kind != ComputeGraph::Kind::sum || operation.term_count <= few_terms) return false;
  std::size_t passes = 0;   // from process to process, the result included
  std::size_t fetched = 0;  // rows that would cross instead
  std::int32_t last = everywhere;
  for (std::uint32_t t = operation.first_term; t != none; t = whole.terms[t].next) {
    const ValueId value = whole.terms[t].value;
    const std::int32_t home = tracks_[value].home;
    if (home == everywhere) continue;
    if (home != last && last != everywhere) ++passes;
    last = home;
    if (home != process && find(value, process) == nullptr) ++fetched;
  }
  if (last != process) ++passes;
  return fetched > few_terms && passes <= fetched;
}

ShardPlan::Wave ShardPlan::place(const Window& whole, const Operation& operation, Wave wave) {
  const std::int32_t process = process_of(whole, operation);
  if (is_chained(whole, operation, process)) return chain(whole, operation, wave);
  run(whole, operation, process, wave);
  const Operation* folded = &operation;
  while (folded->next_folded != none) {  // sums that are computed with this gradient
    const bool is_mine = process == own_;
    const auto host = static_cast<OperationId>(mine_->operations.size() - 1);
    folded = &whole.operations[folded->next_folded];
    ++statistics_.sums;
    ++statistics_.folded;
    if (is_mine) mine_->operations[host].next_folded = host + 1;
    run(whole, *folded, process, wave);
  }
  return 0;
}

void ShardPlan::run(const Window& whole, const Operation& operation, std::int32_t process,
                    Wave wave) {
  if (process != everywhere) {
    for (std::uint32_t t = operation.first_term; t != none; t = whole.terms[t].next) {
      cross(whole.terms[t], process, wave);
    }
    for (ComputeGraph::Slot* scalar : operation.scalars) {
      if (scalar != nullptr) numbers_[static_cast<std::size_t>(process)].push_back(&scalar->number);
    }
  }
  if (operation.out != none) made(operation.out, process, wave);
  if (process != own_ && process != everywhere) return;
  begin(operation, wave);
  for (std::uint32_t t = operation.first_term; t != none; t = whole.terms[t].next) {
    add(whole.terms[t]);
  }
}

ShardPlan::Wave ShardPlan::chain(const Window& whole, const Operation& operation, Wave wave) {
  Wave link = 0;
  std::uint32_t t = operation.first_term;
  for (Term partial{}; t != none; ++link) {
    // The link runs up to the first term that lies elsewhere.
    const std::uint32_t first = t;
    std::int32_t process = everywhere;
    for (; t != none; t = whole.terms[t].next) {
      const std::int32_t home = tracks_[whole.terms[t].value].home;
      if (process == everywhere) process = home;
      if (home != everywhere && home != process) break;
    }
    if (link > 0) cross(partial, process, wave + link);
    if (process == own_) {
      begin(operation, wave + link);
      if (link > 0) add(partial);
      for (std::uint32_t s = first; s != t; s = whole.terms[s].next) add(whole.terms[s]);
    }
    ValueId out = operation.out;
    if (t != none) {
      out = static_cast<ValueId>(mine_->value_count++);
      if (tracks_.size() <= out) tracks_.resize(out + 1);
      tracks_[out] = {};
      partials_.push_back({out, operation.size});
      partial = {.value = out, .offset = 0, .size = operation.size, .factor = 1.0F, .next = none};
    }
    made(out, process, wave + link);
    if (process == own_) mine_->operations.back().out = out;
  }
  return link - 1;
}

// --- What crosses --------------------------------------------------------------------------------------------

ShardPlan::Crossing* ShardPlan::find(ValueId value, std::int32_t to) {
  for (std::uint32_t c = tracks_[value].crossing; c != none; c = crossings_[c].next) {
    if (crossings_[c].to == to) return &crossings_[c];
  }
  return nullptr;
}

void ShardPlan::cross(const Term& term, std::int32_t to, Wave wave) {
  const std::int32_t home = tracks_[term.value].home;
  if (home == to || home == everywhere) return;
  const std::uint32_t end = term.offset + term.size;
  if (Crossing* known = find(term.value, to)) {
    known->begin = std::min(known->begin, term.offset);
    known->end = std::max(known->end, end);
    return;
  }
  Track& track = tracks_[term.value];
  crossings_.push_back({.value = term.value,
                        .from = home,
                        .to = to,
                        .made = track.made,
                        .needed = wave,
                        .begin = term.offset,
                        .end = end,
                        .next = track.crossing});
  track.crossing = static_cast<std::uint32_t>(crossings_.size() - 1);
  if (home == own_) ++track.readers;  // who packs it
}

void ShardPlan::made(ValueId value, std::int32_t home, Wave wave) {
  tracks_[value].home = home;
  tracks_[value].made = wave;
}

// --- The part of this process --------------------------------------------------------------------------------

void ShardPlan::begin(const Operation& operation, Wave wave) {
  if (operation.fate != ComputeGraph::Fate::folded) {
    mine_->order.push_back(static_cast<OperationId>(mine_->operations.size()));
  }
  mine_->operations.push_back(operation);
  Operation& copy = mine_->operations.back();
  copy.wave = wave;
  copy.first_term = copy.last_term = copy.next_folded = none;
  copy.term_count = 0;
}

void ShardPlan::add(const Term& term) {
  Operation& operation = mine_->operations.back();
  const auto index = static_cast<std::uint32_t>(mine_->terms.size());
  (operation.first_term == none ? operation.first_term : mine_->terms[operation.last_term].next) =
      index;
  operation.last_term = index;
  ++operation.term_count;
  mine_->terms.push_back(term);
  mine_->terms.back().next = none;
  ++tracks_[term.value].readers;
}

void ShardPlan::resolve_uses(const Window& whole) {
  const auto resolve = [&](ValueId value, std::uint32_t size, bool dies) {
    const Track& track = tracks_[value];
    if (is_here(track.home)) {
      mine_->uses.push_back({.value = value, .size = size, .readers = track.readers, .dies = dies});
      if (dies && track.readers == 0 && track.made == 0) unread_.push_back(value);
    } else if (const Crossing* copy = find(value, own_)) {
      mine_->uses.push_back({.value = value,
                             .size = copy->end - copy->begin,
                             .readers = track.readers,
                             .dies = true});
    }
  };
  for (const auto& use : whole.uses) resolve(use.value, use.size, use.dies);
  for (const Partial& partial : partials_) resolve(partial.value, partial.size, true);
  for (const ValueId value : whole.garbage) {
    if (is_here(tracks_[value].home)) mine_->garbage.push_back(value);
  }
  for (Term& term : mine_->terms) {  // a copy holds only the part that is read
    if (!is_here(tracks_[term.value].home)) term.offset -= find(term.value, own_)->begin;
  }
}

void ShardPlan::pack(bool is_outgoing, std::vector<Message>& messages, std::vector<Row>& rows) {
  const auto peer = [&](const Crossing& c) { return is_outgoing ? c.to : c.from; };
  picked_.clear();
  for (std::uint32_t c = 0; c < crossings_.size(); ++c) {
    if ((is_outgoing ? crossings_[c].from : crossings_[c].to) == own_) picked_.push_back(c);
  }
  std::stable_sort(picked_.begin(), picked_.end(), [&](std::uint32_t a, std::uint32_t b) {
    const Crossing& p = crossings_[a];
    const Crossing& q = crossings_[b];
    return std::pair(p.made, peer(p)) < std::pair(q.made, peer(q));
  });
  messages.clear();
  rows.clear();
  for (const std::uint32_t c : picked_) {
    const Crossing& crossing = crossings_[c];
    const std::uint32_t size = crossing.end - crossing.begin;
    if (messages.empty() || messages.back().peer != peer(crossing) ||
        messages.back().made != crossing.made || messages.back().floats + size > most_floats) {
      messages.push_back({.peer = peer(crossing),
                          .made = crossing.made,
                          .needed = crossing.needed,
                          .floats = 0,
                          .first = static_cast<std::uint32_t>(rows.size()),
                          .rows = 0});
    }
    Message& message = messages.back();
    message.needed = std::min(message.needed, crossing.needed);
    message.floats += size;
    ++message.rows;
    rows.push_back({crossing.value, crossing.begin, size});
  }
}

}  // namespace starling
