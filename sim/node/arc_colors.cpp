#include "sim/node/arc_colors.hpp"

#include <algorithm>
#include <numeric>
#include <span>

namespace starling {
namespace {

constexpr std::uint32_t none = ~std::uint32_t{0};
constexpr std::size_t most_places = std::size_t{1} << 26;  // of nodes times colors: 512 MiB

class Coloring {
 public:
  explicit Coloring(const ArcColors& arcs)
      : arcs_(arcs), nodes_(arcs.begin.size() - 1), senders_(arcs.receivers.size()) {
    std::vector<std::size_t> entering(nodes_, 0);
    for (std::size_t node = 0; node < nodes_; ++node) {
      for (std::size_t arc = arcs.begin[node]; arc < arcs.begin[node + 1]; ++arc) {
        senders_[arc] = static_cast<NodeId>(node);
        ++entering[static_cast<std::size_t>(arcs.receivers[arc])];
      }
      degree_ = std::max(degree_, arcs.begin[node + 1] - arcs.begin[node]);
    }
    if (nodes_ > 0) degree_ = std::max(degree_, std::ranges::max(entering));
  }

  /// Whether two would send to one in the same turn if all went around.
  bool collides_around() const {
    std::vector<bool> taken(nodes_ * degree_);  // (receivers, turns)
    for (std::size_t node = 0; node < nodes_; ++node) {
      const auto own = std::span(arcs_.receivers)
                           .subspan(arcs_.begin[node], arcs_.begin[node + 1] - arcs_.begin[node]);
      const auto above = std::ranges::upper_bound(own, static_cast<NodeId>(node)) - own.begin();
      for (std::size_t turn = 0; turn < own.size(); ++turn) {
        const NodeId to = own[(static_cast<std::size_t>(above) + turn) % own.size()];
        const std::size_t place = static_cast<std::size_t>(to) * degree_ + turn;
        if (taken[place]) return true;
        taken[place] = true;
      }
    }
    return false;
  }

  bool is_too_large() const { return nodes_ * degree_ > most_places; }

  /// Colors all arcs, one after the other.
  std::vector<std::uint32_t> colors() {
    leaving_.assign(nodes_ * degree_, none);
    entering_.assign(nodes_ * degree_, none);
    color_.assign(senders_.size(), none);
    for (std::uint32_t arc = 0; arc < senders_.size(); ++arc) {
      const std::uint32_t here = free_color(leaving_, senders_[arc]);
      const std::uint32_t there = free_color(entering_, arcs_.receivers[arc]);
      if (here != there) free_at_receiver(arcs_.receivers[arc], here, there);
      paint(arc, here);
    }
    return std::move(color_);
  }

 private:
  std::uint32_t& at(std::vector<std::uint32_t>& side, NodeId node, std::uint32_t color) {
    return side[static_cast<std::size_t>(node) * degree_ + color];
  }

  std::uint32_t free_color(const std::vector<std::uint32_t>& side, NodeId node) const {
    const auto own = std::span(side).subspan(static_cast<std::size_t>(node) * degree_, degree_);
    return static_cast<std::uint32_t>(std::ranges::find(own, none) - own.begin());
  }

  void paint(std::uint32_t arc, std::uint32_t color) {
    color_[arc] = color;
    at(leaving_, senders_[arc], color) = arc;
    at(entering_, arcs_.receivers[arc], color) = arc;
  }

  /// Swaps the two colors along the path that begins with `color` at the receiver, which has no `other`. It cannot come to a
  /// sender without `color`: it enters senders by that.
  void free_at_receiver(NodeId receiver, std::uint32_t color, std::uint32_t other) {
    std::vector<std::uint32_t> path;
    for (std::uint32_t arc = at(entering_, receiver, color); arc != none;) {
      path.push_back(arc);
      arc = path.size() % 2 == 1 ? at(leaving_, senders_[arc], other)
                                 : at(entering_, arcs_.receivers[arc], color);
    }
    for (const std::uint32_t arc : path) {
      at(leaving_, senders_[arc], color_[arc]) = none;
      at(entering_, arcs_.receivers[arc], color_[arc]) = none;
    }
    for (const std::uint32_t arc : path) paint(arc, color_[arc] == color ? other : color);
  }

  const ArcColors& arcs_;
  std::size_t nodes_;
  std::size_t degree_ = 0;
  std::vector<NodeId> senders_;  // (arcs)
  std::vector<std::uint32_t> leaving_,
      entering_;                      // (nodes, colors): the arc of that color, or none
  std::vector<std::uint32_t> color_;  // (arcs)
};

}  // namespace

std::vector<std::uint32_t> ArcColors::turns() const {
  Coloring coloring(*this);
  if (coloring.is_too_large() || !coloring.collides_around()) return {};
  const std::vector<std::uint32_t> color = coloring.colors();
  std::vector<std::uint32_t> turns(receivers.size());
  for (std::size_t node = 0; node + 1 < begin.size(); ++node) {
    const auto own = std::span(turns).subspan(begin[node], begin[node + 1] - begin[node]);
    std::iota(own.begin(), own.end(), 0U);
    std::ranges::sort(own, {}, [&](std::uint32_t place) { return color[begin[node] + place]; });
  }
  return turns;
}

}  // namespace starling
