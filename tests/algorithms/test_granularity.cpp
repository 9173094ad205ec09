// Models in pieces: the same bits as in one message, other times. What staging and host arithmetic cost.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "sim/base/error.hpp"
#include "tests/support/small_run.hpp"

namespace starling::test_granularity {
namespace {

using Overrides = std::vector<std::string>;

/// An MLP 64-8-10 on digits: four tensors of 512, 8, 80 and 10 floats.
std::string digits(const std::string& algorithm) {
  return "[run]\nnodes = 8\nsteps = 5\n[topology]\nkind = ring\n[network]\nkind = "
         "constant\nlatency = 1 ms\n"
         "[compute]\ngradient = 1 ms\n[workload]\nkind = mlp\ndataset = digits\nhidden = "
         "8\n[algorithm]\n"
         "learning_rate = 0.1\nmomentum = 0.9\n" +
         algorithm;
}

/// Two tensors, of 1 MB and 3 MB, that only take time; messages take 1 ms and 1 ms per MB; gradients 10 ms.
std::string two_tensors(int nodes, const std::string& algorithm) {
  return fmt::format(
      "[run]\nnodes = {}\nsteps = 1\n[topology]\nkind = ring\n[network]\nkind = constant\nlatency "
      "= 1 ms\n"
      "bandwidth = 1 GB/s\n[compute]\ngradient = 10 ms\n[workload]\nkind = timing\nparameters = "
      "1000000\n"
      "tensors = 250000, 750000\n[algorithm]\nlearning_rate = 0.1\n{}\n",
      nodes, algorithm);
}

double finished(const Recorder& recorder, std::size_t node) {
  return 1e3 * to_seconds(recorder.nodes.at(node).finished);
}

double ends(const std::string& text, const Overrides& overrides) {
  return finished(test::run(text, overrides), 0);
}

const Overrides tensors{"algorithm.exchange=tensors"};
const Overrides overlapped{"algorithm.exchange=tensors", "algorithm.overlap=backward",
                           "compute.forward_share=0.5"};

}  // namespace

TEST_CASE("models whole, in buckets or tensor by tensor are the same to the bit") {
  for (const std::string algorithm :
       {"kind = adaptive_period",
        "kind = allreduce",
        "kind = allreduce\ncollective = recursive_doubling",
        "kind = allreduce\ncollective = by_size\ncollective_switch = 100 B",
        "kind = allreduce\ncompression = half\ncode_route = sums",
        "kind = allreduce\ncompression = half\ncode_route = owners",
        "kind = allreduce\ncompression = bfloat",
        "kind = diloco\nperiod = 2\ncompression = bfloat",
        "kind = bmuf\nperiod = 2\ncompression = bfloat\ncode_route = sums\ncollective = tree",
        "kind = bmuf\nperiod = 2",
        "kind = d2",
        "kind = dasgd",
        "kind = diloco\nperiod = 2",
        "kind = dpsgd",
        "kind = easgd\nperiod = 2",
        "kind = epidemic",
        "kind = parameter_server",
        "kind = parameter_server\nservers = 3",
        "kind = powersgd",
        "kind = powersgd\nsides = alternating\nexact_steps = 1\nleast_gain = 2",
        "kind = token_walk",
        "kind = dpsgd\norder = adapt_then_combine",
        "kind = eager\nactivation = full",
        "kind = gradient_tracking",
        "kind = local_gossip",
        "kind = local_gossip\nmixing = random_matching",
        "kind = local_sgd\nperiod = 2",
        "kind = sgp",
        "kind = sgp\npeers = two_peer",
        "kind = slowmo\nperiod = 2",
        "kind = swarm\naveraging = blocking",
        "kind = wagma\nactivation = full\ntau = 3"}) {
    CAPTURE(algorithm);
    // Momentum would hide nothing, but some of these have none.
    std::string text = digits(algorithm);
    if (algorithm.find("gradient_tracking") != std::string::npos || algorithm == "kind = d2" ||
        algorithm.find("adaptive") != std::string::npos) {
      text.replace(text.find("momentum = 0.9\n"), 15, "");
    }
    const Recorder whole = test::run(text);
    CHECK(whole.models == test::run(text, tensors).models);
    // 4 * (10 + 80 + 8) bytes fill a bucket of 400; the first tensor has one of its own.
    CHECK(whole.models ==
          test::run(text, {"algorithm.exchange=buckets", "algorithm.bucket_size=400 B"}).models);
    CHECK(whole.models ==
          test::run(text, {"algorithm.exchange=tensors", "network.collectives=analytic"}).models);
  }
}

TEST_CASE("pieces that come twice are not taken for others") {
  for (const std::string algorithm :
       {"kind = allreduce", "kind = allreduce\ncollective = recursive_doubling",
        "kind = allreduce\ncollective = ring", "kind = allreduce\ncompression = sign",
        "kind = allreduce\ncompression = sign\ncode_route = owners", "kind = dgc", "kind = d2",
        "kind = dpsgd", "kind = epidemic", "kind = gradient_tracking",
        "kind = local_gossip\nmixing = random_matching", "kind = local_sgd\nperiod = 2",
        "kind = parameter_server\nservers = 3", "kind = powersgd", "kind = sgp",
        "kind = sgp\npeers = two_peer", "kind = swarm\naveraging = blocking",
        "kind = wagma\nactivation = full\ntau = 3"}) {
    CAPTURE(algorithm);
    std::string text = digits(algorithm);
    if (algorithm.find("gradient_tracking") != std::string::npos || algorithm == "kind = d2") {
      text.replace(text.find("momentum = 0.9\n"), 15, "");
    }
    const Recorder once = test::run(text, tensors);
    const Recorder twice =
        test::run(text, {"algorithm.exchange=tensors", "failures.duplicate=0.3"});
    CHECK(once.models == twice.models);
  }
}

TEST_CASE("exchanging beside the backward pass changes no bit either") {
  for (const std::string algorithm :
       {"kind = allreduce", "kind = allreduce\ncompression = half\ncode_route = sums",
        "kind = dpsgd", "kind = eager\nactivation = full", "kind = local_sgd\nperiod = 2",
        "kind = powersgd\nexact_steps = 2", "kind = powersgd\nsides = alternating",
        "kind = sgp\npeers = two_peer", "kind = wagma\nactivation = full\ntau = 3"}) {
    CAPTURE(algorithm);
    CHECK(test::run(digits(algorithm)).models == test::run(digits(algorithm), overlapped).models);
  }
}

TEST_CASE("each piece is compressed by itself: tensor by tensor what unit = tensors does") {
  for (const std::string codec : {"float4", "sign", "one_bit", "top_k\nkeep = 0.2",
                                  "top_k\nkeep = 0.2\nerror_feedback = no"}) {
    CAPTURE(codec);
    const std::string text = digits("kind = allreduce\ncompression = " + codec);
    const Recorder by_tensor = test::run(text, {"algorithm.unit=tensors"});
    CHECK(test::run(text).models != by_tensor.models);
    CHECK(test::run(text, tensors).models == by_tensor.models);
    CHECK(test::run(text, overlapped).models == by_tensor.models);
    CHECK(test::run(text, {"algorithm.exchange=tensors", "network.collectives=analytic"}).models ==
          by_tensor.models);
    // A bucket of three tensors is one piece.
    CHECK(test::run(text, {"algorithm.exchange=buckets", "algorithm.bucket_size=400 B"}).models !=
          by_tensor.models);
  }
  // Random numbers are each piece's own, whenever it leaves, whichever way means go.
  for (const std::string way :
       {"allreduce", "allreduce\ncode_route = owners", "local_sgd\nperiod = 5"}) {
    CAPTURE(way);
    const std::string text = digits("compression = levels\nkind = " + way);
    const Recorder pieces = test::run(text, tensors);
    CHECK(test::nodes_agree(pieces));
    CHECK(test::run(text).models != pieces.models);
    CHECK(test::run(text, overlapped).models == pieces.models);
  }
}

TEST_CASE(
    "Deep Gradient Compression is the same whole, tensor by tensor, and beside the backward pass") {
  for (const std::string keys :
       {"", "nesterov = yes\nclip_norm = 0.5", "masking = no\nweight_decay = 0.1",
        "warmup_keep = 0.5\nwarmup_period = 2"}) {
    CAPTURE(keys);
    const std::string text = digits("kind = dgc\nkeep = 0.1\n" + keys);
    const Recorder whole = test::run(text);
    for (Overrides pieces : {tensors, overlapped}) {
      const Recorder recorder = test::run(text, pieces);
      CHECK(recorder.models == whole.models);
      CHECK(recorder.nodes[0].bytes_sent == whole.nodes[0].bytes_sent);
      CHECK(recorder.nodes[0].messages_sent == 4 * whole.nodes[0].messages_sent);
      pieces.emplace_back("network.collectives=analytic");
      CHECK(test::run(text, pieces).models == whole.models);
    }
  }
  // A model of one tensor, of no name, is whole.
  const std::string quadratic =
      test::quadratic_scenario(4, 20, "complete", "kind = dgc\nlearning_rate = 0.05\n");
  CHECK(test::run(quadratic, tensors).models == test::run(quadratic).models);
  // 10 % of 0.75 and 0.25 million entries, of 8 bytes each: 0.6 MB after 7.5 ms, 0.2 MB after 10.
  CHECK(ends(two_tensors(2, "kind = dgc\nkeep = 0.1"), overlapped) == doctest::Approx(10 + 1.2));
}

TEST_CASE("each piece sends a code of its own") {
  // 4 bytes for a norm and 4 bits an entry: of 610 entries whole, of 512, 8, 80 and 10 tensor by tensor.
  const std::string text = digits("kind = allreduce\ncompression = levels\nbucket = 0");
  const auto bytes = [&](const Overrides& overrides) {
    return test::run(text, overrides).nodes[0].bytes_sent;
  };
  CHECK(bytes({}) == 5 * 7 * (4 + 305));
  CHECK(bytes(tensors) == 5 * 7 * (4 * 4 + 256 + 4 + 40 + 5));
  CHECK(bytes({"algorithm.exchange=buckets", "algorithm.bucket_size=400 B"}) ==
        5 * 7 * (2 * 4 + 256 + 49));
}

TEST_CASE("pieces of a ring's sum are added in another order, to rounding") {
  const std::string text = digits("kind = allreduce\ncollective = ring");
  const Recorder whole = test::run(text);
  const Recorder pieces = test::run(text, tensors);
  CHECK(test::model(whole, 0, 100) == doctest::Approx(test::model(pieces, 0, 100)).epsilon(1e-5));
}

TEST_CASE("tensors go one after the other, the last one first, each waited for") {
  // Whole: 10 ms, then 1 + 4 ms. Tensor by tensor: 10, 1 + 3, 1 + 1 ms.
  const std::string text = two_tensors(2, "kind = dpsgd\norder = adapt_then_combine");
  CHECK(ends(text, {}) == doctest::Approx(15));
  CHECK(ends(text, tensors) == doctest::Approx(16));
  // Both fit a bucket of 25 MB, the default, but not one of 3 MB.
  CHECK(ends(text, {"algorithm.exchange=buckets"}) == doctest::Approx(15));
  CHECK(ends(text, {"algorithm.exchange=buckets", "algorithm.bucket_size=3 MB"}) ==
        doctest::Approx(16));
  // Rabenseifner between two: halves there and back. Whole 2 (1 + 2) ms, pieces 2 (1 + 1.5) and 2 (1 + 0.5).
  const std::string sum = two_tensors(2, "kind = allreduce");
  for (const std::string collectives : {"expanded", "analytic"}) {
    Overrides both = tensors;
    both.push_back("network.collectives=" + collectives);
    CHECK(ends(sum, {both.back()}) == doctest::Approx(16));
    CHECK(ends(sum, both) == doctest::Approx(18));
  }
  // by_size: 1 MB by recursive doubling, 1 + 1 ms, and 3 MB by Rabenseifner, 2 (1 + 1.5).
  CHECK(ends(sum, {"algorithm.exchange=tensors", "algorithm.collective=by_size",
                   "algorithm.collective_switch=1 MB"}) == doctest::Approx(17));
}

TEST_CASE("codes of pieces are made when their gradients are there") {
  // 3 MB are there after 7.5 ms and 1 MB after 10; sums of halves take 2 (1 + 0.75) and 2 (1 + 0.25) ms.
  const std::string text =
      two_tensors(2, "kind = allreduce\ncompression = half\ncode_route = sums");
  CHECK(ends(text, overlapped) == doctest::Approx(7.5 + 3.5 + 2.5));
  // Made in 0.75 and 0.25 ms, read in 1.5 and 0.5.
  Overrides coding = overlapped;
  coding.insert(coding.end(),
                {"network.encoding_bandwidth=4 GB/s", "network.decoding_bandwidth=2 GB/s"});
  CHECK(ends(text, coding) == doctest::Approx(7.5 + 0.75 + 3.5 + 1.5 + 0.25 + 2.5 + 0.5));
  // Half the bytes are added up: 0.75 MB in 0.75 ms, 0.25 in 0.25.
  Overrides adding = overlapped;
  adding.emplace_back("network.reduction_bandwidth=1 GB/s");
  CHECK(ends(text, adding) == doctest::Approx(7.5 + 3.5 + 2.5 + 1));
}

TEST_CASE("codes that are gathered, or summed by owners, leave beside the backward pass") {
  // Codes of 1.5 and 0.5 MB, each to the other node; 3 MB are there after 7.5 ms and 1 MB after 10.
  const std::string text = two_tensors(2, "kind = allreduce\ncompression = half");
  CHECK(ends(text, {}) == doctest::Approx(10 + 3));
  CHECK(ends(text, tensors) == doctest::Approx(10 + 2.5 + 1.5));
  CHECK(ends(text, overlapped) == doctest::Approx(7.5 + 2.5 + 1.5));
  // Made in 0.75 and 0.25 ms; two are read, in 3 and 1.
  const Overrides coding{"network.encoding_bandwidth=4 GB/s", "network.decoding_bandwidth=2 GB/s"};
  Overrides more = overlapped;
  more.insert(more.end(), coding.begin(), coding.end());
  CHECK(ends(text, more) == doctest::Approx(7.5 + 0.75 + 2.5 + 3 + 0.25 + 1.5 + 1));
  // By owners half of each goes there and back: 2 (1 + 0.75) and 2 (1 + 0.25) ms.
  more = overlapped;
  more.emplace_back("algorithm.code_route=owners");
  CHECK(ends(text, more) == doctest::Approx(7.5 + 3.5 + 2.5));
  // One node codes its second piece when that is there, at 10.
  more = overlapped;
  more.insert(more.end(), coding.begin(), coding.end());
  more.emplace_back("run.nodes=1");
  CHECK(ends(text, more) == doctest::Approx(10 + 0.25 + 0.5));
}

TEST_CASE("thin matrices of a piece are made when its gradient is there") {
  // 1000 x 250 and 1000 x 750 numbers at rank 50: P of 0.2 MB each, Q of 0.05 and 0.15 MB. A sum of two takes 2 ms and 1 ms per MB.
  const Overrides matrices{"workload.tensors=1000x250, 1000x750"};
  const auto ends_by = [&](Overrides more) {
    more.insert(more.end(), matrices.begin(), matrices.end());
    return ends(two_tensors(2, "kind = powersgd\nrank = 50"), more);
  };
  CHECK(ends_by({}) == doctest::Approx(10 + 2.4 + 2.2));
  CHECK(ends_by(tensors) == doctest::Approx(10 + (2.2 + 2.15) + (2.2 + 2.05)));
  CHECK(ends_by({"algorithm.exchange=buckets"}) == doctest::Approx(10 + 2.4 + 2.2));
  // The larger is there after 7.5 ms.
  CHECK(ends_by(overlapped) == doctest::Approx(7.5 + (2.2 + 2.15) + (2.2 + 2.05)));
  Overrides more = overlapped;
  more.emplace_back("algorithm.sides=alternating");
  CHECK(ends_by(more) == doctest::Approx(10 + 2.2));
  // The smaller travels as it is: 250,000 numbers are but four times 62,500.
  more = overlapped;
  more.emplace_back("algorithm.least_gain=5");
  CHECK(ends_by(more) == doctest::Approx(7.5 + (2.2 + 2.15) + 3));
  // Made in 0.75 and 0.25 ms, read in 1.5 and 0.5.
  more = overlapped;
  more.insert(more.end(),
              {"network.encoding_bandwidth=4 GB/s", "network.decoding_bandwidth=2 GB/s"});
  CHECK(ends_by(more) == doctest::Approx(7.5 + 0.75 + 4.35 + 1.5 + 0.25 + 4.25 + 0.5));
  // One node has nothing to send, but codes to make: those of the second piece when its gradient is there, after 10.
  more.emplace_back("run.nodes=1");
  CHECK(ends_by(more) == doctest::Approx(10 + 0.25 + 0.5));
}

TEST_CASE("making and reading codes takes time on the host") {
  // 4 MB: a code is made in 1 ms and read in 2.
  const Overrides coding{"network.encoding_bandwidth=4 GB/s", "network.decoding_bandwidth=2 GB/s"};
  const struct {
    const char* algorithm;
    int nodes;
    double more;  // ms, of the last node
  } cases[] = {
      {"kind = allreduce", 4, 0},
      // One's own, then those of all.
      {"kind = allreduce\ncompression = half", 4, 1 + 4 * 2},
      {"kind = diloco\nperiod = 1\ncompression = bfloat", 4, 1 + 4 * 2},
      {"kind = dgc\nkeep = 0.01", 4, 1 + 4 * 2},
      // A whole one, four of a quarter, one of a quarter to be made, four of a quarter.
      {"kind = allreduce\ncompression = half\ncode_route = owners", 4, 1 + 2 + 0.25 + 2},
      {"kind = allreduce\ncompression = half\ncode_route = sums", 4, 1 + 2},
      {"kind = one_bit", 4, 1 + 2 + 0.25 + 2},
      // On a ring two neighbors'.
      {"kind = dpsgd\ncompression = half", 4, 1 + 2 * 2},
      {"kind = choco\ncompression = half\nconsensus_rate = 1", 4, 1 + 2 * 2},
      {"kind = deep_squeeze\ncompression = half\nconsensus_rate = 1", 4, 1 + 2 * 2},
      {"kind = sgp\ncompression = half", 4, 1 + 2},
      {"kind = swarm\naveraging = blocking\nlocal_steps = 1\ncompression = half", 2, 1 + 2},
      // To a server, which reads all. What it sends back is made as no code; only a union of entries is read as one.
      {"kind = compressed_parameter_server", 4, 1 + 4 * 2 + 2},
      {"kind = compressed_parameter_server\ndirection = both", 4, 1 + 4 * 2 + 1 + 2},
      {"kind = sign_sgd", 4, 1 + 4 * 2 + 1 + 2},
      {"kind = terngrad", 4, 1 + 4 * 2 + 1 + 2},
      // Up to the first node and back.
      {"kind = gtop_k\nkeep = 0.01", 2, 1 + 2 + 1 + 2},
      {"kind = lqsgd", 2, 1 + 2},  // in the first step nothing goes up as a code
      {"kind = a2sgd", 4, 1 + 2},
  };
  for (const auto& [algorithm, nodes, more] : cases) {
    const char* const name = algorithm;
    CAPTURE(std::string(name));
    const std::string text = two_tensors(nodes, algorithm);
    const auto last = [&text](const Overrides& overrides) {
      return 1e3 * to_seconds(last_finish(test::run(text, overrides).nodes));
    };
    CHECK(last(coding) - last({}) == doctest::Approx(more));
  }
  // Both ask as soon as a phase ends, and each request is the other's answer: a code is made and read, phase after phase.
  const std::string pairs = two_tensors(2, "kind = swarm\nlocal_steps = 1\ncompression = half");
  Overrides three = coding;
  three.emplace_back("run.steps=3");
  CHECK(ends(pairs, three) - ends(pairs, {"run.steps=3"}) == doctest::Approx(3 * (1 + 2)));
}

TEST_CASE("a late node is felt as many hops away as there are pieces") {
  // Seven in a ring, free messages; node 0 takes 100 ms, the others 10. Whole: its neighbors wait. In two pieces: their
  // second piece is late, too, and with it their neighbors; nodes 3 and 4 have all they need at 10 ms.
  const std::string text = two_tensors(7, "kind = dpsgd\norder = adapt_then_combine");
  const Overrides free{"network.latency=0 s", "network.bandwidth=infinite",
                       "compute.speeds=0.1, 1, 1, 1, 1, 1, 1"};
  Overrides pieces = free;
  pieces.push_back(tensors[0]);
  const Recorder whole = test::run(text, free);
  const Recorder split = test::run(text, pieces);
  const double expected_whole[] = {100, 100, 10, 10, 10, 10, 100};
  const double expected_split[] = {100, 100, 100, 10, 10, 100, 100};
  for (std::size_t i = 0; i < 7; ++i) {
    CHECK(finished(whole, i) == doctest::Approx(expected_whole[i]));
    CHECK(finished(split, i) == doctest::Approx(expected_split[i]));
  }
  // Messages: one to each of two neighbors per piece.
  CHECK(whole.nodes[3].messages_sent == 2);
  CHECK(split.nodes[3].messages_sent == 4);
  CHECK(whole.nodes[3].bytes_sent == split.nodes[3].bytes_sent);
}

TEST_CASE("pieces leave when the backward pass has come to them") {
  // Gradients of 10 ms, half of it the backward pass: the 3 MB tensor is ready at 7.5 ms, the other at 10.
  // D-PSGD: 7.5 + 1 + 3 = 11.5, then 1 + 1 more. Allreduce: 7.5 + 5 = 12.5, then 3 more.
  CHECK(ends(two_tensors(2, "kind = dpsgd"), overlapped) == doctest::Approx(13.5));
  CHECK(ends(two_tensors(2, "kind = allreduce"), overlapped) == doctest::Approx(15.5));
  // With free messages nothing is hidden or added; a single bucket leaves at the end.
  const Overrides free{"network.latency=0 s", "network.bandwidth=infinite"};
  Overrides both = overlapped;
  both.insert(both.end(), free.begin(), free.end());
  CHECK(ends(two_tensors(2, "kind = allreduce"), both) == doctest::Approx(10));
  CHECK(ends(two_tensors(2, "kind = allreduce"),
             {"algorithm.exchange=buckets", "algorithm.overlap=backward",
              "compute.forward_share=0.5"}) == doctest::Approx(16));
  // Computing is counted in full, communicating only what comes after: 10 + 3.5 ms.
  const Recorder recorder = test::run(two_tensors(2, "kind = dpsgd"), overlapped);
  CHECK(to_seconds(recorder.nodes[0].compute) == doctest::Approx(10e-3));
  CHECK(to_seconds(recorder.nodes[0].communicate) == doctest::Approx(3.5e-3));
}

TEST_CASE("an injected delay comes before the backward pass, not within") {
  // All are late by 20 ms: ready at 20 + 7.5 and 20 + 10.
  Overrides late = overlapped;
  late.insert(late.end(), {"compute.delay=20 ms", "compute.delay_probability=1"});
  CHECK(ends(two_tensors(2, "kind = dpsgd"), late) == doctest::Approx(33.5));
}

TEST_CASE("a pause within the backward pass holds up only what comes after it") {
  // Node 1 is away from 8 to 28 ms: its 3 MB have left at 7.5 and are there at 11.5; its 1 MB is ready at 30, there at 32.
  // Node 0's pieces come in meanwhile.
  Overrides paused = overlapped;
  paused.emplace_back("failures.pause=1 @ 8 ms for 20 ms");
  const Recorder recorder = test::run(two_tensors(2, "kind = dpsgd"), paused);
  CHECK(finished(recorder, 0) == doctest::Approx(32));
  CHECK(finished(recorder, 1) == doctest::Approx(30));
}

TEST_CASE("a pause within the backward pass before a piece is ready puts that off") {
  // Node 1 is away from 6 to 26 ms: its 3 MB are ready at 27.5, and at node 0 at 31.5, which sends its 1 MB then, until 33.5; that
  // of node 1 is ready at 30, and there at 32.
  Overrides paused = overlapped;
  paused.emplace_back("failures.pause=1 @ 6 ms for 20 ms");
  const Recorder recorder = test::run(two_tensors(2, "kind = dpsgd"), paused);
  CHECK(finished(recorder, 0) == doctest::Approx(32));
  CHECK(finished(recorder, 1) == doctest::Approx(33.5));
}

TEST_CASE("a step without an exchange still waits for the end of its backward pass") {
  Overrides settings = overlapped;
  settings.emplace_back("run.steps=3");
  CHECK(ends(two_tensors(2, "kind = local_sgd\nperiod = 5"), settings) == doctest::Approx(30));
}

TEST_CASE("shared exchanges copy a piece out and back beside the others, and add on the host") {
  // Copies take 0.5 ms and 1 ms per 2 MB: 2.5 ms for 4 MB, 2 for 3 MB, 1 for 1 MB. Two pieces are out at 12 and 13 ms and
  // exchanged by 12 + 4 and 16 + 2; they are back at 18 and 19.
  const Overrides staging{"network.staging_latency=0.5 ms", "network.staging_bandwidth=2 GB/s"};
  Overrides pieces = staging;
  pieces.push_back(tensors[0]);
  const std::string gossip = two_tensors(2, "kind = dpsgd\norder = adapt_then_combine");
  CHECK(ends(gossip, staging) == doctest::Approx(15 + 2 * 2.5));
  CHECK(ends(gossip, pieces) == doctest::Approx(19));
  // Beside the backward pass: ready at 7.5 and 10, out at 9.5 and 11, exchanged by 13.5 and 15.5, back at 15.5 and 16.5.
  Overrides beside = overlapped;
  beside.insert(beside.end(), staging.begin(), staging.end());
  CHECK(ends(two_tensors(2, "kind = dpsgd"), beside) == doctest::Approx(16.5));
}

TEST_CASE("additions of collectives and the program's own loops take time on the host") {
  // At 4 GB/s adding up 4 MB takes 1 ms: a sum of two by recursive doubling adds once, by Rabenseifner half a time.
  const std::string adding = "network.reduction_bandwidth=4 GB/s";
  for (const std::string collectives :
       {"network.collectives=expanded", "network.collectives=analytic"}) {
    const std::string sum = two_tensors(2, "kind = allreduce");
    CHECK(ends(sum, {adding, collectives}) == doctest::Approx(16 + 0.5));
    CHECK(ends(sum, {adding, collectives, "algorithm.collective=recursive_doubling"}) ==
          doctest::Approx(15 + 1));
    CHECK(ends(sum, {adding, collectives, "algorithm.collective=ring"}) == doctest::Approx(16.5));
    // Up, added, and down: a message more.
    const Recorder tree = test::run(sum, {adding, collectives, "algorithm.collective=tree"});
    CHECK(finished(tree, 1) == doctest::Approx(15 + 1 + 5));
  }
  // A server adds up three gradients beside its own when all have come: 10 + 5 + 3, and 5 back.
  const Recorder served = test::run(two_tensors(4, "kind = parameter_server"), {adding});
  CHECK(finished(served, 0) == doctest::Approx(18));
  CHECK(finished(served, 3) == doctest::Approx(23));
  // A model that fits the cache is added up at the cache's speed.
  const std::string sum = two_tensors(2, "kind = allreduce\ncollective = recursive_doubling");
  CHECK(ends(sum, {adding, "network.cache=4 MB", "network.cache_bandwidth=8 GB/s"}) ==
        doctest::Approx(15 + 0.5));
  CHECK(ends(sum, {adding, "network.cache=3.9 MB", "network.cache_bandwidth=8 GB/s"}) ==
        doctest::Approx(15 + 1));
  // Loops of the program: two models mixed or averaged; model and scaled copy, then one share; a sum divided.
  const std::string loops = "network.operator_bandwidth=4 GB/s";
  const std::pair<std::string, double> passes[] = {{"kind = dpsgd\norder = adapt_then_combine", 2},
                                                   {"kind = sgp", 3},
                                                   {"kind = local_sgd\nperiod = 1", 1},
                                                   {"kind = wagma", 1},
                                                   {"kind = allreduce", 1}};
  for (const auto& entry : passes) {
    CAPTURE(entry.first);
    const auto& [algorithm, times] = entry;
    const std::string text = two_tensors(2, algorithm);
    CHECK(ends(text, {loops}) - ends(text, {}) == doctest::Approx(times));
  }
}

TEST_CASE("tensors of a bucket are copied into a buffer and out of it, a single one is not") {
  // 4 MB at 4 GB/s, twice; a bucket of each tensor is that tensor.
  const std::string sum =
      two_tensors(2, "kind = allreduce\nexchange = buckets\nbucket_size = 4 MB");
  const std::string copying = "network.copy_bandwidth=4 GB/s";
  CHECK(ends(sum, {copying}) - ends(sum, {}) == doctest::Approx(2));
  const std::string apart = "algorithm.bucket_size=3 MB";
  CHECK(ends(sum, {copying, apart}) == ends(sum, {apart}));
  // An own list of 2 MB goes to its place among all.
  const std::string lists = "algorithm.gathered=2 MB";
  CHECK(ends(sum, {copying, apart, lists}) - ends(sum, {apart, lists}) == doctest::Approx(0.5));
}

TEST_CASE("lists of rows are gathered, not summed") {
  // Pieces of 3 MB (1 + 3 ms, twice 1 + 1.5) and a list of 2 MB from each of two nodes: 1 + 2 ms.
  const std::string sum = two_tensors(2, "kind = allreduce\ngathered = 2 MB");
  for (const std::string collectives :
       {"network.collectives=expanded", "network.collectives=analytic"}) {
    CHECK(ends(sum, {tensors[0], collectives}) == doctest::Approx(10 + 5 + 3));
  }
  // Copies at 4 GB/s: the first piece before; both lists, 4 MB, go to the device.
  const std::string staging = "network.staging_bandwidth=4 GB/s";
  for (const std::string collectives :
       {"network.collectives=expanded", "network.collectives=analytic"}) {
    CHECK(ends(sum, {tensors[0], collectives, staging}) == doctest::Approx(10 + 0.75 + 5 + 3 + 1));
    // In one piece, of three nodes: the own list goes out, not the 4 MB that it stands for; two hops; three lists come in.
    const std::string whole = two_tensors(3, "kind = allreduce\ngathered = 2 MB");
    CHECK(ends(whole, {collectives, staging}) == doctest::Approx(10 + 0.5 + 2 * 3 + 1.5));
    // A copy's latency is paid once for what goes out, once for all that comes in.
    CHECK(ends(whole, {collectives, staging, "network.staging_latency=2 ms"}) ==
          doctest::Approx(10 + 2.5 + 2 * 3 + 3.5));
  }
}

TEST_CASE("other messages with a model are staged by the engine, one at a time per node and way") {
  // Parameter server on node 0 of 3: pushes of 4 MB arrive at 10 + 1 (out) + 5 (network) at the same instant, and are
  // copied in one after the other, by 17 and 18 (its own gradient needs no copy); the replies are copied out by 19 and
  // 20, and copied in 5 + 1 ms later.
  const std::string text = two_tensors(3, "kind = parameter_server");
  const Recorder plain = test::run(text);
  const Recorder staged = test::run(text, {"network.staging_bandwidth=4 GB/s"});
  const double expected_plain[] = {15, 20, 20};
  const double expected_staged[] = {18, 25, 26};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(finished(plain, i) == doctest::Approx(expected_plain[i]));
    CHECK(finished(staged, i) == doctest::Approx(expected_staged[i]));
  }
}

