// A fabric as a GraphML or DOT file draws it (sim/base/graph_file.hpp).
//
// Vertices  `kind` = switch marks a switch; every other one is a host. Hosts are numbered by their
//           names as nodes of a topology are; those beyond the number of nodes stay idle.
// Edges     cables, with `latency` ("1 us") and `bandwidth` ("12.5 GB/s"), each of which may be left
//           out for the scenario's; that one may be missing if all cables have their own. An undirected
//           edge is two links, one per direction, a directed one is one. Several edges between the
//           same vertices are parallel cables, whose links are named a -> b, a -> b (2), ..
//           An attribute that looks like one of these, by its name (`bandwith`) or its value (type = switch,
//           bw = "10 GB/s"), is refused; others are ignored.
// Routes    fewest links, then least latency, spread over equal ones (switch_graph.hpp). Hosts pass
//           messages of others on only where there are no switches at all.
//
// Hosts with a single cable to a vertex that goes on are kept out of the graph that ways are
// searched in, as ports.

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "network_models/fabrics.hpp"
#include "network_models/switch_graph.hpp"
#include "sim/base/error.hpp"
#include "sim/base/graph_file.hpp"
#include "sim/base/text.hpp"

namespace starling::network_models {
namespace {

/// Which attribute such a value is of: "switch", "10 GB/s", "2 us".
std::string attribute_of(std::string_view value) {
  const auto is_read_by = [&](const auto& parse) {
    try {
      parse(value);
      return true;
    } catch (const std::invalid_argument&) {
      return false;
    }
  };
  if (lower(std::string(value)) == "switch") return "kind";
  const auto is_digit = [](char c) { return '0' <= c && c <= '9'; };
  if (value.empty() || !is_digit(value.front()) || is_digit(value.back())) return "";
  if (is_read_by(parse_bandwidth)) return "bandwidth";
  return is_read_by(parse_duration) ? "latency" : "";
}

class Drawing {
 public:
  Drawing(const Section& section, const std::string& path, const UsualLink& usual, NodeId hosts)
      : section_(section),
        path_(path),
        graph_(read_graph(
            section, "file", path,
            {.vertices = {"kind"}, .edges = {"latency", "bandwidth"}, .meant = attribute_of})) {
    read_vertices(hosts);
    for (const GraphFile::Edge& edge : graph_.edges) read_edge(edge, usual);
  }

  Fabric build() const {
    const std::size_t vertices = graph_.vertices.size();
    // Cables at each vertex, and of which vertices only a port is left.
    std::vector<std::vector<std::size_t>> edges_of(vertices);
    for (std::size_t e = 0; e < graph_.edges.size(); ++e) {
      edges_of[graph_.edges[e].source].push_back(e);
      edges_of[graph_.edges[e].target].push_back(e);
    }
    std::vector<char> is_port(vertices, 0);
    for (const std::size_t host : hosts_) {
      if (graph_.is_directed || edges_of[host].size() != 1) continue;
      const std::size_t other = other_end(edges_of[host][0], host);
      is_port[host] = goes_on(other) && edges_of[other].size() > 1 && is_port[other] == 0;
    }
    std::vector<std::uint32_t> number(vertices);
    std::vector<char> forwards;
    for (std::size_t v = 0; v < vertices; ++v) {
      number[v] = static_cast<std::uint32_t>(forwards.size());
      if (is_port[v] == 0) forwards.push_back(goes_on(v));
    }
    std::vector<Arc> arcs;
    for (std::size_t e = 0; e < graph_.edges.size(); ++e) {
      const auto [source, target, attributes, line] = graph_.edges[e];
      if (is_port[source] != 0 || is_port[target] != 0) continue;
      arcs.push_back(
          {number[source], number[target], first_link(e), links_[first_link(e)].latency});
      if (graph_.is_directed) continue;
      arcs.push_back(
          {number[target], number[source], first_link(e) + 1, links_[first_link(e)].latency});
    }
    std::vector<Port> ports;
    for (const std::size_t host : hosts_) {
      if (is_port[host] == 0) {
        ports.push_back({number[host]});
        continue;
      }
      const std::size_t e = edges_of[host][0];
      const LinkId there = first_link(e);
      const bool is_source = graph_.edges[e].source == host;
      ports.push_back(
          {number[other_end(e, host)], there + (is_source ? 0 : 1), there + (is_source ? 1 : 0)});
    }
    SwitchGraph graph(static_cast<std::uint32_t>(forwards.size()), arcs, forwards);
    check_ways(graph, ports);
    Fabric fabric = graph_fabric(links_, std::move(graph), std::move(ports), names());
    fabric.links_at = links_at_hosts(edges_of);
    return fabric;
  }

 private:
  void read_vertices(NodeId hosts) {
    std::vector<std::string> host_names;
    std::vector<std::size_t> found;
    for (std::size_t v = 0; v < graph_.vertices.size(); ++v) {
      const GraphFile::Vertex& vertex = graph_.vertices[v];
      const std::string_view kind = attribute(vertex.attributes, "kind");
      expect(kind.empty() || kind == "host" || kind == "switch", vertex.line,
             "expected kind = host or switch, found {} at {}", kind, vertex.name);
      is_switch_.push_back(kind == "switch");
      has_switches_ |= kind == "switch";
      if (kind == "switch") continue;
      host_names.push_back(vertex.name);
      found.push_back(v);
    }
    expect(found.size() >= static_cast<std::size_t>(hosts), 0,
           "expected at least {} hosts, found {}", hosts, found.size());
    const std::vector<NodeId> numbers = node_numbers(host_names);
    hosts_.resize(found.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      hosts_[static_cast<std::size_t>(numbers[i])] = found[i];
    }
  }

