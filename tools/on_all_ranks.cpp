#include "tools/on_all_ranks.hpp"

#ifdef STARLING_HAVE_MPI

#include <exception>
#include <optional>

#include <fmt/core.h>

#include "scenarios/checkpointing.hpp"
#include "sim/base/error.hpp"
#include "starling_version.hpp"
#include "tools/arguments.hpp"
#include "tools/failure.hpp"

namespace starling {
namespace {

/// Ranks that read different files, say each its host's, would mix two runs into one.
void check_same_settings(MpiSession& session, const Assembly& parts) {
  const std::string own =
      fmt::format("version {}\n{}", STARLING_VERSION, Scenario::to_text(parts.described));
  const std::string expected = session.broadcast(own);
  on_all_ranks(session, [&] {
    if (own == expected) return;
    throw Error(fmt::format("rank {} has other settings than rank 0: expected {}, found {}",
                            session.rank(), quoted_other_line(expected, own),
                            quoted_other_line(own, expected)));
  });
}

/// Ranks that have different data under the same names would mix two runs, too.
void check_same_files(MpiSession& session, const std::vector<std::string>& files) {
  std::string own;  // a line each
  on_all_ranks(session, [&] {
    for (const std::string& path : files) own += checksum_of_file(path) + ' ' + path + '\n';
  });
  const std::string expected = session.broadcast(own);
  on_all_ranks(session, [&] {
    if (own == expected) return;
    const std::string line = first_other_line(own, expected);
    throw Error(fmt::format("{}: holds something else on rank {} than on rank 0",
                            line.substr(line.find(' ') + 1), session.rank()));
  });
}

}  // namespace

void in_session(const std::function<void(MpiSession&)>& how) {
  MpiSession session;
  try {
    how(session);
  } catch (...) {
    // Told here, because the session's end may be the end of the process.
    const int status = tell(std::current_exception(), session.speaks());
    session.fail();
    throw Ended{status};
  }
}

void on_all_ranks(MpiSession& session, const std::function<void()>& what) {
  std::exception_ptr failure;
  std::string reason;
  try {
    what();
  } catch (const std::exception& error) {
    failure = std::current_exception();
    reason = error.what();
  }
  const std::string shared = session.share_failure(reason);
  if (failure) std::rethrow_exception(failure);
  if (!shared.empty()) throw Error(shared);
}

Assembly assemble_on_all_ranks(MpiSession& session, const std::vector<std::string>& words,
                               const std::function<void(const Assembly&)>& check) {
  std::optional<Assembly> parts;
  on_all_ranks(session, [&] {
    parts = assemble(read_scenario(words), session.hosts());
    check(*parts);
  });
  check_same_settings(session, *parts);
  check_same_files(session, parts->files);
  return std::move(*parts);
}

}  // namespace starling

#endif
