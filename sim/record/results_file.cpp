// The file is made in memory (HDF5's core driver) and written by plain system calls: so a full disk
// is reported in the system's words and never meets the library, which cannot close a file that it
// failed to write. Writer and reader stay in one long file: they change together, and the project
// keeps HDF5 in few places.
#include "sim/record/results_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <new>
#include <numeric>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <hdf5.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/base/error.hpp"
#include "sim/base/hdf5.hpp"
#include "sim/record/partial_file.hpp"

namespace starling {
namespace {

constexpr const char* format_name = "starling results";
constexpr std::int64_t format_version = 1;
constexpr std::size_t least_compressed_bytes = 32 << 10;
constexpr hsize_t chunk_cells = 64 << 10;
constexpr std::array<unsigned char, 8> signature{0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};

using hdf5::check;
using hdf5::Failure;
using hdf5::Handle;
using Shape = std::vector<hsize_t>;

/// How values of a type lie in memory and in the file.
struct Type {
  hid_t memory;
  hid_t file;
};

template <class T>
Type type_of();
template <>
Type type_of<double>() {
  return {H5T_NATIVE_DOUBLE, H5T_IEEE_F64LE};
}
template <>
Type type_of<float>() {
  return {H5T_NATIVE_FLOAT, H5T_IEEE_F32LE};
}
template <>
Type type_of<std::int64_t>() {
  return {H5T_NATIVE_INT64, H5T_STD_I64LE};
}
template <>
Type type_of<std::int32_t>() {
  return {H5T_NATIVE_INT32, H5T_STD_I32LE};
}
template <>
Type type_of<std::uint64_t>() {
  return {H5T_NATIVE_UINT64, H5T_STD_U64LE};
}
template <>
Type type_of<std::uint8_t>() {
  return {H5T_NATIVE_UINT8, H5T_STD_U8LE};
}

/// Parameters of each model that is known; 0 if none is.
std::size_t parameter_count(const std::vector<std::vector<float>>& models) {
  std::size_t most = 0;
  for (const auto& model : models) most = std::max(most, model.size());
  for (const auto& model : models) {
    ensure(model.empty() || model.size() == most, "all models have the same number of parameters");
  }
  return most;
}

/// The columns of /nodes, for writing and reading alike.
struct TimeColumn {
  const char* name;
  std::int64_t (*get)(const NodeTotals&);
  void (*set)(NodeTotals&, std::int64_t picoseconds);
};
constexpr std::array<TimeColumn, 4> time_columns{{
    {"compute", [](const NodeTotals& node) { return node.compute.count(); },
     [](NodeTotals& node, std::int64_t value) { node.compute = Duration(value); }},
    {"wait", [](const NodeTotals& node) { return node.wait.count(); },
     [](NodeTotals& node, std::int64_t value) { node.wait = Duration(value); }},
    {"communicate", [](const NodeTotals& node) { return node.communicate.count(); },
     [](NodeTotals& node, std::int64_t value) { node.communicate = Duration(value); }},
    {"finished", [](const NodeTotals& node) { return node.finished.time_since_epoch().count(); },
     [](NodeTotals& node, std::int64_t value) { node.finished = Time(Duration(value)); }},
}};
struct CountColumn {
  const char* name;
  std::int64_t NodeTotals::*member;
};
constexpr std::array<CountColumn, 3> count_columns{{{"steps", &NodeTotals::steps},
                                                    {"messages_sent", &NodeTotals::messages_sent},
                                                    {"bytes_sent", &NodeTotals::bytes_sent}}};

constexpr std::array activities{Activity::compute, Activity::wait, Activity::communicate};
constexpr std::array<const char*, 4> act_kinds{"delivery", "resume", "deadline", "clock"};

// Writing.

/// Attributes and data sets of one open file.
class Writer {
 public:
  explicit Writer(hid_t file) : file_(file) {}

  void group(const char* path) {
    const Handle properties(H5Pcreate(H5P_GROUP_CREATE), H5Pclose);
    check(H5Pset_obj_track_times(properties, false));
    Handle(H5Gcreate2(file_, path, H5P_DEFAULT, properties, H5P_DEFAULT), H5Gclose);
  }

  void attribute(const char* object, const std::string& name, const std::string& text) {
    const Handle type = text_type(text);
    write_attribute(object, name, type, type, text.c_str());
  }
  template <class T>
  void attribute(const char* object, const std::string& name, T value) {
    write_attribute(object, name, type_of<T>().file, type_of<T>().memory, &value);
  }

