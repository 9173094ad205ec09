"""tools/check_includes.py: the project keeps its include table, and a breach of it is caught."""
import pathlib
import tempfile
import unittest

import check_includes

ROOT = pathlib.Path(__file__).resolve().parents[2]


class CheckIncludes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for path in ("sim/base/time.hpp", "sim/node/node.hpp", "sim/engine/calendar.hpp", "topology/mixing.hpp"):
            self.write(path, "#pragma once\n")

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def expect(self, path, text, *violations):
        self.write(path, text)
        self.assertEqual(check_includes.check_tree(self.root), list(violations))

    def test_this_project_keeps_its_include_table(self):
        self.assertEqual(check_includes.check_tree(ROOT), [])

    def test_what_the_table_allows_passes(self):
        self.expect("algorithms/dpsgd.cpp",
                    '#include <vector>\n#include <sys/mman.h>\n#include <fmt/format.h>\n#include "sim/node/node.hpp"\n')

    def test_an_algorithm_cannot_see_the_engine(self):
        self.expect("algorithms/dpsgd.cpp", '// why\n  #  include "sim/engine/calendar.hpp"\n',
                    "algorithms/dpsgd.cpp:2: sim/engine/calendar.hpp: "
                    "algorithms may include sim/base, sim/node, but not sim/engine")

    def test_siblings_do_not_include_each_other(self):
        self.expect("kernels/mlp.hpp", '#pragma once\n#include "topology/mixing.hpp"\n',
                    "kernels/mlp.hpp:2: topology/mixing.hpp: kernels may include sim/base, sim/node, but not topology")

    def test_the_ground_includes_nothing_of_ours(self):
        self.expect("sim/base/units.cpp", '#include "sim/node/node.hpp"\n',
                    "sim/base/units.cpp:1: sim/node/node.hpp: "
                    "sim/base may include nothing of ours, but not sim/node")

    def test_paths_start_at_the_root(self):
        for name in ("time.hpp", "../base/time.hpp", "sim/base/../base/time.hpp"):
            self.expect("sim/base/units.cpp", f'#include "{name}"\n',
                        f"sim/base/units.cpp:1: {name}: is no file, seen from the project's root")

    def test_a_library_belongs_to_its_owner(self):
        self.expect("sim/record/hdf5_file.cpp", "#include <hdf5.h>\n")
        self.expect("sim/node/node.cpp", "#include <hdf5.h>\n",
                    "sim/node/node.cpp:1: hdf5.h: "
                    "belongs to sim/base/hdf5.cpp and sim/record/hdf5_file.cpp and kernels/data/hdf5_dataset.cpp")

    def test_a_library_stays_out_of_headers(self):
        self.expect("sim/mpi/mpi_channel.hpp", "#pragma once\n#include <mpi.h>\n",
                    "sim/mpi/mpi_channel.hpp:2: mpi.h: belongs into a .cpp file, not into a header")

    def test_a_library_stays_out_of_the_headers_of_tools_too(self):
        self.expect("tools/arguments.hpp", "#pragma once\n#include <boost/program_options.hpp>\n",
                    "tools/arguments.hpp:2: boost/program_options.hpp: belongs into a .cpp file, not into a header")

    def test_an_unknown_library_is_noticed(self):
        self.expect("kernels/mlp.cpp", "#include <Eigen/Dense>\n",
                    "kernels/mlp.cpp:1: Eigen/Dense: is a library that tools/check_includes.py does not know")

    def test_a_header_without_pragma_once_is_noticed(self):
        self.expect("kernels/mlp.hpp", "int x;\n", "kernels/mlp.hpp:1: a header needs #pragma once")

    def test_a_file_outside_of_the_table_is_noticed(self):
        self.expect("sim/other/thing.cpp", "", "sim/other/thing.cpp:1: lies in no folder of the include table")


if __name__ == "__main__":
    unittest.main()
