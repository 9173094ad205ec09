#include "tools/failure.hpp"

#include <new>

#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "tools/say.hpp"

namespace starling {

int tell(const std::exception_ptr& failure, bool speaks) {
  const auto end = [speaks](int status, const std::string& sentence) {
    if (speaks) say("starling: {}\n", sentence);
    return status;
  };
  try {
    std::rethrow_exception(failure);
  } catch (const Ended& ended) {
    return ended.status;
  } catch (const Interrupted& interrupted) {
    return end(128 + interrupted.signal(),
               fmt::format("{}; results so far are kept", interrupted.what()));
  } catch (const ScenarioError& error) {
    return end(2, error.what());
  } catch (const UsageError& error) {
    return end(2, error.what());
  } catch (const std::bad_alloc&) {
    return end(1, "out of memory");
  } catch (const std::exception& error) {
    return end(1, error.what());
  }
}

}  // namespace starling
