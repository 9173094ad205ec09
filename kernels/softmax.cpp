// Softmax regression (multinomial logistic regression): a linear map, softmax and mean
// cross-entropy; convex. It is the MLP without hidden layers.
#include "kernels/mlp.hpp"
#include "kernels/registry.hpp"

namespace starling::workloads {

std::unique_ptr<Workload> softmax(const Section& section, NodeId nodes, std::uint64_t seed) {
  return make_mlp(section, {}, nodes, seed);
}

}  // namespace starling::workloads