  void text(const char* path, const std::string& text) {
    const Handle type = text_type(text);
    const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
    const Handle set = data_set(path, type, space, {}, 0);
    check(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text.c_str()));
  }

  template <class T>
  void numbers(const std::string& path, const std::vector<T>& values, const Shape& shape) {
    numbers(path, values, shape, type_of<T>());
  }
  template <class T>
  void numbers(const std::string& path, const std::vector<T>& values, const Shape& shape,
               Type type) {
    const Handle space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr),
                       H5Sclose);
    {
      const Handle set = data_set(path.c_str(), type.file, space, shape, values.size() * sizeof(T));
      if (!values.empty()) {
        check(H5Dwrite(set, type.memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
      }
    }
    const std::string_view unit = unit_of(std::string_view(path).substr(path.rfind('/') + 1));
    if (!unit.empty()) attribute(path.c_str(), "unit", std::string(unit));
  }

  /// Texts of one length, the longest's; shorter ones are filled up with NUL.
  void texts(const char* path, const std::vector<std::string>& texts) {
    std::size_t length = 1;
    for (const std::string& text : texts) length = std::max(length, text.size());
    const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
    check(H5Tset_size(type, length));
    check(H5Tset_cset(type, H5T_CSET_UTF8));
    check(H5Tset_strpad(type, H5T_STR_NULLPAD));
    std::string cells(length * texts.size(), '\0');
    for (std::size_t i = 0; i < texts.size(); ++i) texts[i].copy(&cells[i * length], length);
    const Shape shape{texts.size()};
    const Handle space(H5Screate_simple(1, shape.data(), nullptr), H5Sclose);
    const Handle set = data_set(path, type, space, shape, cells.size());
    check(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, cells.data()));
  }

  /// One model after the other, so that they need not be put together in memory.
  void models(const char* path, const std::vector<std::vector<float>>& models) {
    const std::size_t parameters = parameter_count(models);
    const std::vector<float> unknown(parameters, std::nanf(""));
    const Shape shape{models.size(), parameters};
    const Handle space(H5Screate_simple(2, shape.data(), nullptr), H5Sclose);
    const Handle set = data_set(path, type_of<float>().file, space, {}, 0);
    for (std::size_t i = 0; i < models.size() && shape[1] > 0; ++i) {
      const Shape offset{i, 0};
      const Shape count{1, shape[1]};
      const Handle memory(H5Screate_simple(2, count.data(), nullptr), H5Sclose);
      check(H5Sselect_hyperslab(space, H5S_SELECT_SET, offset.data(), nullptr, count.data(),
                                nullptr));
      const float* values = models[i].empty() ? unknown.data() : models[i].data();
      check(H5Dwrite(set, type_of<float>().memory, memory, space, H5P_DEFAULT, values));
    }
  }

 private:
  static Handle text_type(const std::string& text) {
    Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
    check(H5Tset_size(type, text.size() + 1));  // ends in NUL, so that the length is exact
    check(H5Tset_cset(type, H5T_CSET_UTF8));
    return type;
  }

