// The exchange of tools/bench/compare_simgrid.py in SimGrid (3.32, S4U), which compiles this file: every node is an actor that in
// each step sends to all its peers, receives from all its senders, and goes on when what it receives is there.
//
//   compare_simgrid PLATFORM BYTES STEPS BYTES_PER_SECOND LATENCY ARCS [SimGrid's --cfg=..]
//
// PLATFORM is crossbar:HOSTS or fat_tree:CHILDREN:PARENTS (a number per level, with commas), with split-duplex links
// of that bandwidth (B/s) and latency (s); ARCS a file of lines "source destination". Prints when each node was done (s).

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <simgrid/kernel/routing/NetPoint.hpp>
#include <simgrid/s4u.hpp>

namespace {

namespace s4u = simgrid::s4u;

struct Settings {
  std::string platform;
  std::uint64_t bytes;
  int steps;
  double bytes_per_second;
  double latency;
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::vector<unsigned> numbers(const std::string& text) {
  std::vector<unsigned> result;
  for (const std::string& part : split(text, ',')) {
    result.push_back(static_cast<unsigned>(std::stoul(part)));
  }
  return result;
}

std::vector<s4u::Host*> crossbar(int count, const Settings& settings) {
  auto* zone = s4u::create_star_zone("crossbar");
  std::vector<s4u::Host*> hosts;
  for (int i = 0; i < count; ++i) {
    const std::string name = std::to_string(i);
    hosts.push_back(zone->create_host(name, 1e9));
    const auto link = [&](const std::string& way) {
      return zone->create_link(name + way, settings.bytes_per_second)
          ->set_latency(settings.latency)
          ->seal();
    };
    auto* end = hosts.back()->get_netpoint();
    zone->add_route(end, nullptr, nullptr, nullptr, {s4u::LinkInRoute(link(" up"))}, false);
    zone->add_route(nullptr, end, nullptr, nullptr, {s4u::LinkInRoute(link(" down"))}, false);
  }
  zone->seal();
  return hosts;
}

std::vector<s4u::Host*> fat_tree(const std::vector<unsigned>& children,
                                 const std::vector<unsigned>& parents, const Settings& settings) {
  std::vector<s4u::Host*> hosts;
  const auto add_host = [&](s4u::NetZone* zone, const std::vector<unsigned long>&,
                            unsigned long id) {
    hosts.push_back(zone->create_host(std::to_string(id), 1e9));
    simgrid::kernel::routing::NetPoint* no_gateway = nullptr;
    return std::make_pair(hosts.back()->get_netpoint(), no_gateway);
  };
  const auto levels = static_cast<unsigned>(children.size());
  const std::vector<unsigned> cables(levels, 1);
  s4u::create_fatTree_zone("fat tree", nullptr, {levels, children, parents, cables},
                           s4u::ClusterCallbacks(add_host), settings.bytes_per_second,
                           settings.latency, s4u::Link::SharingPolicy::SPLITDUPLEX)
      ->seal();
  return hosts;
}

std::vector<s4u::Host*> build(const Settings& settings) {
  const std::vector<std::string> words = split(settings.platform, ':');
  if (words[0] == "crossbar") return crossbar(std::stoi(words.at(1)), settings);
  return fat_tree(numbers(words.at(1)), numbers(words.at(2)), settings);
}

struct Neighbors {
  std::vector<s4u::Mailbox*> out;
  std::vector<s4u::Mailbox*> in;
};

std::vector<Neighbors> read_arcs(const char* path, std::size_t nodes) {
  std::vector<Neighbors> neighbors(nodes);
  std::ifstream file(path);
  std::size_t source = 0;
  std::size_t destination = 0;
  while (file >> source >> destination) {
    auto* mailbox =
        s4u::Mailbox::by_name(std::to_string(source) + " " + std::to_string(destination));
    neighbors.at(source).out.push_back(mailbox);
    neighbors.at(destination).in.push_back(mailbox);
  }
  return neighbors;
}

/// Returns when the node is done.
double exchange(const Neighbors& neighbors, const Settings& settings) {
  static char content;  // SimGrid takes no null pointer; nobody reads it
  std::vector<char*> received(neighbors.in.size());
  for (int step = 0; step < settings.steps; ++step) {
    std::vector<s4u::CommPtr> arriving;
    for (auto* mailbox : neighbors.out) mailbox->put_init(&content, settings.bytes)->detach();
    for (std::size_t i = 0; i < neighbors.in.size(); ++i) {
      arriving.push_back(neighbors.in[i]->get_async<char>(&received[i]));
    }
    s4u::Comm::wait_all(arriving);
  }
  return s4u::Engine::get_clock();
}

}  // namespace

int main(int argc, char** argv) {
  s4u::Engine engine(&argc, argv);  // takes its --cfg out of the arguments
  if (argc != 7) return 2;
  const Settings settings{argv[1], std::stoull(argv[2]), std::atoi(argv[3]), std::atof(argv[4]),
                          std::atof(argv[5])};
  const std::vector<s4u::Host*> hosts = build(settings);
  const std::vector<Neighbors> neighbors = read_arcs(argv[6], hosts.size());
  std::vector<double> finish(hosts.size());
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    s4u::Actor::create("node", hosts[i], [&, i] { finish[i] = exchange(neighbors[i], settings); });
  }
  engine.run();
  for (const double time : finish) std::printf("%.17g\n", time);
}
