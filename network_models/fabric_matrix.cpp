// Sites far apart, by a matrix of latencies: hosts stand at sites, and each ordered pair of sites has
// a link of its own between the up and the down links of their hosts.
//
//   ms,     Oregon, Tokyo, Frankfurt          row: from, column: to. The first cell may name the
//   Oregon,      -,    49,        69          unit of bare numbers; others carry their own:
//   Tokyo,      50,     -,       118          "49 ms", 0. A diagonal of -, 0 or nothing means that
//   Frankfurt,  70,   120,         1          hosts of a site meet directly, over their own links.
//
// A second file of the same sites may give the bandwidths of the links between (and within) sites;
// otherwise they are as fast as a host's own. With a bandwidth 0 on the diagonal is a latency.

#include <algorithm>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include "network_models/fabrics.hpp"
#include "network_models/overrides.hpp"
#include "sim/base/csv.hpp"
#include "sim/base/did_you_mean.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace starling::network_models {
namespace {

/// What a table says between sites.
template <class T>
struct Matrix {
  std::vector<std::string> sites;
  std::vector<std::optional<T>> values;  // (from, to); none only on the diagonal
};

template <class Parse>
auto read_matrix(const Section& section, std::string_view key, const std::string& path,
                 Parse parse) {
  const std::vector<CsvRow> rows = read_csv(section, key, path);
  const auto expect = [&](bool condition, std::size_t line, const std::string& what) {
    section.expect(condition, key, "{}:{}: expected {}", path, line, what);
  };
  Matrix<decltype(parse(""))> matrix;
  matrix.sites.assign(rows[0].cells.begin() + 1, rows[0].cells.end());
  const std::string& unit = rows[0].cells[0];
  const std::size_t count = matrix.sites.size();
  expect(count > 0, rows[0].line, "the names of the sites after the first cell");
  for (std::size_t i = 0; i < count; ++i) {
    const auto twice = std::ranges::count(matrix.sites, matrix.sites[i]);
    expect(twice == 1 && !matrix.sites[i].empty(), rows[0].line,
           fmt::format("each site once, by a name, found \"{}\"", matrix.sites[i]));
  }
  expect(rows.size() == count + 1, rows.back().line,
         fmt::format("{} rows below the names of the sites, found {}", count, rows.size() - 1));
  for (std::size_t from = 0; from < count; ++from) {
    const CsvRow& row = rows[from + 1];
    expect(row.cells.size() == count + 1, row.line,
           fmt::format("a name and {} values, found {} cells", count, row.cells.size()));
    expect(row.cells[0] == matrix.sites[from], row.line,
           fmt::format("the row of {}, found {}", matrix.sites[from], row.cells[0]));
    for (std::size_t to = 0; to < count; ++to) {
      const std::string& cell = row.cells[to + 1];
      if (from == to && (cell.empty() || cell == "-")) {
        matrix.values.emplace_back();
        continue;
      }
      const bool is_bare = !unit.empty() && number_in<double>(cell);
      try {
        matrix.values.emplace_back(parse(is_bare ? cell + " " + unit : cell));
      } catch (const std::invalid_argument& error) {
        section.fail(key, "{}:{}: from {} to {}: {}", path, row.line, matrix.sites[from],
                     matrix.sites[to], error.what());
      }
    }
  }
  return matrix;
}

struct Placement {
  std::string rule;
  std::string list;
};

/// Nothing needs no unit.
Duration parse_table_latency(std::string_view text) {
  return number_in<double>(text) == 0 ? Duration{0} : parse_latency(text);
}

/// The site of every host.
std::vector<std::size_t> place(const Section& section, const Placement& placement, NodeId hosts,
                               const std::vector<std::string>& sites) {
  std::vector<std::size_t> site_of;
  if (placement.rule == "list") {
    for (const std::string& name : read_csv_cells(section, "sites", placement.list)) {
      const auto found = std::ranges::find(sites, name);
      section.expect(found != sites.end(), "sites", "must be sites of the matrix, {}, got \"{}\"{}",
                     fmt::join(sites, ", "), name, did_you_mean(name, sites));
      site_of.push_back(static_cast<std::size_t>(found - sites.begin()));
    }
    section.expect(site_of.size() == static_cast<std::size_t>(hosts), "sites",
                   "must be as many sites as hosts, {}, got {}", hosts, site_of.size());
    return site_of;
  }
  const auto count = static_cast<std::int64_t>(sites.size());
  for (std::int64_t host = 0; host < hosts; ++host) {
    const std::int64_t site = placement.rule == "blocks" ? host * count / hosts : host % count;
    site_of.push_back(static_cast<std::size_t>(site));
  }
  return site_of;
}

/// Links: hosts' up and down, 2 per host, then those between sites, (from, to).
Fabric join(const std::vector<std::string>& sites, const std::vector<std::size_t>& site_of,
            std::vector<Link> links, const std::vector<char>& is_crossed) {
  const auto hosts = static_cast<LinkId>(site_of.size());
  const std::size_t count = sites.size();
  const auto route = [=](NodeId source, NodeId destination, std::vector<LinkId>& way) {
    const std::size_t pair = site_of[static_cast<std::size_t>(source)] * count +
                             site_of[static_cast<std::size_t>(destination)];
    way.push_back(2 * static_cast<LinkId>(source));
    if (is_crossed[pair] != 0) way.push_back(2 * hosts + static_cast<LinkId>(pair));
    way.push_back(2 * static_cast<LinkId>(destination) + 1);
  };
  const auto name = [=](LinkId link) {
    if (link < 2 * hosts) return host_link_name(link);
    const std::size_t pair = link - 2 * hosts;
    return fmt::format("{} -> {}", sites[pair / count], sites[pair % count]);
  };
  return {std::move(links), route, name};
}

}  // namespace

