// The table of routes.

#include "network_models/links.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include <fmt/core.h>

#include "network_models/clock_range.hpp"
#include "sim/base/error.hpp"
#include "sim/base/units.hpp"

namespace starling::network_models {

Duration parse_latency(std::string_view text) {
  const Duration latency = parse_duration(text);
  if (latency > longest_latency) {
    throw std::invalid_argument(
        fmt::format("must be at most {}, got {}", to_text(longest_latency), text));
  }
  return latency;
}

namespace {

constexpr std::size_t per_source = 4;  // slots

}  // namespace

// The finalizer of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
std::uint64_t way_between(NodeId a, NodeId b) {
  const auto [low, high] = std::minmax(a, b);
  auto z = static_cast<std::uint64_t>(low) << 32 | static_cast<std::uint64_t>(high);
  z += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

std::string host_link_name(LinkId link) {
  return fmt::format("host {} {}", link / 2, link % 2 == 0 ? "up" : "down");
}

// ----- Routes

Routes::Routes(Fabric fabric) : fabric_(std::move(fabric)), slots_(1024) {}

// The first pairs of a source have slots beside each other, so that nodes that send in order find theirs in order; the others
// anywhere (double hashing: those slots are a long full stretch, which steps of one would walk along).
Routes::Slot& Routes::slot_of(NodeId source, NodeId destination) {
  const auto is_it = [&](const Slot& slot) {
    return slot.number == no_route ||
           (slot.destination == destination && routes_[slot.number].source == source);
  };
  const std::size_t mask = slots_.size() - 1;
  Slot* const first = &slots_[static_cast<std::size_t>(source) * per_source & mask];
  for (std::size_t j = 0; j < per_source; ++j) {
    if (is_it(first[j])) return first[j];
  }
  const auto pair =
      static_cast<std::uint64_t>(source) << 32 | static_cast<std::uint32_t>(destination);
  const std::uint64_t hash = pair * 0x9E3779B97F4A7C15u;
  const std::size_t step = hash >> 48 | 1;
  std::size_t i = hash >> 32 & mask;
  while (!is_it(slots_[i])) i = (i + step) & mask;
  return slots_[i];
}

void Routes::grow() {
  slots_.assign(2 * slots_.size(), {});
  for (std::uint32_t number = 0; number < routes_.size(); ++number) {
    const Route& route = routes_[number];
    slot_of(route.source, route.destination) = {route.destination, number};
  }
}

std::uint32_t Routes::keep(const std::vector<LinkId>& links) {
  if (arena_.empty() || arena_.back().capacity() - arena_.back().size() < links.size()) {
    arena_.emplace_back();
    arena_.back().reserve(std::max<std::size_t>(block_size, links.size()));
  }
  std::vector<LinkId>& block = arena_.back();
  const std::size_t first = (arena_.size() - 1) * block_size + block.size();
  ensure(first < no_route, "the links of routes have numbers");
  block.insert(block.end(), links.begin(), links.end());
  // A longer one takes the numbers of the blocks that it is as long as.
  arena_.resize(arena_.size() + (block.size() - 1) / block_size);
  return static_cast<std::uint32_t>(first);
}

std::uint32_t Routes::find(NodeId source, NodeId destination) {
  const Slot& known = slot_of(source, destination);
  if (known.number != no_route) [[likely]]
    return known.number;

  scratch_.clear();
  fabric_.route(source, destination, scratch_);
  ensure(!scratch_.empty(), "a route crosses a link");
  Duration latency{};
  for (const LinkId link : scratch_) latency = sum(latency, fabric_.links[link].latency);
  const auto number = static_cast<std::uint32_t>(routes_.size());
  if (4 * (routes_.size() + 1) > 3 * slots_.size()) grow();
  slot_of(source, destination) = {destination, number};
  routes_.push_back(
      {source, destination, latency, keep(scratch_), static_cast<std::uint32_t>(scratch_.size())});
  return number;
}

double Routes::bytes_per_second(std::uint32_t number) const {
  double slowest = MaxMin::unbounded;
  for (const LinkId link : links_of(number)) {
    slowest = std::min(slowest, fabric_.links[link].bytes_per_second);
  }
  return slowest;
}

}  // namespace starling::network_models
