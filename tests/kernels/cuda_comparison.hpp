// A workload on the CPU against the same on a device, bit for bit.
#pragma once

#include <cmath>
#include <deque>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include "sim/base/random.hpp"
#include "sim/node/workload.hpp"
#include "tests/kernels/cuda_rig.hpp"

namespace starling::test {

/// As many nodes as the workloads below are for.
inline constexpr std::int32_t nodes = 5;

/// A model of node `node`: the initial one, moved at random.
inline std::vector<float> model_of(const Workload& workload, int node, double move) {
  std::vector<float> x(workload.facts().parameters);
  workload.initial_model(x);
  Random random(9, "moves", node);
  for (float& v : x) v += static_cast<float>(move * random.normal());
  return x;
}

/// Gradients and evaluations of all nodes by both must be the same. Answers how many losses of gradients are NaN. `change`
/// the models before.
inline int compare(
    cuda::Device& device, const Workload& cpu, const Workload& gpu, double move = 0.1,
    const std::function<void(std::vector<float>&)>& change = [](std::vector<float>&) {}) {
  const std::size_t size = cpu.facts().parameters;
  std::deque<std::vector<float>> models, gradients;
  std::deque<DeviceRow> model_rows, gradient_rows;
  std::vector<GradientRequest> here, there;
  std::vector<EvaluationRequest> judged_here, judged_there;
  for (int node = 0; node < nodes; ++node) {
    models.push_back(model_of(cpu, node, move));
    change(models.back());
    gradients.emplace_back(size, -7);
    model_rows.emplace_back(device, models.back());
    gradient_rows.emplace_back(device, std::vector<float>(size, -8));
    here.push_back({.node = node,
                    .draw = 3 * node,
                    .x = models.back().data(),
                    .gradient = gradients.back().data()});
    there.push_back({.node = node,
                     .draw = 3 * node,
                     .x = model_rows.back().row().data(),
                     .gradient = gradient_rows.back().row().data()});
    judged_here.push_back({.x = models.back().data()});
    judged_there.push_back({.x = model_rows.back().row().data()});
  }
  cpu.gradients(here);
  gpu.gradients(there);
  cpu.evaluate(judged_here);
  gpu.evaluate(judged_there);
  int strange = 0;
  for (std::size_t i = 0; i < here.size(); ++i) {
    strange += std::isnan(there[i].loss) ? 1 : 0;
    CAPTURE(i);
    CHECK(same_bits(here[i].loss, there[i].loss));
    CHECK(first_difference(gradients[i], gradient_rows[i].values()) == size);
    CHECK(same_bits(judged_here[i].loss, judged_there[i].loss));
    CHECK(same_bits(judged_here[i].accuracy, judged_there[i].accuracy));
  }
  return strange;
}

}  // namespace starling::test