  void read_edge(const GraphFile::Edge& edge, const UsualLink& usual) {
    const std::string& source = graph_.vertices[edge.source].name;
    const std::string& target = graph_.vertices[edge.target].name;
    expect(edge.source != edge.target, edge.line,
           "expected cables between two vertices, found one from {} to itself", source);
    const auto read = [&]<class T>(std::string_view key, const std::optional<T>& otherwise,
                                   T (*parse)(std::string_view)) {
      const std::string_view text = attribute(edge.attributes, key);
      expect(!text.empty() || otherwise, edge.line,
             "expected a {} of the cable between {} and {}, or network.{} for all that have none",
             key, source, target, key);
      if (text.empty()) return *otherwise;
      try {
        return parse(text);
      } catch (const std::invalid_argument& error) {
        fail(edge.line, "{} of the cable between {} and {} {}", key, source, target, error.what());
      }
    };
    const Link link{
        .bytes_per_second = read("bandwidth", usual.bandwidth, parse_bandwidth).bytes_per_second,
        .latency = read("latency", usual.latency, parse_duration)};
    expect(link.latency <= longest_latency, edge.line,
           "expected latencies of at most {}, found {} between {} and {}", to_text(longest_latency),
           to_text(link.latency), source, target);
    links_.insert(links_.end(), graph_.is_directed ? 1 : 2, link);
  }

  /// Whether a vertex passes on messages of others.
  bool goes_on(std::size_t vertex) const { return is_switch_[vertex] != 0 || !has_switches_; }

  LinkId first_link(std::size_t edge) const {
    return static_cast<LinkId>(graph_.is_directed ? edge : 2 * edge);
  }

  std::size_t other_end(std::size_t edge, std::size_t vertex) const {
    const GraphFile::Edge& ends = graph_.edges[edge];
    return ends.source == vertex ? ends.target : ends.source;
  }

  void check_ways(const SwitchGraph& graph, const std::vector<Port>& ports) const {
    std::vector<std::uint32_t> ends;
    for (const Port& port : ports) ends.push_back(port.vertex);
    std::vector<std::uint32_t> distinct = ends;
    std::ranges::sort(distinct);
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    // Where every vertex passes on what comes over cables that lead both ways, who reaches one
    // reaches all.
    const bool is_plain = !graph_.is_directed && !has_switches_;
    const auto apart = graph.unreachable(distinct, is_plain);
    if (!apart) return;
    const auto host_at = [&](std::uint32_t vertex) {
      const auto at = std::ranges::find(ends, vertex) - ends.begin();
      return graph_.vertices[hosts_[static_cast<std::size_t>(at)]].name;
    };
    fail(0, "expected ways between all hosts, found none from {} to {}{}", host_at(apart->first),
         host_at(apart->second),
         has_switches_ ? " (where there are switches, hosts pass nothing on)" : "");
  }

  /// Of each host the links of its cables, others' ports among them.
  std::function<std::vector<LinkId>(NodeId)> links_at_hosts(
      const std::vector<std::vector<std::size_t>>& edges_of) const {
    std::vector<std::vector<LinkId>> links;
    for (const std::size_t host : hosts_) {
      std::vector<LinkId>& own = links.emplace_back();
      for (const std::size_t e : edges_of[host]) {
        own.push_back(first_link(e));
        if (!graph_.is_directed) own.push_back(first_link(e) + 1);
      }
    }
    return
        [links = std::move(links)](NodeId host) { return links[static_cast<std::size_t>(host)]; };
  }

  /// "a -> b"; of parallel links all but the first have their number behind it.
  std::function<std::string(LinkId)> names() const {
    std::vector<std::string> names;
    std::map<std::string, int> count;
    const auto add = [&](std::size_t from, std::size_t to) {
      std::string name =
          fmt::format("{} -> {}", graph_.vertices[from].name, graph_.vertices[to].name);
      const int number = ++count[name];
      if (number > 1) name += fmt::format(" ({})", number);
      names.push_back(std::move(name));
    };
    for (const GraphFile::Edge& edge : graph_.edges) {
      add(edge.source, edge.target);
      if (!graph_.is_directed) add(edge.target, edge.source);
    }
    return [names = std::move(names)](LinkId link) { return names[link]; };
  }

  template <class... Args>
  [[noreturn]] void fail(std::size_t line, fmt::format_string<Args...> format,
                         Args&&... args) const {
    fail_at(section_, "file", path_, line, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void expect(bool condition, std::size_t line, fmt::format_string<Args...> format,
              Args&&... args) const {
    if (!condition) fail(line, format, std::forward<Args>(args)...);
  }

  const Section& section_;
  const std::string& path_;
  GraphFile graph_;
  std::vector<char> is_switch_;  // by vertex
  bool has_switches_ = false;
  std::vector<std::size_t> hosts_;  // vertices, by number
  std::vector<Link> links_;
};

}  // namespace

std::function<Fabric()> read_fabric_file(const Section& section, NodeId hosts, UsualLink usual) {
  const auto given =
      section.required<std::string>("file", "a .graphml, .xml, .dot or .gv file of the network");
  return [&section, given, hosts, usual]() {
    const std::string path = section.resolve_path(given);
    return Drawing(section, path, usual, hosts).build();
  };
}

}  // namespace starling::network_models
