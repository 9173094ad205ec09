#include "sim/base/hdf5.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>

#include <hdf5.h>

namespace starling::hdf5 {

static_assert(std::is_same_v<Id, hid_t> && std::is_same_v<int, herr_t>);

void throw_library_failure() {
  std::string words = "the HDF5 library failed";
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned depth, const H5E_error2_t* error, void* text) -> herr_t {
        // The first entry is the most specific one.
        if (depth == 0 && error->desc != nullptr) *static_cast<std::string*>(text) = error->desc;
        return 0;
      },
      &words);
  throw Failure(words);
}

Handle open_to_read(const std::string& path) {
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  check(H5Pset_fclose_degree(access, H5F_CLOSE_STRONG));
#if H5_VERSION_GE(1, 10, 7)
  check(H5Pset_file_locking(access, /*use=*/false, /*ignore_when_disabled=*/true));
#endif
  return {H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), H5Fclose};
}

Silence::Silence() {
  H5dont_atexit();  // heeded if the library is new to the process, refused otherwise
  H5Eget_auto2(H5E_DEFAULT, &print_, &data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Silence::~Silence() { H5Eset_auto2(H5E_DEFAULT, print_, data_); }

bool can_hold(std::uint64_t stored, std::span<const unsigned long long> shape,
              std::uint64_t bytes_per_value) {
  constexpr std::uint64_t most_inflation = 1032;  // of deflate, the usual filter
  constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t most =
      stored > unlimited / most_inflation ? unlimited : stored * most_inflation;
  std::uint64_t rest = most / std::max<std::uint64_t>(1, bytes_per_value);
  for (const std::uint64_t extent : shape) {
    if (extent > rest) return false;
    rest /= std::max<std::uint64_t>(1, extent);
  }
  return true;
}

}  // namespace starling::hdf5
