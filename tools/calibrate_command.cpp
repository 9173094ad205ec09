// starling calibrate: measures the machine under mpirun and writes what a scenario includes.

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include <boost/program_options.hpp>
#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "sim/record/partial_file.hpp"
#include "sim/record/results_file.hpp"
#include "tools/arguments.hpp"
#include "tools/on_all_ranks.hpp"
#ifdef STARLING_HAVE_MPI
#include "scenarios/calibrate.hpp"
#include "tools/progress.hpp"
#include "tools/say.hpp"
#endif

namespace starling {

namespace po = boost::program_options;

#ifdef STARLING_HAVE_MPI
namespace {

void write(const std::string& text, const std::string& path) {
  PartialFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.finish();
}

/// Stands in for what a scenario shall get from here, and may lack until then.
void complete(std::vector<std::string>& words) {
  const Scenario scenario = read_scenario(words);
  if (!scenario.has_section("network"))
    words.insert(words.end(), {"network.kind=constant", "network.latency=0 s"});
  if (!scenario.section("compute").has("gradient")) words.emplace_back("compute.gradient=1 ms");
}

void measure(MpiSession& session, std::vector<std::string> words,
             const std::optional<std::string>& output, bool over_tcp) {
  on_all_ranks(session, [&] {
    // Measuring takes its time, so what would be lost is told before.
    if (!output || session.rank() != 0) return;
    std::error_code nothing;
    if (!words.empty() && std::filesystem::equivalent(words.front(), *output, nothing))
      throw Error(*output + ": is the scenario itself; name another file (--output)");
    const std::string_view begins[] = {calibration_head};
    refuse_to_replace_others(*output, begins, "measurement");
    expect_writable(*output);
  });
  std::optional<Assembly> parts;
  if (!words.empty()) {
    on_all_ranks(session, [&] { complete(words); });
    parts = assemble_on_all_ranks(session, words, [&session](const Assembly& read) {
      if (!read.workload->facts().has_numbers)
        throw Error("the scenario's workload has no numbers, so no gradient can be timed");
      if (read.settings.nodes < session.ranks())
        throw Error(fmt::format("the scenario has {} nodes, fewer than the {} ranks",
                                read.settings.nodes, session.ranks()));
    });
  }
  if (session.rank() == 0)
    say("measuring the network between {} ranks{} ...\n", session.ranks(),
        parts ? ", and gradients" : "");
  Progress progress;
  const Calibration calibration =
      calibrate(session, parts ? parts->workload.get() : nullptr,
                [&](double share, const std::string& what) { progress.show(share, what); });
  progress.clear();
  if (session.rank() != 0) return;
  for (const std::string& doubt : calibration.doubts()) say("starling: warning: {}\n", doubt);
  const std::string text = to_scenario_text(calibration, over_tcp);
  output ? write(text, *output) : fmt::print("{}", text);
}

}  // namespace
#endif

void calibrate_command(const Arguments& arguments) {
  po::options_description options("options");
  options.add_options()("output,o", po::value<std::string>(),
                        "file to write (standard output if not given)")(
      "tcp", "hosts talk by TCP, as on Ethernet: network.kind = tcp in place of fluid");
  po::variables_map values;
  if (!parse_arguments(arguments, "calibrate",
                       "mpirun -n RANKS starling calibrate [SCENARIO.ini [section.key=value ...]] "
                       "[-o MACHINE.ini] [--tcp]",
                       options, values))
    return;
#ifdef STARLING_HAVE_MPI
  in_session([&](MpiSession& session) {
    measure(session, values["words"].as<std::vector<std::string>>(), text_option(values, "output"),
            values.count("tcp") > 0);
  });
#else
  throw Error("this starling was built without MPI");
#endif
}

}  // namespace starling
