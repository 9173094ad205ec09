#include "algorithms/context.hpp"

#include <string>

namespace starling::algorithms {

void warn_beyond_run(const Section& section, std::string_view key, Step steps,
                     const Context& context, std::string_view consequence) {
  if (steps > context.steps)
    section.warn(key, "is {}, more than run.steps, {}: {}", steps, context.steps, consequence);
}

void expect_whole(const Section& section, std::string_view because) {
  section.expect(section.peek<std::string>("exchange", "whole") == "whole", "exchange",
                 "must be whole with {}", because);
}

}  // namespace starling::algorithms