std::function<Fabric(Link)> read_fabric_matrix(const Section& section, NodeId hosts) {
  const auto latencies =
      section.required<std::string>("latencies", "CSV file of latencies between sites");
  const auto bandwidths = section.optional<std::string>(
      "bandwidths", "", "CSV file of bandwidths between the same sites; none: bandwidth");
  const Placement placement{
      .rule = section.choice("placement", {"blocks", "list", "round_robin"}, "round_robin",
                             "of hosts at sites: equal blocks in order, as listed, or in turn"),
      .list = section.optional<std::string>("sites", "",
                                            "with placement = list: the site of each host")};
  section.expect(placement.rule == "list" || placement.list.empty(), "sites",
                 "goes with placement = list, which is {}", placement.rule);
  return [=, &section](Link own) {
    auto latency =
        read_matrix(section, "latencies", section.resolve_path(latencies), parse_table_latency);
    std::vector<std::optional<Bandwidth>> bandwidth(latency.values.size());
    if (!bandwidths.empty()) {
      auto matrix = read_matrix(section, "bandwidths", section.resolve_path(bandwidths),
                                [](const std::string& text) { return parse_bandwidth(text); });
      section.expect(matrix.sites == latency.sites, "bandwidths",
                     "must have the same sites as latencies, {}, got {}",
                     fmt::join(latency.sites, ", "), fmt::join(matrix.sites, ", "));
      bandwidth = std::move(matrix.values);
      for (std::size_t site = 0; site < latency.sites.size(); ++site) {
        const std::size_t within = site * (latency.sites.size() + 1);
        section.expect(!bandwidth[within] || latency.values[within], "bandwidths",
                       "{}: has a bandwidth within {}, where {} has no latency: hosts meet there "
                       "over their own links",
                       bandwidths, latency.sites[site], latencies);
      }
    }
    // A zero alone asks for no link, which all hosts of the site would share.
    for (std::size_t site = 0; site < latency.sites.size(); ++site) {
      const std::size_t within = site * (latency.sites.size() + 1);
      if (latency.values[within] == Duration{0} && !bandwidth[within])
        latency.values[within].reset();
    }
    const auto site_of = place(section, placement, hosts, latency.sites);
    std::vector<Link> links(2 * static_cast<std::size_t>(hosts), own);
    std::vector<char> is_crossed;
    for (std::size_t pair = 0; pair < latency.values.size(); ++pair) {
      is_crossed.push_back(latency.values[pair].has_value());
      links.push_back(
          {.bytes_per_second =
               bandwidth[pair].value_or(Bandwidth{own.bytes_per_second}).bytes_per_second,
           .latency = latency.values[pair].value_or(Duration{})});
    }
    return join(latency.sites, site_of, std::move(links), is_crossed);
  };
}

}  // namespace starling::network_models
