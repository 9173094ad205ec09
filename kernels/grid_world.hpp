// A grid world in which an agent finds its way to a goal: a small stand-in for point-goal navigation
// in photographed flats (Wijmans et al., "DD-PPO: Learning Near-Perfect PointGoal Navigators from 2.5
// Billion Frames", ICLR 2020). A map is a square of free cells and walls; an episode is a start and a
// goal on it. The agent moves up, right, down or left; a wall stops it. It sees the cells around
// itself, where the goal lies, and its last move.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/random.hpp"

namespace starling {

struct GridMap {
  int side = 0;
  std::vector<std::uint8_t> walls{};  // (side, side), 1 is a wall

  std::size_t cell(int row, int column) const {
    const int cell = row * side + column;
    return static_cast<std::size_t>(cell);
  }
  /// Outside of the map is wall.
  bool is_wall(int row, int column) const {
    return row < 0 || column < 0 || row >= side || column >= side || walls[cell(row, column)] != 0;
  }
};

/// Each cell is a wall with probability `obstacles`; drawn anew until two free cells are neighbors.
GridMap make_grid_map(int side, double obstacles, Random& random);

class Episode {
 public:
  static constexpr int moves = 4;  // up, right, down, left

  Episode() = default;
  /// Draws start and goal, different and connected. `map` outlives the episode.
  Episode(const GridMap& map, Random& random);

  /// Moves; returns how much nearer the goal is, along the shortest way: 1, 0 or -1.
  int move(int direction);
  /// Writes what the agent sees: walls around it row by row without its own cell, (goal - here) /
  /// side, down and right, then the last move (one of four is 1, all 0 at the start).
  void observe(int view, std::span<float> to) const;
  static std::size_t features(int view) {
    const int cells = (2 * view + 1) * (2 * view + 1) - 1;
    return static_cast<std::size_t>(cells) + 2 + moves;
  }

  bool is_at_goal() const { return distance() == 0; }
  /// Moves on the shortest way from here to the goal.
  int distance() const { return distances_[static_cast<std::size_t>(here_)]; }
  int shortest() const { return shortest_; }  // from the start
  int steps() const { return steps_; }        // moves so far, those against walls included
  /// Success weighted by path length (Anderson et al., "On Evaluation of Embodied Navigation Agents",
  /// 2018): shortest / length of the path taken at the goal, else 0. Moves against walls lengthen no path.
  double path_score() const;

 private:
  const GridMap* map_ = nullptr;
  std::vector<std::int32_t> distances_;  // (side, side) to the goal, -1 where there is no way
  int here_ = 0, goal_ = 0;
  int shortest_ = 0, steps_ = 0, path_ = 0, last_ = -1;
};

}  // namespace starling