TEST_CASE("a copy that takes less than a picosecond at time zero loses no message") {
  const Recorder staged =
      test::run(two_tensors(3, "kind = parameter_server"),
                {"workload.tensors=one", "workload.parameters=4", "compute.gradient=0 s",
                 "network.latency=0 s", "network.bandwidth=infinite",
                 "network.staging_bandwidth=1000000 GB/s"});
  for (std::size_t i = 0; i < 3; ++i) CHECK(finished(staged, i) == 0);
}

TEST_CASE("entering a partial allreduce costs an entry, late or not") {
  // Two nodes, everybody on time: 10 ms, the entry, then one round of 1 + 4 ms.
  const std::string text = two_tensors(2, "kind = eager\nsynchronize_every = 0\nactivation = full");
  CHECK(ends(text, {"network.operation_entry=2 ms"}) == doctest::Approx(17));
  CHECK(ends(text, {"network.operation_entry=2 ms", "algorithm.exchange=tensors"}) ==
        doctest::Approx(10 + 2 + 4 + 2 + 2));
}

TEST_CASE("a node may be late for the first tensor of a step and in time for the last") {
  // Node 0 starts its first tensor alone at 10 ms. Node 1 is activated at 11 and has the sum at 10 + 1 + 3; it comes at 14.5,
  // late for this one, and enters the next at once, before node 0, which gets its sum at 11 + 4, can start that.
  const Recorder recorder = test::run(
      two_tensors(2, "kind = eager\nsynchronize_every = 0"),
      {"algorithm.exchange=tensors", "compute.gradient=14.5 ms", "compute.speeds=1.45, 1"});
  CHECK(recorder.steps.value("is_late", 0, 0) == doctest::Approx(0));
  CHECK(recorder.steps.value("is_late", 0, 1) == doctest::Approx(0.5));
}

