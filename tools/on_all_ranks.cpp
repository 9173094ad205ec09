#include "tools/on_all_ranks.hpp"

#ifdef STARLING_HAVE_MPI

#include <exception>
#include <optional>

#include "sim/base/error.hpp"
#include "tools/arguments.hpp"
#include "tools/failure.hpp"

namespace starling {

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
                               const std::function<void(const Assembly&)>& check, int processes) {
  std::optional<Assembly> parts;
  on_all_ranks(session, [&] {
    parts = assemble(read_scenario(words), processes);
    check(*parts);
  });
  return std::move(*parts);
}

}  // namespace starling

#endif
