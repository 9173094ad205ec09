// Checks that a run which cannot fit into memory is refused before it begins, with the arithmetic.
#include <algorithm>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <omp.h>

#include "scenarios/assemble.hpp"
#include "scenarios/scenario.hpp"
#include "sim/base/error.hpp"

namespace starling {
namespace {

/// Why two nodes with this workload cannot run; empty if they can.
std::string refusal(const std::string& workload) {
  const std::string text = fmt::format(
      "[run]\nnodes = 2\nsteps = 1\n[topology]\nkind = complete\n[network]\nkind = constant\n"
      "latency = 1 us\nbandwidth = 1 GB/s\n[compute]\ngradient = 1 ms\n[workload]\n{}\n"
      "[algorithm]\nkind = allreduce\nlearning_rate = 0.1\n",
      workload);
  try {
    assemble(Scenario::parse(text, "large.ini"));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string threads() {
  const int count = std::min(2, omp_get_max_threads());
  return count == 1 ? "1 thread" : fmt::format("{} threads", count);
}

TEST_CASE("a mini-batch whose numbers between the layers cannot fit is refused") {
  // Rows of 65,536 numbers take 65,552 floats; beside one row of 64 floats there are eight of them, eight of 16 (seven
  // layers and the logits), and two as wide as the widest for the way back.
  const std::string wide = "65536, 16, 65536, 16, 65536, 16, 65536, 16, ";
  const std::string mlp = refusal(
      "kind = mlp\ndataset = blobs\nfeatures = 64\nclasses = 10\nsamples = 100\nbatch_size = "
      "1048576\nhidden = " +
      wide + wide.substr(0, wide.size() - 6));
  const std::size_t floats = (64 + 8 * 65552 + 8 * 16 + 2 * 65552) * std::size_t{1048576};
  CHECK_MESSAGE(mlp.find(fmt::format("the models alone need 2 nodes * 20054138 parameters * 4 B, "
                                     "and what lies between the layers {} * {} floats * 4 B = ",
                                     threads(), floats)) != mlp.npos,
                mlp);
  CHECK_MESSAGE(mlp.find(" GiB of memory are free") != mlp.npos, mlp);
}

TEST_CASE("so are those of convolutions and of attention") {
  const std::string cnn = refusal(
      "kind = cnn\nlayers = conv 512 3x3, relu, conv 512 3x3, relu\ndataset = blobs\nfeatures = "
      "4096\nsamples = 100\nbatch_size = 1048576");
  CHECK_MESSAGE(cnn.find("what lies between the layers " + threads()) != cnn.npos, cnn);
  const std::string transformer =
      refusal("kind = transformer\nlayers = 1000\nbatch_size = 1048576");
  CHECK_MESSAGE(transformer.find("what lies between the layers " + threads()) != transformer.npos,
                transformer);
}

TEST_CASE("what fits is not refused") {
  CHECK(refusal("kind = mlp\ndataset = blobs\nsamples = 100\nbatch_size = 1024") == "");
  CHECK(refusal("kind = transformer\nbatch_size = 1024") == "");
}

}  // namespace
}  // namespace starling
