// An exchange in SimGrid (3.32, S4U), for tools/bench/compare_simgrid.py, which compiles this file and writes what it reads:
//
//   compare_simgrid DESCRIPTION [SimGrid's --cfg=..]
//
// Every node is an actor that in each step sends and receives; a message sets off when both sides have come to it. The
// description has a statement per line, bandwidths in B/s and times in s, the fabric before all others:
//
//   crossbar HOSTS BANDWIDTH LATENCY              each link one direction of a cable
//   torus SIDES BANDWIDTH LATENCY                 numbers of a list are separated by commas
//   fat_tree CHILDREN PARENTS CABLES BANDWIDTH LATENCY
//   routes HOSTS                                  by the two statements that follow
//   link BANDWIDTH LATENCY                        numbered from 0
//   route SOURCE DESTINATION LINKS
//   start NODE TIME                               else 0
//   message STEP SOURCE DESTINATION BYTES         a pair's of a step in order; steps count from 0
//   own                                           nodes wait for their own messages, too, not only for what they receive
//
// Prints when each node was done (s).

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <simgrid/kernel/routing/NetPoint.hpp>
#include <simgrid/s4u.hpp>

namespace {

namespace s4u = simgrid::s4u;

struct Step {
  std::vector<std::pair<s4u::Mailbox*, std::uint64_t>> sends;
  std::vector<s4u::Mailbox*> receives;
};

class Exchange {
 public:
  explicit Exchange(const char* path) {
    std::ifstream file(path);
    for (std::string text; std::getline(file, text);) {
      std::istringstream line(text);
      read(line);
    }
    if (zone_ != nullptr) zone_->seal();
  }

  /// Returns when each node is done (s).
  std::vector<double> run(s4u::Engine& engine) {
    std::vector<double> finish(hosts_.size());
    for (std::size_t node = 0; node < hosts_.size(); ++node) {
      s4u::Actor::create("node", hosts_[node], [&, node] {
        if (start_[node] > 0) s4u::this_actor::sleep_for(start_[node]);
        for (const Step& step : steps_[node]) take(step);
        finish[node] = s4u::Engine::get_clock();
      });
    }
    engine.run();
    return finish;
  }

 private:
  template <class T>
  static T next(std::istream& line) {
    T value;
    line >> value;
    return value;
  }

  template <class T>
  static std::vector<T> list(std::istream& line) {
    std::istringstream text(next<std::string>(line));
    std::vector<T> numbers;
    for (std::string number; std::getline(text, number, ',');) {
      numbers.push_back(static_cast<T>(std::stoul(number)));
    }
    return numbers;
  }

  void read(std::istream& line) {
    const auto word = next<std::string>(line);
    if (word == "crossbar") {
      make_crossbar(line);
    } else if (word == "torus" || word == "fat_tree") {
      make_cluster(word, line);
    } else if (word == "routes") {
      zone_ = s4u::create_full_zone("fabric");
      add_hosts(next<std::size_t>(line));
    } else if (word == "link") {
      const auto bandwidth = next<double>(line);
      links_.push_back(make_link(bandwidth, next<double>(line)));
    } else if (word == "route") {
      const auto source = next<std::size_t>(line);
      const auto destination = next<std::size_t>(line);
      std::vector<s4u::LinkInRoute> way;
      for (const auto link : list<std::size_t>(line)) way.emplace_back(links_.at(link));
      zone_->add_route(end_of(source), end_of(destination), nullptr, nullptr, way, false);
    } else if (word == "start") {
      const auto node = next<std::size_t>(line);
      start_.at(node) = next<double>(line);
    } else if (word == "message") {
      add_message(line);
    } else if (word == "own") {
      waits_for_own_ = true;
    }
  }

  void add_hosts(std::size_t count) {
    while (hosts_.size() < count) {
      add_host(zone_->create_host("host " + std::to_string(hosts_.size()), 1e9));
    }
  }

  void add_host(s4u::Host* host) {
    hosts_.push_back(host);
    start_.push_back(0);
    steps_.emplace_back();
  }

