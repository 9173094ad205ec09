#include "tools/assemble_on_all_ranks.hpp"

#ifdef STARLING_HAVE_MPI

#include <exception>
#include <optional>

#include "sim/base/error.hpp"
#include "tools/arguments.hpp"

namespace starling {

Assembly assemble_on_all_ranks(MpiSession& session, const std::vector<std::string>& words,
                               const std::function<void(const Assembly&)>& check,
                               int processes) {
  std::optional<Assembly> parts;
  std::exception_ptr failure;
  std::string reason;
  try {
    parts = assemble(read_scenario(words), processes);
    check(*parts);
  } catch (const std::exception& error) {
    failure = std::current_exception();
    reason = error.what();
  }
  const std::string shared = session.share_failure(reason);
  if (failure) std::rethrow_exception(failure);
  if (!shared.empty()) throw Error(shared);
  return std::move(*parts);
}

}  // namespace starling

#endif
