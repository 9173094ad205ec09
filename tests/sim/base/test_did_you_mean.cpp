// Which name is suggested in place of one that does not exist.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "sim/base/did_you_mean.hpp"

namespace starling::test_did_you_mean {

TEST_CASE("a suggestion is the nearest name and only a near one") {
  const std::vector<std::string> known = {"momentum", "learning_rate", "rate"};
  CHECK(did_you_mean("MOMENTUM", known) == "; did you mean momentum?");
  CHECK(did_you_mean("momentmu", known) == "; did you mean momentum?");  // one swap
  CHECK(did_you_mean("rat", known) == "; did you mean rate?");           // one letter missing
  CHECK(did_you_mean("learning-rate", known) == "; did you mean learning_rate?");
  CHECK(did_you_mean("learning_rate", known) == "; did you mean learning_rate?");
  CHECK(did_you_mean("momentun", {"momentum", "momentous"}) == "; did you mean momentum?");
  CHECK(did_you_mean("test_acc", {"test_auc", "test_accuracy"}) == "; did you mean test_accuracy?");
  CHECK(did_you_mean("lr", known) == "; did you mean learning_rate?");  // initials
  CHECK(did_you_mean("m", known) == "");
  CHECK(did_you_mean("gpu", {"cpu", "cuda", "auto"}).empty());
  CHECK(did_you_mean("cup", {"cpu", "cuda", "auto"}) == "; did you mean cpu?");
  CHECK(did_you_mean("speed", known) == "");
  CHECK(did_you_mean("", known) == "");
  CHECK(did_you_mean("x", {"y"}) == "");  // nothing in common
  CHECK(did_you_mean(std::string(1000, 'x'), {std::string(1000, 'x')}) == "");
}

TEST_CASE("a name that only one summary has as a word is suggested, however it is written") {
  const std::vector<std::string> kinds = {"choco", "swarm"};
  const std::vector<std::string> summaries = {
      "gossip with codes (CHOCO-SGD; Koloskova et al., 2019)",
      "gossip in pairs (SwarmSGD; Nadiradze et al., 2021)"};
  CHECK(did_you_mean("ChocoSGD", kinds, summaries) == "; did you mean choco?");
  CHECK(did_you_mean("swarm-sgd", kinds, summaries) == "; did you mean swarm?");
  CHECK(did_you_mean("gossip", kinds, summaries) == "");
  CHECK(did_you_mean("sgd", kinds, summaries) == "");
  CHECK(did_you_mean("-", kinds, summaries) == "");
}

}  // namespace starling::test_did_you_mean