  void write_attribute(const char* object, const std::string& name, hid_t file_type,
                       hid_t memory_type, const void* value) {
    const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
    const Handle attribute(H5Acreate_by_name(file_, object, name.c_str(), file_type, space,
                                             H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                           H5Aclose);
    check(H5Awrite(attribute, memory_type, value));
  }

  Handle data_set(const char* path, hid_t type, hid_t space, const Shape& shape,
                  std::size_t bytes) {
    const Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    check(H5Pset_obj_track_times(properties, false));
    if (bytes >= least_compressed_bytes) {
      Shape chunk = shape;
      const hsize_t width = shape.size() == 2 ? shape[1] : 1;
      if (shape.size() == 2) chunk[1] = std::min(width, chunk_cells);
      chunk[0] = std::min(shape[0], std::max<hsize_t>(1, chunk_cells / width));
      check(H5Pset_chunk(properties, static_cast<int>(chunk.size()), chunk.data()));
      check(H5Pset_shuffle(properties));
      check(H5Pset_deflate(properties, 2));
    }
    return Handle(H5Dcreate2(file_, path, type, space, H5P_DEFAULT, properties, H5P_DEFAULT),
                  H5Dclose);
  }

  hid_t file_;
};

void write_table(Writer& writer, const std::string& group, const Table& table, bool is_flat) {
  writer.group(group.c_str());
  writer.attribute(group.c_str(), "every", table.schedule().every());
  writer.attribute(group.c_str(), "steps", table.schedule().steps());
  writer.attribute(group.c_str(), "columns", static_cast<std::int64_t>(table.width()));
  std::vector<std::int64_t> finished(table.rows());
  for (std::size_t row = 0; row < finished.size(); ++row)
    finished[row] = table.schedule().finished(row);
  writer.numbers(group + "/step", finished, {finished.size()});
  std::vector<double> values;
  for (const std::string& metric : table.metrics()) {
    const std::size_t rows = table.rows(metric);
    values.clear();
    for (std::size_t row = 0; row < rows; ++row) {
      const std::span<const double> cells = table.cells(metric, row);
      values.insert(values.end(), cells.begin(), cells.end());
    }
    writer.numbers(group + "/" + metric, values,
                   is_flat ? Shape{rows} : Shape{rows, table.width()});
  }
}

void write_nodes(Writer& writer, const std::vector<NodeTotals>& nodes) {
  writer.group("/nodes");
  const Shape shape{nodes.size()};
  std::vector<double> seconds(nodes.size());
  std::vector<std::int64_t> whole(nodes.size());
  for (const TimeColumn& column : time_columns) {
    std::ranges::transform(nodes, whole.begin(), column.get);
    std::ranges::transform(whole, seconds.begin(),
                           [](std::int64_t t) { return to_seconds(Duration(t)); });
    writer.numbers(fmt::format("/nodes/{}", column.name), seconds, shape);
    writer.numbers(fmt::format("/nodes/{}_picoseconds", column.name), whole, shape);
  }
  for (const CountColumn& column : count_columns) {
    std::ranges::transform(nodes, whole.begin(), column.member);
    writer.numbers(fmt::format("/nodes/{}", column.name), whole, shape);
  }
}

void write_timeline(Writer& writer, const Recorder& recorder) {
  const std::vector<Segment>& timeline = recorder.timeline;
  const Shape shape{timeline.size()};
  const auto column = [&](auto get) {
    std::vector<decltype(get(timeline[0]))> values(timeline.size());
    std::ranges::transform(timeline, values.begin(), get);
    return values;
  };
  const Handle activity(H5Tenum_create(H5T_STD_U8LE), H5Tclose);
  for (const Activity value : activities) {
    check(H5Tenum_insert(activity, std::string(to_text(value)).c_str(), &value));
  }
  writer.group("/timeline");
  writer.attribute("/timeline", "until", recorder.timeline_until().time_since_epoch().count());
  writer.numbers("/timeline/node", column([](const Segment& s) { return s.node; }), shape);
  writer.numbers("/timeline/activity",
                 column([](const Segment& s) { return static_cast<std::uint8_t>(s.activity); }),
                 shape, {activity, activity});
  writer.numbers("/timeline/begin",
                 column([](const Segment& s) { return s.begin.time_since_epoch().count(); }),
                 shape);
  writer.numbers("/timeline/end",
                 column([](const Segment& s) { return s.end.time_since_epoch().count(); }), shape);
}

/// The values that `get` takes out of each item.
template <class Items, class Get>
auto column_of(const Items& items, Get get) {
  std::vector<decltype(get(items[0]))> values(items.size());
  std::ranges::transform(items, values.begin(), get);
  return values;
}

void write_links(Writer& writer, const Recorder& recorder) {
  if (recorder.links.empty()) return;
  const std::vector<LinkTotals>& links = recorder.links;
  const Shape shape{links.size()};
  writer.group("/links");
  writer.texts("/links/name", column_of(links, [](const LinkTotals& l) { return l.name; }));
  writer.numbers("/links/bandwidth",
                 column_of(links, [](const LinkTotals& l) { return l.bandwidth; }), shape);
  writer.numbers("/links/peak_rate",
                 column_of(links, [](const LinkTotals& l) { return l.peak_rate; }), shape);
  writer.numbers("/links/busy",
                 column_of(links, [](const LinkTotals& l) { return to_seconds(l.busy); }), shape);
  writer.numbers("/links/busy_picoseconds",
                 column_of(links, [](const LinkTotals& l) { return l.busy.count(); }), shape);
  writer.numbers("/links/bytes", column_of(links, [](const LinkTotals& l) { return l.bytes; }),
                 shape);
  if (recorder.link_timeline.empty()) return;
  const std::vector<LinkSegment>& timeline = recorder.link_timeline;
  const Shape length{timeline.size()};
  writer.group("/link_timeline");
  writer.numbers(
      "/link_timeline/link",
      column_of(timeline, [](const LinkSegment& s) { return static_cast<std::int32_t>(s.link); }),
      length);
  writer.numbers("/link_timeline/rate",
                 column_of(timeline, [](const LinkSegment& s) { return s.rate; }), length);
  writer.numbers(
      "/link_timeline/begin",
      column_of(timeline, [](const LinkSegment& s) { return s.begin.time_since_epoch().count(); }),
      length);
  writer.numbers(
      "/link_timeline/end",
      column_of(timeline, [](const LinkSegment& s) { return s.end.time_since_epoch().count(); }),
      length);
}

void write_acts(Writer& writer, const Recorder& recorder) {
  if (recorder.acts.empty()) return;
  std::vector<std::int64_t> begin;
  std::vector<Act> all;
  for (const std::vector<Act>& acts : recorder.acts) {
    begin.push_back(std::ssize(all));
    all.insert(all.end(), acts.begin(), acts.end());
  }
  const Handle kind(H5Tenum_create(H5T_STD_U8LE), H5Tclose);
  for (std::size_t i = 0; i < act_kinds.size(); ++i) {
    const auto value = static_cast<std::uint8_t>(i);
    check(H5Tenum_insert(kind, act_kinds[i], &value));
  }
  const Shape shape{all.size()};
  writer.group("/acts");
  writer.numbers("/acts/first", begin, {begin.size()});
  writer.numbers("/acts/kind",
                 column_of(all, [](const Act& a) { return static_cast<std::uint8_t>(a.kind); }),
                 shape, {kind, kind});
  writer.numbers("/acts/who", column_of(all, [](const Act& a) { return a.who; }), shape);
  writer.numbers("/acts/what", column_of(all, [](const Act& a) { return a.what; }), shape);
}

void write_content(Writer& writer, const Recorder& recorder) {
  writer.attribute("/", "format", std::string(format_name));
  writer.attribute("/", "format_version", format_version);
  for (const char* group : {"/facts", "/machine", "/statistics"}) writer.group(group);
  for (const auto& [key, text] : recorder.facts) {
    if (key == "scenario") {
      writer.text("/scenario", text);
    } else {
      writer.attribute("/facts", key, text);
    }
  }
  for (const auto& [key, text] : recorder.machine) writer.attribute("/machine", key, text);
  for (const auto& [key, value] : recorder.statistics) writer.attribute("/statistics", key, value);
  write_table(writer, "/steps", recorder.steps, /*is_flat=*/false);
  write_table(writer, "/evaluation", recorder.evaluation, /*is_flat=*/true);
  write_nodes(writer, recorder.nodes);
  write_timeline(writer, recorder);
  write_links(writer, recorder);
  write_acts(writer, recorder);
  if (recorder.models.empty()) return;
  writer.models("/models", recorder.models);
  std::vector<std::uint8_t> has_model;
  for (const auto& model : recorder.models) has_model.push_back(!model.empty());
  writer.numbers("/nodes/has_model", has_model, {has_model.size()});
}

// Reading.

/// Attributes and data sets of one open file.
class Reader {
 public:
  Reader(hid_t file, std::uint64_t file_bytes) : file_(file), file_bytes_(file_bytes) {}

