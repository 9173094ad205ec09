// Peers: the processes that share one simulation, as one of them sees the others. All have recorded the same
// windows, so both sides of a transfer know what crosses, in which order and of which size: nothing is
// negotiated, only numbers travel.
//
// Failures. Whoever fails says so and goes to end_window(); the others learn of it while they wait or between two
// waves, finish what comes before that place and go there, too. So all agree on the first failure, as one process
// would have met it, and end with the same sentence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/node/wish.hpp"

namespace starling {

/// Where in a window something happens: its wave in the high half, the node in the low.
using Place = std::uint64_t;
constexpr Place nowhere = ~Place{0};

/// Another process has failed before this place: go to end_window().
struct Abandoned {};

/// Other processes have ended or hang; the same on all that are left, but for the moment of it.
class Lost : public Error {
 public:
  using Error::Error;
};

class Peers {
 public:
  virtual ~Peers() = default;
  virtual int own() const = 0;  // this process, from 0
  virtual int count() const = 0;

  /// Sends rows; returns at once.
  virtual void send(int to, std::vector<float>&& numbers) = 0;
  /// Waits until all that was sent has left. Only where the others do nothing but receive.
  virtual void clear() = 0;
  /// Begins to receive what `from` sends next.
  virtual void expect(int from, std::size_t size) = 0;
  /// Waits for the oldest message expected from `from`. Throws Abandoned if somebody has failed before `here`.
  virtual std::vector<float> take(int from, Place here) = 0;
  /// Throws Abandoned if somebody has failed before `here`, Interrupted if this process was asked to end.
  virtual void look(Place here) = 0;

  /// Tells all that this process has failed at `here`, and how.
  virtual void fail(Place here, std::exception_ptr failure) = 0;
  /// The end of a window, where all meet: throws the failure that comes first if there is one, the same everywhere.
  /// Returns what anybody wished.
  virtual Wish end_window(const Wish& own) = 0;
  /// Whether end_window() has thrown.
  virtual bool has_failed() const = 0;

  /// Everybody's numbers, by process: counts[p] from process p.
  virtual std::vector<double> gather(std::span<const double> own,
                                     std::span<const std::size_t> counts) = 0;
};

}  // namespace starling
