// Measuring; calibration_text.cpp tells of it. Every figure is that of the medians of many rounds.
#include "scenarios/calibrate.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "kernels/cpu_backend.hpp"
#include "sim/base/error.hpp"
#include "sim/base/units.hpp"
#include "sim/mpi/mpi_session.hpp"
#include "sim/mpi/mpi_transport.hpp"
#include "sim/node/node.hpp"
#include "sim/node/observer.hpp"

namespace starling {
namespace {

constexpr std::size_t most_rounds = 31;
constexpr std::size_t fewest_rounds = 5;  // once they have taken long enough
constexpr Duration long_enough = std::chrono::seconds(2);
constexpr int burst = 20;               // messages of one PRTT
constexpr int gradients_per_rank = 20;  // the first is not counted
constexpr Duration between_messages = std::chrono::milliseconds(2);
constexpr Duration rest = std::chrono::milliseconds(5);
constexpr std::int64_t small = 4;
constexpr std::int64_t sizes[] = {500'000, 2'000'000, 8'000'000};  // L hardly counts

/// A workload that is only there because a graph needs one.
class Sizes final : public Workload {
 public:
  explicit Sizes(NodeId nodes) {
    facts_.parameters = 1;
    facts_.wire_parameters = 1;
    facts_.has_numbers = false;
    facts_.samples.assign(static_cast<std::size_t>(nodes), 1);
  }
  const WorkloadFacts& facts() const override { return facts_; }
  void initial_model(std::span<float>) const override {}
  std::int64_t batch_cost(NodeId, Step) const override { return 1; }
  void gradients(std::span<GradientRequest>) const override {}
  void evaluate(std::span<EvaluationRequest>) const override {}

 private:
  WorkloadFacts facts_;
};

Rounds sorted_out(std::int64_t size, std::vector<double> seconds) {
  ensure(!seconds.empty(), "a median of nothing");
  std::sort(seconds.begin(), seconds.end());
  const std::size_t count = seconds.size();
  return {static_cast<double>(size), seconds[count / 4], seconds[count / 2],
          seconds[3 * count / 4]};
}

const Rounds& worse(const Rounds& a, const Rounds& b) { return a.scatter() < b.scatter() ? b : a; }

/// Who measures with whom.
struct Places {
  std::vector<int> host_of;                         // by rank
  std::vector<int> next;                            // by rank: the next rank of its host, in a ring
  std::optional<std::pair<NodeId, NodeId>> within;  // two ranks of one host
  std::optional<std::pair<NodeId, NodeId>> between;  // two ranks of two hosts
  int hosts = 0;
};

/// Every rank learns where all ranks live.
Places find_places(MpiSession& session) {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  std::string all;
  for (const std::string& host : session.gather(name)) all += host + '\n';
  all = session.broadcast(all);

  Places places;
  std::map<std::string, std::vector<int>> ranks_of;
  std::map<std::string, int> number_of;
  int rank = 0;
  for (std::size_t begin = 0; begin < all.size(); ++rank) {
    const std::size_t end = all.find('\n', begin);
    const std::string host = all.substr(begin, end - begin);
    begin = end + 1;
    const auto [number, is_new] = number_of.try_emplace(host, places.hosts);
    if (is_new) ++places.hosts;
    places.host_of.push_back(number->second);
    ranks_of[host].push_back(rank);
    if (number->second != 0 && !places.between) places.between = {0, rank};
    if (ranks_of[host].size() == 2 && !places.within)
      places.within = {ranks_of[host][0], ranks_of[host][1]};
  }
  places.next.assign(static_cast<std::size_t>(rank), -1);
  for (const auto& [host, ranks] : ranks_of) {
    for (std::size_t i = 0; i < ranks.size(); ++i)
      places.next[static_cast<std::size_t>(ranks[i])] = ranks[(i + 1) % ranks.size()];
  }
  return places;
}

/// Tells on rank 0 what is measured next.
class Account {
 public:
  Account(const CalibrationProgress& show, bool speaks, int measurements)
      : show_(show), speaks_(speaks), measurements_(measurements) {}

  void next(const std::string& what) {
    if (speaks_) show_(1.0 * done_ / measurements_, what);
    ++done_;
  }

 private:
  const CalibrationProgress& show_;
  bool speaks_;
  int measurements_;
  int done_ = 0;
};

constexpr int of_pair = 4 + static_cast<int>(std::size(sizes));  // measurements
constexpr int of_all = static_cast<int>(std::size(sizes));

constexpr Tag data_tag = tag_of(Channel::program, 1);
constexpr Tag reply_tag = tag_of(Channel::program, 2);
constexpr Tag barrier_tag = tag_of(Channel::program, 3);

Vector bytes(Node& node, std::int64_t count) {
  return node.zeros(static_cast<std::size_t>((count + 3) / 4));
}

Task<> barrier(Node& node) {
  for (NodeId distance = 1; distance < node.nodes(); distance *= 2) {
    node.send((node.id() + distance) % node.nodes(), barrier_tag, {}, distance);
    const NodeId from = (node.id() + node.nodes() - distance) % node.nodes();
    const Message message = co_await node.receive(from, barrier_tag);
  }
}

/// Keeps the processor busy, as a computing sender would.
void spin(const Node& node, Duration duration) {
  for (const Time end = node.now() + duration; node.now() < end;) {
  }
}

bool is_last_round(std::size_t rounds_before, Duration passed) {
  return rounds_before + 1 >= (passed < long_enough ? most_rounds : fewest_rounds);
}

/// One end of PRTT(n, d, 4 B): every round's seconds at the client, nothing at the server.
Task<> measure_prtt(Node& node, NodeId client, NodeId server, int count, Duration apart,
                    std::vector<double>& seconds) {
  seconds.clear();
  if (node.id() != client && node.id() != server) co_return;
  const Time first = node.now();
  for (bool is_last = false; !is_last;) {
    const Time begin = node.now();
    if (node.id() == client) is_last = is_last_round(seconds.size(), begin - first);
    for (int i = 0; i < count; ++i) {
      if (node.id() == client) {
        if (i > 0) spin(node, apart);
        node.send(server, data_tag, bytes(node, small), is_last ? 1 : 0);
      } else {
        const Message message = co_await node.receive(client, data_tag);
        is_last = message.number != 0;
      }
    }
    if (node.id() == server) {
      node.send(client, reply_tag);
    } else {
      const Message reply = co_await node.receive(server, reply_tag);
      seconds.push_back(to_seconds(node.now() - begin));
    }
  }
}

/// One end of messages there and back, each after a rest: seconds of either way at the client, nothing at the server.
Task<> measure_rested(Node& node, NodeId client, NodeId server, std::int64_t size,
                      std::vector<double>& seconds) {
  seconds.clear();
  if (node.id() != client && node.id() != server) co_return;
  const Time first = node.now();
  for (bool is_last = false; !is_last;) {
    if (node.id() == server) {
      const Message message = co_await node.receive(client, data_tag);
      const Time came = node.now();
      is_last = message.number != 0;
      co_await node.sleep(rest);
      node.send(client, reply_tag, bytes(node, size), to_seconds(node.now() - came));
    } else {
      is_last = is_last_round(seconds.size(), node.now() - first);
      co_await node.sleep(rest);
      const Time begin = node.now();
      node.send(server, data_tag, bytes(node, size), is_last ? 1 : 0);
      const Message reply = co_await node.receive(server, reply_tag);
      const double held = reply.number;
      seconds.push_back(0.5 * (to_seconds(node.now() - begin) - held));
    }
  }
}

Task<> measure_pair(Node& node, const std::pair<NodeId, NodeId>& pair, const char* where,
                    Account& account, LinkFigures& figures) {
  const auto [client, server] = pair;
  std::vector<double> seconds;
  account.next(fmt::format("{}: single messages", where));
  co_await measure_prtt(node, client, server, 1, Duration{0}, seconds);
  const std::vector<double> singles = seconds;
  account.next(fmt::format("{}: messages {} apart", where, to_text(between_messages)));
  co_await measure_prtt(node, client, server, burst, between_messages, seconds);
  const std::vector<double> spreads = seconds;
  account.next(fmt::format("{}: bursts of messages", where));
  co_await measure_prtt(node, client, server, burst, Duration{0}, seconds);
  const std::vector<double> together = seconds;
  account.next(fmt::format("{}: messages after a rest", where));
  co_await measure_rested(node, client, server, small, seconds);
  const std::vector<double> rested = seconds;
  std::vector<Rounds> of_sizes;
  for (const std::int64_t size : sizes) {
    account.next(fmt::format("{}: messages of {}", where, to_text(Bytes{size})));
    co_await measure_rested(node, client, server, size, seconds);
    if (node.id() == client) of_sizes.push_back(sorted_out(size, seconds));
  }
  if (node.id() != client) co_return;
  const Rounds single = sorted_out(small, singles);
  const auto beyond_single = [&](const std::vector<double>& bursts) {
    return (sorted_out(small, bursts).median - single.median) / (burst - 1);
  };
  figures.overhead =
      std::clamp(beyond_single(spreads) - to_seconds(between_messages), 0.0, 0.25 * single.median);
  figures.gap = std::max(0.0, beyond_single(together));
  figures.worst = sorted_out(small, rested);
  figures.latency = std::max(0.0, figures.worst.median - 2 * figures.overhead);
  figures.awake = 0.5 * single.median;
  figures.gap_per_byte = seconds_per_byte(of_sizes);
  for (const Rounds& rounds : of_sizes) figures.worst = worse(figures.worst, rounds);
}

/// Every rank sends to the next one of its host at once; seconds of every message to this rank.
Task<> measure_all(Node& node, NodeId next, std::int64_t size, std::vector<double>& seconds) {
  seconds.clear();
  for (std::size_t round = 0; round < most_rounds; ++round) {
    co_await barrier(node);
    // Until a moment that is the same for all: ranks of a host share a clock.
    co_await node.sleep(2 * rest - node.now().time_since_epoch() % rest);
    const Vector message = bytes(node, size);
    node.send(next, data_tag, message, to_seconds(node.now()));
    const Message received = co_await node.receive(any_source, data_tag);
    seconds.push_back(to_seconds(node.now()) - received.number);
  }
}

struct Figures {
  LinkFigures within, between;
  std::vector<Rounds> all;  // every rank at once, by bytes of a host
  std::vector<double> gradients;
};

Task<> measure_messages(Node& node, const Places& places, Account& account, Figures& figures) {
  if (places.within) {
    co_await measure_pair(node, *places.within, "within a host", account, figures.within);
    co_await barrier(node);
  }
  if (places.between) {
    co_await measure_pair(node, *places.between, "between hosts", account, figures.between);
    co_await barrier(node);
  }
  const NodeId next = places.next[static_cast<std::size_t>(node.id())];
  std::ptrdiff_t most_ranks = 0;  // of a host, which is the one that takes longest
  for (const int host : places.host_of)
    most_ranks = std::max(most_ranks, std::ranges::count(places.host_of, host));
  for (const std::int64_t size : sizes) {
    std::vector<double> seconds;
    account.next(fmt::format("all ranks at once: messages of {}", to_text(Bytes{size})));
    co_await measure_all(node, next, size, seconds);
    figures.all.push_back(sorted_out(size * most_ranks, seconds));
  }
}

Task<> time_gradients(Node& node, Account& account, Figures& figures) {
  const Vector x = node.initial_model();
  for (int i = 0; i < gradients_per_rank; ++i) {
    account.next(fmt::format("gradient {} of {}", i + 1, gradients_per_rank));
    const Time begin = node.now();
    const Gradient g = co_await node.gradient(x);
    if (i > 0) figures.gradients.push_back(to_seconds(node.now() - begin));
  }
}

/// Runs one node per rank over real messages.
void run_on_ranks(MpiSession& session, const Workload& workload, const Program& program) {
  const NodeId nodes = session.ranks();
  const Topology nobody(nodes, {{}}, {std::vector<double>(static_cast<std::size_t>(nodes), 1.0)});
  CpuBackend backend;
  ComputeGraph graph(backend, workload, {}, ComputeGraph::Execution::inline_);
  Recorder recorder(nodes, RowSchedule(1, 1), RowSchedule(1, 1), Time{});
  Observer observer(graph, recorder, workload.facts());
  GradientDuration none;
  if (!workload.facts().has_numbers) none = [](NodeId, Step, BatchName) { return Duration{0}; };
  MpiTransport transport({.nodes = nodes, .pulse = {}}, session, graph, workload, none);
  World world{transport, graph, observer, nobody, 1, 1};
  Node node(world, session.rank());
  node.spawn(program(node));
  transport.run();
}

/// What `rank` measured, which is what rank 0 gets.
LinkFigures told_by(MpiSession& session, int rank, const LinkFigures& own) {
  const auto all = session.gather({reinterpret_cast<const char*>(&own), sizeof own});
  LinkFigures figures = own;
  if (!all.empty())
    std::memcpy(&figures, all[static_cast<std::size_t>(rank)].data(), sizeof figures);
  return figures;
}

}  // namespace

double seconds_per_byte(std::span<const Rounds> by_size) {
  double w = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const Rounds& rounds : by_size) {
    const double weight = 1 / (rounds.median * rounds.median);
    w += weight;
    x += weight * rounds.bytes;
    y += weight * rounds.median;
    xx += weight * rounds.bytes * rounds.bytes;
    xy += weight * rounds.bytes * rounds.median;
  }
  const double slope = (w * xy - x * y) / (w * xx - x * x);
  return slope > 0 ? slope : by_size.back().median / by_size.back().bytes;
}

Calibration calibrate(MpiSession& session, const Workload* workload,
                      const CalibrationProgress& show) {
  if (session.ranks() < 2)
    throw Error("calibrate needs two ranks at least: mpirun -n 2 starling calibrate");
  const Places places = find_places(session);
  Figures figures;
  const Sizes sizes_only(session.ranks());
  Account account(show, session.rank() == 0,
                  (places.within ? of_pair : 0) + (places.between ? of_pair : 0) + of_all +
                      (workload != nullptr ? gradients_per_rank : 0));
  run_on_ranks(session, sizes_only,
               [&](Node& node) { return measure_messages(node, places, account, figures); });
  if (workload != nullptr) {
    run_on_ranks(session, *workload,
                 [&](Node& node) { return time_gradients(node, account, figures); });
  }

  Calibration result;
  result.ranks = session.ranks();
  result.hosts = places.hosts;
  result.host_of = places.host_of;
  if (places.within) result.within = told_by(session, places.within->first, figures.within);
  if (places.between) result.between = figures.between;  // rank 0 measured it
  // Ranks finish their rounds at different moments; the slowest counts.
  std::vector<Rounds> all;
  for (const Rounds& own : figures.all) {
    const auto slowest = [&session](double seconds) {
      return static_cast<double>(session.largest(static_cast<std::int64_t>(seconds * 1e9))) * 1e-9;
    };
    const Rounds rounds{own.bytes, slowest(own.lower), slowest(own.median), slowest(own.upper)};
    all.push_back(rounds);
    if (result.within) result.within->worst = worse(result.within->worst, rounds);
  }
  if (result.within) result.within->shared_per_byte = seconds_per_byte(all);
  std::string mine;
  for (const double seconds : figures.gradients) mine += fmt::format("{} ", seconds);
  for (const std::string& ranks : session.gather(mine)) {
    for (std::size_t begin = 0; begin < ranks.size();) {
      const std::size_t end = ranks.find(' ', begin);
      result.gradients.push_back(std::stod(ranks.substr(begin, end - begin)));
      begin = end + 1;
    }
  }
  return result;
}

}  // namespace starling
