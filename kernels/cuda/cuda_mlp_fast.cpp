// The fast mode of CudaMlp: products of large layers in TF32, by kernels of our own (tensor_product.hpp), or, forward and of many
// samples, by cuBLAS. Weights stay panel-major: a panel is a (inputs x 32) matrix, so one batched call does all panels of all
// models, and a second one the narrower last panels.
#include "kernels/cuda/cuda_mlp.hpp"
#include "kernels/cuda/cuda_mlp_batch.hpp"
#include "kernels/cuda/launches.hpp"

namespace starling {

using namespace cuda;

namespace {

/// Below this a product is too small for tensor cores to matter.
constexpr std::uint32_t large_inputs = 128, large_outputs = 64;

/// From so many samples on a forward product is bound by arithmetic, which cuBLAS is best at. With fewer, weights are: they are
/// read once in either way, and the kernel of our own has bias and ReLU in it.
constexpr std::uint32_t blas_rows = 128;

/// Rows of models begin at multiples of 64 bytes, and so do panels within weights; layers begin where the last one ends.
bool is_aligned(const LayerShape& layer) {
  return layer.weights * sizeof(float) % ProductBatch::alignment == 0;
}

std::size_t panels_of(const LayerShape& layer) {
  return (layer.outputs + panel_columns - 1) / panel_columns;
}

}  // namespace

bool CudaMlp::is_fast(std::size_t l) const {
  return precision_ == Precision::fast && layers_[l].inputs >= large_inputs &&
         layers_[l].outputs >= large_outputs && is_aligned(layers_[l]);
}

std::size_t CudaMlp::pointer_room(std::size_t tasks, std::size_t rows) const {
  std::size_t room = 0;
  for (std::size_t l = 0; l < layers_.size() && rows >= blas_rows; ++l) {
    if (is_fast(l)) room += 6 * Device::room_of<float*>(tasks * panels_of(layers_[l]));
  }
  return room;
}

bool CudaMlp::gathers(std::size_t rows) const { return is_fast(0) && rows >= blas_rows; }

void CudaMlp::forward_fast(const Batch& batch, const LayerArguments& layer) const {
  if (batch.rows < blas_rows) {
    launch_tiles<FastForwardKernel>(device_, batch.tasks.count, layer);
    return;
  }
  multiply_panels(batch, layer);
  device_.launch<BiasKernel>(batch.tasks.count * batch.rows, layer, 0);
}

void CudaMlp::multiply_panels(const Batch& batch, const LayerArguments& layer) const {
  const LayerShape& shape = layer.layer;
  const Rows input = layer.is_first != 0 ? batch.gathered : layer.input;
  const std::uint32_t whole = shape.outputs / panel_columns, rest = shape.outputs % panel_columns;
  for (const bool is_rest : {false, true}) {
    const std::uint32_t first = is_rest ? whole : 0, panels = is_rest ? (rest > 0 ? 1 : 0) : whole;
    if (panels == 0) continue;
    const std::uint32_t columns = is_rest ? rest : panel_columns;
    const auto x = device_.twin<const float*>(batch.tasks.count * panels);
    const auto weights = device_.twin<const float*>(x.count);
    const auto y = device_.twin<float*>(x.count);
    for (std::size_t i = 0; i < x.count; ++i) {
      const std::size_t t = i / panels, column = (first + i % panels) * panel_columns;
      const StepTask& task = batch.tasks.host[t];
      const std::size_t at = shape.weights + column * shape.inputs;
      x.host[i] = input.at + t * batch.rows * input.stride;
      weights.host[i] = task.x + at;
      y.host[i] = layer.output.at + t * batch.rows * layer.output.stride + column;
    }
    device_.upload(x, weights, y);
    device_.products({x.device, weights.device, y.device, static_cast<std::uint32_t>(x.count),
                      batch.rows, shape.inputs, columns, input.stride, columns,
                      layer.output.stride});
  }
}

}  // namespace starling
