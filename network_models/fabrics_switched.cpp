// The fabrics whose ways are searched in the graph of their switches.

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "network_models/fabrics.hpp"
#include "network_models/galois.hpp"
#include "network_models/switch_graph.hpp"
#include "sim/base/random.hpp"

namespace starling::network_models {
namespace {

std::uint32_t switch_id(NodeId number) { return static_cast<std::uint32_t>(number); }

}  // namespace

// ----- slim fly

Cables slim_fly_cables(NodeId q) {
  // X and Y, the differences that join routers (0, x, .) and (1, m, .): the even and the odd powers
  // of the primitive element; with e = -1 the first half of each set likewise, the second half
  // swapped. Beyond exponent q - 2 the powers repeat.
  const GaloisField field(q);
  std::vector<char> in_x(static_cast<std::size_t>(q), 0);
  std::vector<char> in_y(static_cast<std::size_t>(q), 0);
  const NodeId w = (q + 1) / 4;
  for (NodeId i = 0; i < q; ++i) {
    const bool is_even = i % 2 == 0;
    const auto power = static_cast<std::size_t>(field.power(i));
    if (q % 4 != 3) {
      if (i == q - 1 && q % 4 == 1) continue;  // z^(q - 1) = z^0 again, of the other set if e = 0
      (is_even ? in_x : in_y)[power] = 1;
    } else {
      if (is_even == (i <= 2 * w - 2)) in_x[power] = 1;
      if (is_even == (i >= 2 * w)) in_y[power] = 1;
    }
  }
  Cables cables;
  const auto join = [&](NodeId a, NodeId b) { cables.emplace_back(switch_id(a), switch_id(b)); };
  for (NodeId x = 0; x < q; ++x) {
    for (NodeId y = 0; y < q; ++y) {
      for (NodeId other = y + 1; other < q; ++other) {
        const auto difference = static_cast<std::size_t>(field.subtract(other, y));
        if (in_x[difference] != 0) join(x * q + y, x * q + other);
        if (in_y[difference] != 0) join(q * q + x * q + y, q * q + x * q + other);
      }
      for (NodeId m = 0; m < q; ++m) {
        join(x * q + y, q * q + m * q + field.subtract(y, field.multiply(m, x)));
      }
    }
  }
  return cables;
}

Fabric slim_fly(NodeId q, NodeId hosts_per_router, Link link) {
  return graph_fabric(switch_id(2 * q * q), slim_fly_cables(q), hosts_per_router, link);
}

// ----- HyperX

Cables hyperx_cables(const std::vector<NodeId>& sides) {
  const NodeId switches = std::accumulate(sides.begin(), sides.end(), NodeId{1}, std::multiplies{});
  Cables cables;
  for (NodeId at = 0; at < switches; ++at) {
    NodeId stride = 1;
    for (const NodeId side : sides) {
      for (NodeId ahead = 1; at / stride % side + ahead < side; ++ahead) {
        cables.emplace_back(switch_id(at), switch_id(at + ahead * stride));
      }
      stride *= side;
    }
  }
  return cables;
}

Fabric hyperx(const std::vector<NodeId>& sides, NodeId hosts_per_switch, Link link) {
  const NodeId switches = std::accumulate(sides.begin(), sides.end(), NodeId{1}, std::multiplies{});
  return graph_fabric(switch_id(switches), hyperx_cables(sides), hosts_per_switch, link);
}

// ----- Jellyfish

namespace {

/// Cables between random switches with free ports, until no two that are not joined yet have any.
/// Two free ports that are left then, at one switch or at two, take a cable over: each gets one of
/// its ends.
class Jellyfish {
 public:
  Jellyfish(NodeId switches, NodeId degree, Random& random)
      : random_(random), free_ports_(static_cast<std::size_t>(switches), degree) {
    for (NodeId i = 0; i < switches; ++i) open_.push_back(switch_id(i));
    while (join_any()) {
    }
    while (std::accumulate(free_ports_.begin(), free_ports_.end(), NodeId{0}) >= 2) {
      const std::uint32_t one = open_.front();
      if (!split_any(one, free_ports_[one] >= 2 ? one : open_.back())) break;
    }
  }