  bool has(const char* path) const { return check(H5Lexists(file_, path, H5P_DEFAULT)) > 0; }
  bool has_attribute(const char* object, const char* name) const {
    return check(H5Aexists_by_name(file_, object, name, H5P_DEFAULT)) > 0;
  }

  std::vector<std::string> attribute_names(const char* object) const {
    const Handle owner(H5Oopen(file_, object, H5P_DEFAULT), H5Oclose);
    const int count = check(H5Aget_num_attrs(owner));
    return names(count, [&](hsize_t i, char* buffer, std::size_t size) {
      return H5Aget_name_by_idx(owner, ".", H5_INDEX_NAME, H5_ITER_INC, i, buffer, size,
                                H5P_DEFAULT);
    });
  }

  std::vector<std::string> member_names(const char* path) const {
    const Handle group(H5Gopen2(file_, path, H5P_DEFAULT), H5Gclose);
    H5G_info_t info;
    check(H5Gget_info(group, &info));
    return names(info.nlinks, [&](hsize_t i, char* buffer, std::size_t size) {
      return H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, buffer, size,
                                H5P_DEFAULT);
    });
  }

  template <class T>
  T attribute(const char* object, const std::string& name) const {
    const Handle attribute(H5Aopen_by_name(file_, object, name.c_str(), H5P_DEFAULT, H5P_DEFAULT),
                           H5Aclose);
    const Handle type(H5Aget_type(attribute), H5Tclose);
    const Handle space(H5Aget_space(attribute), H5Sclose);
    const std::string place = fmt::format("attribute {} of {}", name, object);
    if constexpr (std::is_same_v<T, std::string>) {
      return text_of(place, type, space, [&](void* to) { return H5Aread(attribute, type, to); });
    } else {
      expect_numbers(place, type);
      if (check(H5Sget_simple_extent_npoints(space)) != 1)
        throw Failure(place + " is not one number");
      T value{};
      check(H5Aread(attribute, type_of<T>().memory, &value));
      return value;
    }
  }