TEST_CASE("a full operation of eager-SGD waits for everybody") {
  // Node 1 takes 30 ms, node 0 takes 10. Free messages: alone, node 0 makes four steps in 40 ms; with every second
  // operation full it ends with node 1, at 120 ms.
  const std::string text = two_tensors(2, "kind = eager\nsynchronize_every = 0");
  const Overrides free{"network.latency=0 s", "network.bandwidth=infinite", "run.steps=4",
                       "compute.gradient=30 ms", "compute.speeds=3, 1"};
  Overrides full = free;
  full.emplace_back("algorithm.full_every=2");
  CHECK(ends(text, free) == doctest::Approx(40));
  CHECK(ends(text, full) == doctest::Approx(120));
}

TEST_CASE("AD-PSGD exchanges tensor by tensor and keeps the mean") {
  // Without gradients after the first step the mean model stays where that step put it, to rounding.
  const std::string text = digits("kind = adpsgd");
  const auto mean = [](const Recorder& recorder, std::size_t k) {
    return test::mean_model(recorder, k);
  };
  const Overrides still = test::gradients_until(
      1, {"algorithm.momentum=0", "run.steps=20", "compute.gradient=1 s"});  // exchanges keep up
  Overrides pieces = still;
  pieces.push_back(tensors[0]);
  const Recorder whole = test::run(text, still);
  const Recorder split = test::run(text, pieces);
  for (const std::size_t k : {3U, 200U, 515U, 560U, 605U}) {
    CHECK(mean(split, k) == doctest::Approx(mean(whole, k)).epsilon(1e-5));
  }
  CHECK(split.nodes[0].messages_sent > 3 * whole.nodes[0].messages_sent);
}

