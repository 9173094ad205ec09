// starling export: a results file for other programs, as CSV or as a Chrome/Perfetto trace.

#include <cstdio>
#include <filesystem>
#include <system_error>

#include <boost/program_options.hpp>
#include <fmt/core.h>

#include "sim/record/export.hpp"
#include "sim/record/results_file.hpp"
#include "tools/arguments.hpp"
#include "tools/failure.hpp"
#include "tools/say.hpp"

namespace starling {

namespace po = boost::program_options;

void export_command(const Arguments& arguments) {
  po::options_description options("options");
  options.add_options()(
      "table,t", po::value<std::string>(),
      "steps, evaluation, evaluation_by_time, nodes, timeline, links or link_timeline, as CSV")(
      "trace", "the timeline as a trace for ui.perfetto.dev")(
      "output,o", po::value<std::string>(), "file to write (standard output if not given)");
  po::variables_map values;
  if (!parse_arguments(arguments, "export",
                       "starling export RESULTS.h5 --table NAME|--trace [-o FILE]", options,
                       values))
    return;
  const auto words = values["words"].as<std::vector<std::string>>();
  if (words.size() != 1) throw UsageError("export takes one results file");
  const bool wants_trace = values.count("trace") > 0;
  if (wants_trace == (values.count("table") > 0))
    throw UsageError("export takes either --table NAME or --trace");
  const Recorder recorder = load(words[0]);
  const bool wants_timeline = wants_trace || values["table"].as<std::string>() == "timeline";
  if (wants_timeline && recorder.timeline_until() == Time()) {
    say("starling: warning: {} keeps no timeline: its run has run.timeline = 0 s\n", words[0]);
  }
  const auto lacks = [&](std::string_view table, bool is_empty, std::string_view why) {
    if (wants_trace || values["table"].as<std::string>() != table || !is_empty) return;
    say("starling: warning: {} has no {}: {}\n", words[0], table, why);
  };
  lacks("links", recorder.links.empty(), "its network model counts none, or none was used");
  lacks("evaluation_by_time", recorder.evaluation_by_time.rows() == 0,
        "its run has neither run.evaluate_interval nor run.until");
  if (const auto path = text_option(values, "output")) {
    std::error_code nothing;
    if (std::filesystem::equivalent(words[0], *path, nothing)) {
      throw UsageError(fmt::format("--output {} is the results file itself", *path));
    }
    wants_trace ? write_chrome_trace(recorder, *path)
                : write_csv(recorder, values["table"].as<std::string>(), *path);
  } else {
    wants_trace ? write_chrome_trace(recorder, stdout, "standard output")
                : write_csv(recorder, values["table"].as<std::string>(), stdout, "standard output");
  }
}

}  // namespace starling