  std::string text(const char* path) const {
    const Handle set(H5Dopen2(file_, path, H5P_DEFAULT), H5Dclose);
    const Handle type(H5Dget_type(set), H5Tclose);
    const Handle space(H5Dget_space(set), H5Sclose);
    return text_of(path, type, space,
                   [&](void* to) { return H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, to); });
  }

  /// Values and shape of a data set, which must have `dimensions`.
  template <class T>
  std::pair<std::vector<T>, Shape> numbers(const std::string& path, int dimensions) const {
    const Handle set(H5Dopen2(file_, path.c_str(), H5P_DEFAULT), H5Dclose);
    const Shape shape = shape_of(set, path, dimensions, sizeof(T));
    std::vector<T> values(product(shape));
    if (!values.empty()) {
      check(H5Dread(set, type_of<T>().memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
    }
    return {std::move(values), shape};
  }

  /// Texts of one length each, in one column.
  std::vector<std::string> texts(const std::string& path) const {
    const Handle set(H5Dopen2(file_, path.c_str(), H5P_DEFAULT), H5Dclose);
    const Handle type(H5Dget_type(set), H5Tclose);
    const Handle space(H5Dget_space(set), H5Sclose);
    if (H5Tget_class(type) != H5T_STRING || check(H5Tis_variable_str(type)) > 0 ||
        check(H5Sget_simple_extent_ndims(space)) != 1) {
      throw Failure(path + " is not a column of texts of fixed length");
    }
    const std::size_t length = H5Tget_size(type);
    const auto count = static_cast<std::size_t>(check(H5Sget_simple_extent_npoints(space)));
    const std::uint64_t stored = std::min<std::uint64_t>(file_bytes_, H5Dget_storage_size(set));
    if (!hdf5::can_hold(stored, Shape{count}, length)) {
      throw Failure(fmt::format("{}: fewer bytes than its shape needs", path));
    }
    std::string cells(length * count, '\0');
    if (count > 0) check(H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, cells.data()));
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < count; ++i) {
      std::string text = cells.substr(i * length, length);
      texts.push_back(text.substr(0, text.find('\0')));
    }
    return texts;
  }

  /// A column of known length.
  template <class T>
  std::vector<T> column(const std::string& path, std::size_t length) const {
    auto [values, shape] = numbers<T>(path, 1);
    if (values.size() != length) {
      throw Failure(fmt::format("{}: expected {} values, found {}", path, length, values.size()));
    }
    return std::move(values);
  }

  std::vector<std::vector<float>> models(const char* path) const {
    const Handle set(H5Dopen2(file_, path, H5P_DEFAULT), H5Dclose);
    const Shape shape = shape_of(set, path, 2, sizeof(float));
    const Handle space(H5Dget_space(set), H5Sclose);
    std::vector<std::vector<float>> models(shape[0], std::vector<float>(shape[1]));
    for (std::size_t i = 0; i < models.size() && shape[1] > 0; ++i) {
      const Shape offset{i, 0};
      const Shape count{1, shape[1]};
      const Handle memory(H5Screate_simple(2, count.data(), nullptr), H5Sclose);
      check(H5Sselect_hyperslab(space, H5S_SELECT_SET, offset.data(), nullptr, count.data(),
                                nullptr));
      check(H5Dread(set, type_of<float>().memory, memory, space, H5P_DEFAULT, models[i].data()));
    }
    return models;
  }

 private:
  template <class Get>
  static std::vector<std::string> names(hsize_t count, const Get& get) {
    std::vector<std::string> found;
    for (hsize_t i = 0; i < count; ++i) {
      const auto length = static_cast<std::size_t>(check(get(i, nullptr, 0)));
      std::string name(length + 1, '\0');
      check(get(i, name.data(), name.size()));
      name.resize(length);
      found.push_back(std::move(name));
    }
    return found;
  }

  static std::size_t product(const Shape& shape) {
    return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
  }

  static void expect_numbers(const std::string& place, hid_t type) {
    const H5T_class_t kind = H5Tget_class(type);
    if (kind != H5T_INTEGER && kind != H5T_FLOAT && kind != H5T_ENUM) {
      throw Failure(place + " does not hold numbers");
    }
  }

  /// A shape is believed only if the file stores enough bytes for it, so that damage cannot ask for
  /// any memory.
  Shape shape_of(hid_t set, const std::string& path, int dimensions,
                 std::size_t bytes_per_value) const {
    const Handle type(H5Dget_type(set), H5Tclose);
    expect_numbers(path, type);
    const Handle space(H5Dget_space(set), H5Sclose);
    const int found = check(H5Sget_simple_extent_ndims(space));
    if (found != dimensions) {
      throw Failure(fmt::format("{}: expected {} dimension(s), found {}", path, dimensions, found));
    }
    Shape shape(static_cast<std::size_t>(dimensions));
    check(H5Sget_simple_extent_dims(space, shape.data(), nullptr));
    const bool is_empty = std::ranges::count(shape, hsize_t{0}) > 0;
    const std::uint64_t bytes =
        is_empty ? file_bytes_ : std::min<std::uint64_t>(file_bytes_, H5Dget_storage_size(set));
    if (!hdf5::can_hold(bytes, shape, bytes_per_value)) {
      throw Failure(fmt::format("{}: fewer bytes than its shape needs", path));
    }
    return shape;
  }

  template <class Read>
  std::string text_of(const std::string& place, hid_t type, hid_t space, const Read& read) const {
    if (H5Tget_class(type) != H5T_STRING || check(H5Tis_variable_str(type)) > 0 ||
        check(H5Sget_simple_extent_npoints(space)) != 1) {
      throw Failure(place + " is not one text of fixed length");
    }
    const std::size_t size = H5Tget_size(type);
    if (size > file_bytes_) throw Failure(place + " is longer than the file");
    std::string text(size, '\0');
    check(read(text.data()));
    if (H5Tget_strpad(type) == H5T_STR_NULLTERM) text.pop_back();
    return text;
  }

  hid_t file_;
  std::uint64_t file_bytes_;
};

