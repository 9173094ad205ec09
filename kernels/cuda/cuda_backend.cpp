#include "kernels/cuda/cuda_backend.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
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
  // Jobs of about as many pieces are one launch, in which less than half of the blocks have nothing to do.
  const auto size_of = [](const LinearJob& job) {
    return static_cast<std::size_t>(std::bit_width(pieces(job.length, LinearKernel::tile)));
  };
  struct Alike {
    std::uint32_t count, longest;
  };
  std::array<Alike, std::numeric_limits<std::uint32_t>::digits> alike{};
  for (const LinearJob& job : jobs) {
    Alike& those = alike[size_of(job)];
    ++those.count;
    those.longest = std::max(those.longest, job.length);
  }
  std::array<std::uint32_t, alike.size()> begin{};  // where their tasks do
  for (std::size_t s = 1; s < alike.size(); ++s) begin[s] = begin[s - 1] + alike[s - 1].count;
  auto next = begin;
  for (const LinearJob& job : jobs) {
    bool aligned = is_even(job.out);
    for (const LinearTerm& term : terms.subspan(job.first_term, job.terms))
      aligned = aligned && is_even(term.values);
    tasks.host[next[size_of(job)]++] = {job.out, job.length, job.first_term, job.terms,
                                        aligned ? 1U : 0U};
  }
  device_.upload(tasks, addends);
  for (std::size_t s = 0; s < alike.size(); ++s) {
    device_.launch<LinearKernel>(pieces(alike[s].longest, LinearKernel::tile) * alike[s].count,
                                 {tasks.device + begin[s], addends.device, alike[s].count}, 0);
  }
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
  std::array<std::uint32_t, EncodedTransform::kernels> counts{}, shares{};
  std::size_t positions = 0, doubles = 0;
  for (const TransformJob& job : jobs) {
    const EncodedTransform& last = encoded.emplace_back(encode(job));
    for (std::size_t k = 0; k < counts.size(); ++k) {
      counts[k] += last.blocks[k] != 0 ? 1 : 0;
      shares[k] = std::max(shares[k], last.blocks[k]);
    }
    positions += last.positions.size();
    doubles += last.scratch_doubles;
  }
  std::array<std::size_t, EncodedTransform::kernels> begin{};  // where a kernel's tasks do
  std::exclusive_scan(counts.begin(), counts.end(), begin.begin(), std::size_t{0});
  const std::size_t count = begin.back() + counts.back();

  auto* room = static_cast<double*>(scratch_.fit(device_, doubles * sizeof(double), "transforms"));
  device_.begin(Device::room_of<TransformTask>(count) + Device::room_of<std::uint32_t>(positions));
  const auto tasks = device_.twin<TransformTask>(count);
  const auto places = device_.twin<std::uint32_t>(positions);
  auto next = begin;
  std::size_t next_place = 0;
  for (EncodedTransform& one : encoded) {
    one.task.scratch = room;
    room += one.scratch_doubles;
    one.task.positions = places.device + next_place;
    std::ranges::copy(one.positions, places.host + next_place);
    next_place += one.positions.size();
    for (std::size_t k = 0; k < counts.size(); ++k) {
      if (one.blocks[k] != 0) tasks.host[next[k]++] = one.task;
    }
  }
  device_.upload(tasks, places);

  using Kernel = EncodedTransform;
  const auto blocks_of = [&](std::size_t k) { return std::uint64_t{counts[k]} * shares[k]; };
  const auto tasks_of = [&](std::size_t k) { return tasks.device + begin[k]; };
  device_.launch<ClearKernel>(blocks_of(Kernel::clear),
                              {tasks_of(Kernel::clear), shares[Kernel::clear]}, 0);
  device_.launch<RowKernel>(counts[Kernel::row], {tasks_of(Kernel::row)}, RowKernel::shared_bytes);
  device_.launch<EncodeKernel>(blocks_of(Kernel::encode),
                               {tasks_of(Kernel::encode), shares[Kernel::encode]},
                               EncodeKernel::shared_bytes);
  for (std::uint32_t stage = 0; stage < LargestKernel::stages; ++stage) {
    const std::uint32_t each = LargestKernel::shares_of(stage, shares[Kernel::largest]);
    device_.launch<LargestKernel>(std::uint64_t{counts[Kernel::largest]} * each,
                                  {{tasks_of(Kernel::largest), each}, stage},
                                  LargestKernel::shared_of(stage));
  }
  for (std::uint32_t stage = 0; stage < ProjectKernel::stages; ++stage) {
    const std::uint32_t each = ProjectKernel::shares_of(stage, shares[Kernel::project]);
    device_.launch<ProjectKernel>(std::uint64_t{counts[Kernel::project]} * each,
                                  {{tasks_of(Kernel::project), each}, stage},
                                  ProjectKernel::shared_bytes);
  }
  device_.launch<MapKernel>(blocks_of(Kernel::map), {tasks_of(Kernel::map), shares[Kernel::map]},
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