  simgrid::kernel::routing::NetPoint* end_of(std::size_t host) const {
    return hosts_.at(host)->get_netpoint();
  }

  s4u::Link* make_link(double bandwidth, double latency) {
    return zone_->create_link("link " + std::to_string(made_++), bandwidth)
        ->set_latency(latency)
        ->seal();
  }

  void make_crossbar(std::istream& line) {
    zone_ = s4u::create_star_zone("fabric");
    add_hosts(next<std::size_t>(line));
    const auto bandwidth = next<double>(line);
    const auto latency = next<double>(line);
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      const s4u::LinkInRoute up(make_link(bandwidth, latency));
      const s4u::LinkInRoute down(make_link(bandwidth, latency));
      zone_->add_route(end_of(host), nullptr, nullptr, nullptr, {up}, false);
      zone_->add_route(nullptr, end_of(host), nullptr, nullptr, {down}, false);
    }
  }

  void make_cluster(const std::string& kind, std::istream& line) {
    const s4u::ClusterCallbacks callbacks(
        [this](s4u::NetZone* zone, const std::vector<unsigned long>&, unsigned long id) {
          add_host(zone->create_host("host " + std::to_string(id), 1e9));
          simgrid::kernel::routing::NetPoint* no_gateway = nullptr;
          return std::make_pair(hosts_.back()->get_netpoint(), no_gateway);
        });
    constexpr auto policy = s4u::Link::SharingPolicy::SPLITDUPLEX;
    if (kind == "torus") {
      const auto sides = list<unsigned long>(line);
      const auto bandwidth = next<double>(line);
      s4u::create_torus_zone("fabric", nullptr, sides, callbacks, bandwidth, next<double>(line),
                             policy)
          ->seal();
    } else {
      const auto children = list<unsigned>(line);
      const auto parents = list<unsigned>(line);
      const auto cables = list<unsigned>(line);
      const auto bandwidth = next<double>(line);
      const s4u::FatTreeParams shape(static_cast<unsigned>(children.size()), children, parents,
                                     cables);
      s4u::create_fatTree_zone("fabric", nullptr, shape, callbacks, bandwidth, next<double>(line),
                               policy)
          ->seal();
    }
  }

  void add_message(std::istream& line) {
    const auto step = next<std::size_t>(line);
    const auto source = next<std::size_t>(line);
    const auto destination = next<std::size_t>(line);
    if (step >= steps_.at(0).size()) {
      for (auto& of_node : steps_) of_node.resize(step + 1);
    }
    auto* mailbox =
        s4u::Mailbox::by_name(std::to_string(source) + " " + std::to_string(destination));
    steps_.at(source)[step].sends.emplace_back(mailbox, next<std::uint64_t>(line));
    steps_.at(destination)[step].receives.push_back(mailbox);
  }

  void take(const Step& step) const {
    static char content;  // SimGrid takes no null pointer
    std::vector<char*> received(step.receives.size());
    std::vector<s4u::CommPtr> waits;
    for (const auto& [mailbox, bytes] : step.sends) {
      auto message = mailbox->put_init(&content, bytes);
      if (waits_for_own_) {
        message->start();
        waits.push_back(message);
      } else {
        message->detach();
      }
    }
    for (std::size_t i = 0; i < received.size(); ++i) {
      waits.push_back(step.receives[i]->get_async<char>(&received[i]));
    }
    s4u::Comm::wait_all(waits);
  }

  s4u::NetZone* zone_ = nullptr;  // to be sealed
  std::vector<s4u::Host*> hosts_;
  std::vector<s4u::Link*> links_;
  std::size_t made_ = 0;                  // links
  std::vector<double> start_;             // (nodes)
  std::vector<std::vector<Step>> steps_;  // (nodes, steps)
  bool waits_for_own_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  s4u::Engine engine(&argc, argv);  // takes its --cfg out of the arguments
  if (argc != 2) return 2;
  for (const double time : Exchange(argv[1]).run(engine)) std::printf("%.17g\n", time);
}
