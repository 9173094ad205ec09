// MpiPeers: the processes that share a simulation, over MPI. One thread at a time may use it, not always the
// same one. Every wait naps between looks.
#pragma once

#include <functional>
#include <memory>

#include "sim/mpi/mpi_session.hpp"
#include "sim/node/peers.hpp"

namespace starling {

class MpiPeers final : public Peers {
 public:
  /// `interruption` gives the signal that asks this process to end, or 0. `session` outlives the peers.
  MpiPeers(MpiSession& session, std::function<int()> interruption);
  ~MpiPeers() override;

  int own() const override { return session_.rank(); }
  int count() const override { return session_.ranks(); }
  void send(int to, std::vector<float>&& numbers) override;
  void clear() override;
  void expect(int from, std::size_t size) override;
  std::vector<float> take(int from, Place here) override;
  void look(Place here) override;
  void fail(Place here, std::exception_ptr failure) override;
  Wish end_window(const Wish& own) override;
  bool has_failed() const override { return has_failed_; }
  std::vector<double> gather(std::span<const double> own,
                             std::span<const std::size_t> counts) override;

 private:
  struct Traffic;

  void pause(Vigil& vigil);
  /// Waits for an MPI_Request of all processes.
  template <class Request>
  void finish(Request& request);

  MpiSession& session_;
  std::function<int()> interruption_;
  std::unique_ptr<Traffic> traffic_;
  Place failed_here_ = nowhere;      // by this process
  Place failed_anywhere_ = nowhere;  // as far as it has heard
  std::exception_ptr failure_;
  bool has_failed_ = false;
  std::exception_ptr lost_;  // a process, for ever
};

}  // namespace starling