Table read_table(const Reader& reader, const std::string& group, bool is_flat) {
  const auto every = reader.attribute<std::int64_t>(group.c_str(), "every");
  const auto steps = reader.attribute<std::int64_t>(group.c_str(), "steps");
  const auto columns = reader.attribute<std::int64_t>(group.c_str(), "columns");
  if (every < 1 || steps < 0 || columns < 0 || (is_flat && columns != 1)) {
    throw Failure(fmt::format("{}: a table of {} columns with a row every {} of {} steps", group,
                              columns, every, steps));
  }
  Table table(RowSchedule(every, steps), static_cast<std::size_t>(columns));
  for (const std::string& metric : reader.member_names(group.c_str())) {
    if (metric == "step") continue;
    const std::string path = group + "/" + metric;
    const auto [values, shape] = reader.numbers<double>(path, is_flat ? 1 : 2);
    if (shape[0] > table.schedule().rows() || (!is_flat && shape[1] != table.width())) {
      throw Failure(fmt::format("{}: does not fit the table", path));
    }
    auto from = values.begin();
    for (std::size_t row = 0; row < shape[0]; ++row) {
      const std::span<double> cells = table.cells(metric, row);
      const auto to = from + std::ssize(cells);
      std::copy(from, to, cells.begin());
      from = to;
    }
  }
  return table;
}

std::vector<Segment> read_timeline(const Reader& reader, std::size_t nodes) {
  const auto [node, shape] = reader.numbers<std::int32_t>("/timeline/node", 1);
  const auto activity = reader.column<std::uint8_t>("/timeline/activity", node.size());
  const auto begin = reader.column<std::int64_t>("/timeline/begin", node.size());
  const auto end = reader.column<std::int64_t>("/timeline/end", node.size());
  std::vector<Segment> timeline;
  timeline.reserve(node.size());
  for (std::size_t i = 0; i < node.size(); ++i) {
    if (node[i] < 0 || static_cast<std::size_t>(node[i]) >= nodes ||
        activity[i] >= activities.size() || begin[i] > end[i]) {
      throw Failure(fmt::format("/timeline: segment {} makes no sense", i));
    }
    timeline.push_back(
        {node[i], activities[activity[i]], Time(Duration(begin[i])), Time(Duration(end[i]))});
  }
  return timeline;
}