  Cables cables() const { return {joined_.begin(), joined_.end()}; }

 private:
  static std::pair<std::uint32_t, std::uint32_t> cable(std::uint32_t a, std::uint32_t b) {
    return std::minmax(a, b);
  }
  bool is_joined(std::uint32_t a, std::uint32_t b) const { return joined_.contains(cable(a, b)); }

  void join(std::uint32_t a, std::uint32_t b) {
    joined_.insert(cable(a, b));
    for (const std::uint32_t i : {a, b}) {
      if (--free_ports_[i] == 0) std::erase(open_, i);
    }
  }

  bool join_any() {
    // Some tries at random, then all pairs in random order: near the end most are joined.
    for (int tries = 0; tries < 64 && open_.size() > 1; ++tries) {
      const std::uint32_t a = open_[random_.below(open_.size())];
      const std::uint32_t b = open_[random_.below(open_.size())];
      if (a == b || is_joined(a, b)) continue;
      join(a, b);
      return true;
    }
    Cables possible;
    for (std::size_t i = 0; i < open_.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (!is_joined(open_[i], open_[j])) possible.emplace_back(open_[i], open_[j]);
      }
    }
    if (possible.empty()) return false;
    const auto [a, b] = possible[random_.below(possible.size())];
    join(a, b);
    return true;
  }

  /// Puts `one` and `other`, maybe the same, between the ends of some cable.
  bool split_any(std::uint32_t one, std::uint32_t other) {
    const auto can_join = [&](std::uint32_t a, std::uint32_t b) {
      return a != b && !is_joined(a, b);
    };
    Cables possible;
    for (const auto& [a, b] : joined_) {
      if (can_join(a, one) && can_join(b, other)) possible.emplace_back(a, b);
      if (can_join(b, one) && can_join(a, other)) possible.emplace_back(b, a);
    }
    if (possible.empty()) return false;
    const auto [a, b] = possible[random_.below(possible.size())];
    joined_.erase(cable(a, b));
    ++free_ports_[a];
    ++free_ports_[b];
    join(a, one);
    join(b, other);
    return true;
  }

  Random& random_;
  std::vector<NodeId> free_ports_;
  std::vector<std::uint32_t> open_;  // with free ports
  std::set<std::pair<std::uint32_t, std::uint32_t>> joined_;
};

bool is_connected(NodeId switches, const Cables& cables) {
  std::vector<std::vector<std::uint32_t>> around(static_cast<std::size_t>(switches));
  for (const auto& [a, b] : cables) {
    around[a].push_back(b);
    around[b].push_back(a);
  }
  std::vector<char> is_reached(around.size(), 0);
  std::vector<std::uint32_t> queue{0};
  is_reached[0] = 1;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (const std::uint32_t next : around[queue[i]]) {
      if (std::exchange(is_reached[next], 1) == 0) queue.push_back(next);
    }
  }
  return queue.size() == around.size();
}

}  // namespace

Cables jellyfish_cables(NodeId switches, NodeId degree, std::uint64_t seed) {
  // A graph that falls apart is drawn again; for degree >= 3 that is rare.
  for (Step attempt = 0;; ++attempt) {
    Random random(seed, "jellyfish", shared_stream, attempt);
    Cables cables = Jellyfish(switches, degree, random).cables();
    if (is_connected(switches, cables)) return cables;
  }
}

Fabric jellyfish(NodeId switches, NodeId degree, NodeId hosts_per_switch, std::uint64_t seed,
                 Link link) {
  return graph_fabric(switch_id(switches), jellyfish_cables(switches, degree, seed),
                      hosts_per_switch, link);
}

}  // namespace starling::network_models
