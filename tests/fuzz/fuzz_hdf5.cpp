// An HDF5 file of data, edited as the bytes say; the first says whether features or sequences are read from it.

#include <array>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/fuzz/fuzz_data.hpp"
#include "tests/fuzz/hdf5_edits.hpp"
#include "tests/support/hdf5_leaks.hpp"

using namespace starling;

namespace {

/// Six samples with x (6, 4), y (6) and length (6), good as features and as sequences.
std::string whole_file(const test::TemporaryDirectory& directory) {
  const std::string path = directory.path("whole.h5");
  {
    const hdf5::Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                            H5Fclose);
    const auto write = [&](const char* name, hid_t type, int dimensions, const auto& values) {
      const std::array<hsize_t, 2> shape{6, 4};
      const hdf5::Handle space(H5Screate_simple(dimensions, shape.data(), nullptr), H5Sclose);
      const hdf5::Handle set(
          H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Dclose);
      hdf5::check(H5Dwrite(set, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
    };
    std::array<std::int32_t, 24> tokens{};
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i % 5);
    write("x", H5T_IEEE_F32LE, 2, tokens);
    write("y", H5T_STD_I64LE, 1, std::array<std::int32_t, 6>{0, 1, 2, 0, 1, 2});
    write("length", H5T_STD_I32LE, 1, std::array<std::int32_t, 6>{1, 2, 3, 4, 3, 2});
  }
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const test::TemporaryDirectory directory;
  static const std::string whole = whole_file(directory);
  const std::string path = directory.write("any.h5", whole);
  test::Choices choices({data + 1, size - 1});
  test::edit_hdf5(path, choices);
  test::allow_refusal([&] { test::load_hdf5(path, data[0] % 2 != 0); });
  return 0;
}