void read_links(const Reader& reader, Recorder& recorder) {
  const std::vector<std::string> names = reader.texts("/links/name");
  const auto bandwidth = reader.column<double>("/links/bandwidth", names.size());
  const auto peak_rate = reader.column<double>("/links/peak_rate", names.size());
  const auto busy = reader.column<std::int64_t>("/links/busy_picoseconds", names.size());
  const auto bytes = reader.column<std::int64_t>("/links/bytes", names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!(bandwidth[i] >= 0 && peak_rate[i] >= 0)) {
      throw Failure(fmt::format("/links: link {} makes no sense", i));
    }
    recorder.links.push_back({names[i], bandwidth[i], peak_rate[i], Duration(busy[i]), bytes[i]});
  }
  if (!reader.has("/link_timeline")) return;
  const auto [link, shape] = reader.numbers<std::int32_t>("/link_timeline/link", 1);
  const auto rate = reader.column<double>("/link_timeline/rate", link.size());
  const auto begin = reader.column<std::int64_t>("/link_timeline/begin", link.size());
  const auto end = reader.column<std::int64_t>("/link_timeline/end", link.size());
  for (std::size_t i = 0; i < link.size(); ++i) {
    if (link[i] < 0 || static_cast<std::size_t>(link[i]) >= names.size() || begin[i] > end[i] ||
        !(rate[i] >= 0)) {
      throw Failure(fmt::format("/link_timeline: segment {} makes no sense", i));
    }
    recorder.link_timeline.push_back({static_cast<std::uint32_t>(link[i]), rate[i],
                                      Time(Duration(begin[i])), Time(Duration(end[i]))});
  }
}

std::vector<std::vector<Act>> read_acts(const Reader& reader, std::size_t nodes) {
  const auto begin = reader.column<std::int64_t>("/acts/first", nodes);
  const auto [kind, shape] = reader.numbers<std::uint8_t>("/acts/kind", 1);
  const auto who = reader.column<std::int32_t>("/acts/who", kind.size());
  const auto what = reader.column<std::uint64_t>("/acts/what", kind.size());
  std::vector<std::vector<Act>> acts(nodes);
  for (std::size_t node = 0; node < nodes; ++node) {
    const std::int64_t end = node + 1 < nodes ? begin[node + 1] : std::ssize(kind);
    if ((node == 0 && begin[node] != 0) || begin[node] > end || end > std::ssize(kind)) {
      throw Failure(fmt::format("/acts: those of node {} are not behind those before", node));
    }
    for (auto i = static_cast<std::size_t>(begin[node]); i < static_cast<std::size_t>(end); ++i) {
      if (kind[i] >= act_kinds.size()) {
        throw Failure(fmt::format("/acts: act {} makes no sense", i));
      }
      acts[node].push_back({static_cast<Act::Kind>(kind[i]), who[i], what[i]});
    }
  }
  return acts;
}

Recorder read_content(const Reader& reader) {
  const auto [steps_of_nodes, shape] = reader.numbers<std::int64_t>("/nodes/steps", 1);
  const std::size_t nodes = steps_of_nodes.size();
  if (nodes > static_cast<std::size_t>(std::numeric_limits<NodeId>::max())) {
    throw Failure("/nodes: too many nodes");
  }
  const Time until(Duration(reader.attribute<std::int64_t>("/timeline", "until")));
  Recorder recorder(static_cast<NodeId>(nodes), {}, {}, until);
  recorder.steps = read_table(reader, "/steps", /*is_flat=*/false);
  recorder.evaluation = read_table(reader, "/evaluation", /*is_flat=*/true);
  for (const TimeColumn& column : time_columns) {
    const auto path = fmt::format("/nodes/{}_picoseconds", column.name);
    const auto values = reader.column<std::int64_t>(path, nodes);
    for (std::size_t i = 0; i < nodes; ++i) column.set(recorder.nodes[i], values[i]);
  }
  for (const CountColumn& column : count_columns) {
    const auto values = reader.column<std::int64_t>(fmt::format("/nodes/{}", column.name), nodes);
    for (std::size_t i = 0; i < nodes; ++i) recorder.nodes[i].*column.member = values[i];
  }
  recorder.timeline = read_timeline(reader, nodes);
  if (reader.has("/links")) read_links(reader, recorder);
  if (reader.has("/acts")) recorder.acts = read_acts(reader, nodes);
  for (const std::string& key : reader.attribute_names("/facts")) {
    recorder.facts[key] = reader.attribute<std::string>("/facts", key);
  }
  if (reader.has("/scenario")) recorder.facts["scenario"] = reader.text("/scenario");
  for (const std::string& key : reader.attribute_names("/machine")) {
    recorder.machine[key] = reader.attribute<std::string>("/machine", key);
  }
  for (const std::string& key : reader.attribute_names("/statistics")) {
    recorder.statistics[key] = reader.attribute<double>("/statistics", key);
  }
  if (reader.has("/models")) {
    recorder.models = reader.models("/models");
    const auto has_model = reader.column<std::uint8_t>("/nodes/has_model", recorder.models.size());
    for (std::size_t i = 0; i < has_model.size(); ++i) {
      if (has_model[i] == 0) recorder.models[i].clear();
    }
  }
  return recorder;
}