TEST_CASE("an exchange of AD-PSGD that was given up at one piece leaves the next one whole") {
  // Node 1 asks with 3 MB at 0; node 0, away from 1 to 12 ms, does not answer within 9 ms, and is left alone until it does: its
  // answer comes at 12 + 4. At 20, with the next gradient, node 1 begins anew, with 3 MB before the 1 MB: at 25 ms 6 MB have left.
  const Recorder recorder =
      test::run(two_tensors(2, "kind = adpsgd\npairs = bipartite\npatience = 9 ms"),
                {tensors[0], "run.steps=5", "run.record_every=1", "compute.gradient=5 ms",
                 "failures.pause=0 @ 1 ms for 11 ms"});
  const double bytes[] = {3e6, 3e6, 3e6, 3e6, 6e6};
  for (std::size_t k = 0; k < 5; ++k) CHECK(recorder.steps.value("bytes_sent", k, 1) == bytes[k]);
}

TEST_CASE("what is not offered is refused") {
  const auto refuses = [](const std::string& algorithm, const std::string& setting,
                          const char* sentence) {
    CHECK_THROWS_WITH_AS(test::run(two_tensors(4, algorithm), {setting}),
                         doctest::Contains(sentence), ScenarioError);
  };
  refuses("kind = push_sum", "algorithm.exchange=tensors", "algorithm.exchange is not a key here");
  refuses("kind = bmuf", "algorithm.overlap=backward", "algorithm.overlap is not a key here");
  refuses("kind = dpsgd", "algorithm.exchange=layers",
          "algorithm.exchange must be one of whole, buckets, tensors, got layers");
  refuses("kind = dpsgd", "algorithm.bucket_size=1 MB", "algorithm.bucket_size is not a key here");
  refuses("kind = dgc", "algorithm.exchange=buckets",
          "algorithm.exchange must be whole or tensors: entries are chosen tensor by tensor");
  refuses("kind = dgc\nunit = model", "algorithm.exchange=tensors",
          "algorithm.unit must be tensors with exchange = tensors: each is sent by itself");
  refuses("kind = allreduce\ncompression = sign\nunit = tensors", "algorithm.exchange=tensors",
          "algorithm.unit must be model with exchange = tensors: each piece is coded by itself");
  refuses("kind = dpsgd", "workload.tensors=1, 2",
          "workload.tensors must add up to the model's 1000000 parameters, got 3");
  refuses("kind = dpsgd", "network.staging_bandwidth=fast",
          "network.staging_bandwidth must be a bandwidth such as 10 Gbit/s");
  refuses("kind = dpsgd", "compute.forward_share=2",
          "compute.forward_share must be from 0 to 1, got 2");
}

