// Workloads whose models live on a GPU. MLPs (with them softmax regression), convolutional networks, transformers and
// quadratics compute there, bit for bit what they compute on the CPU; any other workload stays on the CPU, and its models
// and gradients travel.
#pragma once

#include <memory>

#include "kernels/cuda/device.hpp"
#include "kernels/precision.hpp"
#include "sim/node/workload.hpp"

namespace starling {

/// The same problem for models in the memory of `device`; both outlive it. Data sets are copied to the device.
std::unique_ptr<Workload> make_cuda_workload(const Workload& workload, cuda::Device& device,
                                             Precision precision);

/// Whether the gradients of such a workload run on the device.
bool has_cuda_gradients(const Workload& workload, const cuda::Device& device);

/// How a workload that make_cuda_workload() made computes: strict if nothing of it can be fast.
Precision precision_of(const Workload& moved);

}  // namespace starling