/// Size of the file at `path`; throws Error unless it can be read and begins like an HDF5 file.
std::uint64_t size_of_hdf5_file(const std::string& path) {
  const auto fail = [&path](int error) {
    throw Error(fmt::format("{}: cannot read: {}", path, std::generic_category().message(error)));
  };
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) fail(errno);
  struct stat status {};
  std::array<unsigned char, 8> found{};
  const bool is_known = ::fstat(file, &status) == 0;
  const ssize_t length = S_ISREG(status.st_mode) ? ::read(file, found.data(), found.size()) : 0;
  const int error = errno;
  ::close(file);
  if (!is_known || length < 0) fail(error);
  if (!S_ISREG(status.st_mode)) {
    throw Error(fmt::format("{}: expected a results file, found a {}", path,
                            S_ISDIR(status.st_mode) ? "directory" : "device or pipe"));
  }
  if (status.st_size == 0) throw Error(path + ": expected a results file, found an empty file");
  if (found != signature) {
    throw Error(path + ": expected a results file, found something that is not HDF5");
  }
  return static_cast<std::uint64_t>(status.st_size);
}

}  // namespace

void save(const Recorder& recorder, const std::string& path) {
  ensure(recorder.evaluation.width() == 1, "the evaluation table has one cell per row");
  const hdf5::Silence silence;
  try {
    PartialFile partial(path);
    const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
    check(H5Pset_obj_track_times(creation, false));
    const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
    check(H5Pset_fapl_core(access, std::size_t{1} << 20, /*backing_store=*/false));
    check(H5Pset_fclose_degree(access, H5F_CLOSE_STRONG));
    // From 1.8 on: checked metadata, and attributes of any length.
    check(H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_LATEST));
    const Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, access), H5Fclose);
    Writer writer(file);
    write_content(writer, recorder);
    check(H5Fflush(file, H5F_SCOPE_GLOBAL));
    const ssize_t bytes = check(H5Fget_file_image(file, nullptr, 0));
    void* image = nullptr;  // of the core driver: where its pointer to the file in memory is
    check(H5Fget_vfd_handle(file, access, &image));
    partial.write({*static_cast<const std::byte* const*>(image), static_cast<std::size_t>(bytes)});
    partial.finish();
  } catch (const Failure& failure) {
    throw Error(fmt::format("{}: cannot write: {}", path, failure.what()));
  } catch (const std::bad_alloc&) {
    throw Error(fmt::format("{}: cannot write: not enough memory", path));
  }
}

Recorder load(const std::string& path) {
  const std::uint64_t bytes = size_of_hdf5_file(path);
  const hdf5::Silence silence;
  try {
    const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
    check(H5Pset_fclose_degree(access, H5F_CLOSE_STRONG));
#if H5_VERSION_GE(1, 10, 7)
    // No file is ever changed in place, and some network file systems refuse locks.
    check(H5Pset_file_locking(access, /*use=*/false, /*ignore_when_disabled=*/true));
#endif
    const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), H5Fclose);
    const Reader reader(file, bytes);
    if (!reader.has_attribute("/", "format") || !reader.has_attribute("/", "format_version") ||
        reader.attribute<std::string>("/", "format") != format_name) {
      throw Error(path + ": expected a results file of Starling, found another HDF5 file");
    }
    const auto version = reader.attribute<std::int64_t>("/", "format_version");
    if (version > format_version) {
      throw Error(fmt::format(
          "{}: written in format {} by a newer Starling; this one reads up to format {}", path,
          version, format_version));
    }
    return read_content(reader);
  } catch (const Failure& failure) {
    throw Error(fmt::format("{}: damaged or cut short: {}", path, failure.what()));
  } catch (const std::bad_alloc&) {
    throw Error(fmt::format("{}: cannot read: not enough memory", path));
  }
}

}  // namespace starling
