#include "kernels/cuda/cuda_backend.hpp"

#include <algorithm>
#include <vector>

#include "kernels/cuda/transform_encoding.hpp"

namespace starling {
namespace {

using namespace cuda;

std::uint64_t pieces(std::uint64_t size, std::uint64_t piece) { return (size + piece - 1) / piece; }

}  // namespace

float* CudaBackend::allocate(std::size_t count) {
  const auto lock = device_.use();
  return static_cast<float*>(device_.allocate(count * sizeof(float), "vectors"));
}

void CudaBackend::release(float* values, std::size_t count) noexcept {
  const auto lock = device_.use();
  device_.release(values, count * sizeof(float));
}

void CudaBackend::linear(std::span<const LinearJob> jobs, std::span<const LinearTerm> terms) {
  if (jobs.empty()) return;
  const auto lock = device_.use();
  device_.begin(Device::room_of<LinearTask>(jobs.size()) +
                Device::room_of<TermOnDevice>(terms.size()));
  const auto tasks = device_.twin<LinearTask>(jobs.size());
  const auto addends = device_.twin<TermOnDevice>(terms.size());
  for (std::size_t t = 0; t < terms.size(); ++t)
    addends.host[t] = {terms[t].values, terms[t].factor};
  std::uint32_t longest = 0;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const LinearJob& job = jobs[j];
    bool aligned = is_even(job.out);
    for (const LinearTerm& term : terms.subspan(job.first_term, job.terms))
      aligned = aligned && is_even(term.values);
    tasks.host[j] = {job.out, job.length, job.first_term, job.terms, aligned ? 1U : 0U};
    longest = std::max(longest, job.length);
  }
  device_.upload(tasks, addends);
  const auto count = static_cast<std::uint32_t>(jobs.size());
  device_.launch<LinearKernel>(pieces(longest, LinearKernel::tile) * count,
                               {tasks.device, addends.device, count}, 0);
}

void CudaBackend::squared_distances(std::span<const DistanceJob> jobs) {
  if (jobs.empty()) return;
  const auto lock = device_.use();
  device_.begin(Device::room_of<DistanceTask>(jobs.size()) + Device::room_of<double>(jobs.size()));
  const auto tasks = device_.twin<DistanceTask>(jobs.size());
  const auto results = device_.twin<double>(jobs.size());
  for (std::size_t j = 0; j < jobs.size(); ++j)
    tasks.host[j] = {jobs[j].a, jobs[j].b, jobs[j].length, 0};
  device_.upload(tasks);
  device_.launch<DistanceKernel>(jobs.size(), {tasks.device, results.device},
                                 DistanceKernel::shared_bytes);
  device_.download(results);
  device_.wait();
  for (std::size_t j = 0; j < jobs.size(); ++j) *jobs[j].out = results.host[j];
}

void CudaBackend::transform(std::span<const TransformJob> jobs) {
  const auto lock = device_.use();
  std::vector<EncodedTransform> encoded;
  encoded.reserve(jobs.size());
  std::size_t rows = 0, positions = 0, doubles = 0;
  std::uint32_t longest = 0;
  for (const TransformJob& job : jobs) {
    const EncodedTransform& last = encoded.emplace_back(encode(job));
    rows += last.is_row ? 1 : 0;
    positions += last.positions.size();
    doubles += last.scratch_doubles;
    if (!last.is_row) longest = std::max(longest, last.task.out_size);
  }
  auto* room = static_cast<double*>(scratch_.fit(device_, doubles * sizeof(double), "transforms"));
  device_.begin(Device::room_of<TransformTask>(jobs.size()) +
                Device::room_of<std::uint32_t>(positions));
  const auto tasks = device_.twin<TransformTask>(jobs.size());  // rows first
  const auto places = device_.twin<std::uint32_t>(positions);
  std::size_t next_row = 0, next_map = rows, next_place = 0;
  for (EncodedTransform& one : encoded) {
    one.task.scratch = room;
    room += one.scratch_doubles;
    one.task.positions = places.device + next_place;
    std::ranges::copy(one.positions, places.host + next_place);
    next_place += one.positions.size();
    tasks.host[one.is_row ? next_row++ : next_map++] = one.task;
  }
  device_.upload(tasks, places);
  device_.launch<RowKernel>(rows, {tasks.device}, RowKernel::shared_bytes);
  const auto maps = static_cast<std::uint32_t>(jobs.size() - rows);
  device_.launch<MapKernel>(pieces(longest, MapKernel::tile) * maps, {tasks.device + rows, maps},
                            0);
}

void CudaBackend::measure(std::span<const MeasureJob> jobs) {
  if (jobs.empty()) return;
  const auto lock = device_.use();
  device_.begin(Device::room_of<TransformTask>(jobs.size()) + Device::room_of<double>(jobs.size()));
  const auto tasks = device_.twin<TransformTask>(jobs.size());
  const auto results = device_.twin<double>(jobs.size());
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    tasks.host[j] = encode(jobs[j]).task;
    tasks.host[j].number = results.device + j;
  }
  device_.upload(tasks);
  device_.launch<RowKernel>(jobs.size(), {tasks.device}, RowKernel::shared_bytes);
  device_.download(results);
  device_.wait();
  for (std::size_t j = 0; j < jobs.size(); ++j) *jobs[j].out = results.host[j];
}

void CudaBackend::write(float* values, std::span<const float> from) {
  const auto lock = device_.use();
  device_.write(values, from.data(), from.size_bytes());
}

void CudaBackend::read(std::span<float> to, const float* values) {
  const auto lock = device_.use();
  device_.read(to.data(), values, to.size_bytes());
}

}  // namespace starling
