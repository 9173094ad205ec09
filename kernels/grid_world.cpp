#include "kernels/grid_world.hpp"

#include <algorithm>

#include "sim/base/error.hpp"

namespace starling {
namespace {

constexpr int row_steps[Episode::moves] = {-1, 0, 1, 0};
constexpr int column_steps[Episode::moves] = {0, 1, 0, -1};

int draw_free_cell(const GridMap& map, Random& random) {
  for (;;) {
    const auto cell = random.below(map.walls.size());
    if (map.walls[cell] == 0) return static_cast<int>(cell);
  }
}

bool has_neighbors(const GridMap& map) {
  for (int row = 0; row < map.side; ++row) {
    for (int column = 0; column < map.side; ++column) {
      if (map.is_wall(row, column)) continue;
      if (!map.is_wall(row + 1, column) || !map.is_wall(row, column + 1)) return true;
    }
  }
  return false;
}

/// Finds the moves from each cell to `goal`, breadth first, and answers which cells lead there; the distances of
/// all others stay as they are, -1.
std::vector<int> find_distances(const GridMap& map, int goal, std::span<std::int32_t> distances) {
  std::vector<int> queue = {goal};
  distances[static_cast<std::size_t>(goal)] = 0;
  for (std::size_t next = 0; next < queue.size(); ++next) {
    const int cell = queue[next];
    for (int m = 0; m < Episode::moves; ++m) {
      const int row = cell / map.side + row_steps[m], column = cell % map.side + column_steps[m];
      if (map.is_wall(row, column)) continue;
      std::int32_t& distance = distances[map.cell(row, column)];
      if (distance >= 0) continue;
      distance = distances[static_cast<std::size_t>(cell)] + 1;
      queue.push_back(row * map.side + column);
    }
  }
  return queue;
}

}  // namespace

GridMap make_grid_map(int side, double obstacles, Random& random) {
  ensure(side > 1 && obstacles < 1, "a grid needs room");
  GridMap map{.side = side};
  do {
    map.walls.clear();
    for (int cell = 0; cell < side * side; ++cell)
      map.walls.push_back(random.uniform() < obstacles);
  } while (!has_neighbors(map));
  return map;
}

Episode::Episode(const GridMap& map, Random& random)
    : map_(&map), distances_(map.walls.size(), -1) {
  for (;;) {
    goal_ = draw_free_cell(map, random);
    here_ = draw_free_cell(map, random);
    const std::vector<int> reached = find_distances(map, goal_, distances_);
    if (distance() > 0) break;
    // Where walls cut a map into many parts most tries fail: they cost what they reached, not the whole map.
    for (const int cell : reached) distances_[static_cast<std::size_t>(cell)] = -1;
  }
  shortest_ = distance();
}

int Episode::move(int direction) {
  const int before = distance();
  const int row = here_ / map_->side + row_steps[direction];
  const int column = here_ % map_->side + column_steps[direction];
  if (!map_->is_wall(row, column)) {
    here_ = row * map_->side + column;
    ++path_;
  }
  last_ = direction;
  ++steps_;
  return before - distance();
}

void Episode::observe(int view, std::span<float> to) const {
  ensure(to.size() == features(view), "room for an observation has the wrong size");
  const int row = here_ / map_->side, column = here_ % map_->side;
  auto out = to.begin();
  for (int r = row - view; r <= row + view; ++r) {
    for (int c = column - view; c <= column + view; ++c) {
      if (r != row || c != column) *out++ = map_->is_wall(r, c) ? 1.0f : 0.0f;
    }
  }
  const auto side = static_cast<float>(map_->side);
  const int goal_row = goal_ / map_->side;
  *out++ = static_cast<float>(goal_row - row) / side;
  *out++ = static_cast<float>(goal_ % map_->side - column) / side;
  for (int m = 0; m < moves; ++m) *out++ = m == last_ ? 1.0f : 0.0f;
}

double Episode::path_score() const {
  return is_at_goal() ? static_cast<double>(shortest_) / path_ : 0;
}

}  // namespace starling