TEST_CASE("pieces are refused where messages stayed whole and nobody was told") {
  const auto refuses = [](const std::string& algorithm, const std::string& words) {
    for (const char* pieces : {"algorithm.exchange=tensors", "algorithm.exchange=buckets"}) {
      CHECK_THROWS_WITH_AS(
          test::run(two_tensors(4, algorithm), {pieces}),
          doctest::Contains(("algorithm.exchange must be whole with " + words).c_str()),
          ScenarioError);
    }
  };
  refuses("kind = gradient_tracking\norder = combine_while_adapt", "order = combine_while_adapt");
  refuses("kind = epidemic\nagreement = deadline\ntimeout = 9 ms", "agreement = deadline");
  refuses("kind = dasgd\nmomentum = 0.5\nmomentum_policy = average", "momentum_policy = average");
}

TEST_CASE("what a step needs of the whole gradient does not leave beside the backward pass") {
  for (const std::string kind :
       {"allreduce\ncompression = sign", "dpsgd\norder = adapt_then_combine",
        "local_sgd\nperiod = 2", "sgp", "wagma"}) {
    CAPTURE(kind);
    for (const std::string rule : {"clip_norm=1", "optimizer=adamp"}) {
      const std::string text = two_tensors(4, "kind = " + kind);
      Overrides with = tensors;
      with.push_back("algorithm." + rule);
      CHECK_NOTHROW(test::run(text, with));
      with.insert(with.end(), overlapped.begin(), overlapped.end());
      CHECK_THROWS_WITH_AS(
          test::run(text, with),
          doctest::Contains("the whole gradient, and pieces leave before it is there"),
          ScenarioError);
    }
  }
  // Gradients and models without this step are sent as they are.
  for (const std::string kind : {"allreduce", "allreduce\ncompression = levels", "dpsgd", "eager",
                                 "powersgd", "wagma\nrule = released"}) {
    CAPTURE(kind);
    Overrides with = overlapped;
    with.emplace_back("algorithm.clip_norm=1");
    CHECK_NOTHROW(test::run(two_tensors(4, "kind = " + kind), with));
  }
}

TEST_CASE("overlap with whole models, which changed nothing and said nothing, is refused") {
  for (const char* kind :
       {"allreduce", "dpsgd", "eager", "local_sgd\nperiod = 2", "powersgd", "sgp", "wagma"}) {
    CHECK_THROWS_WITH_AS(
        test::run(two_tensors(4, std::string("kind = ") + kind), {"algorithm.overlap=backward"}),
        doctest::Contains("algorithm.overlap = backward needs exchange = buckets or tensors"),
        ScenarioError);
  }
  // Its copy on the host is averaged whole, too.
  CHECK_NOTHROW(test::run(two_tensors(4, "kind = adpsgd"), {"algorithm.overlap=backward"}));
}

}  // namespace starling::test_granularity
