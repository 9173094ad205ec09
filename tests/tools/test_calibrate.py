#!/usr/bin/python3
"""`starling calibrate`, and the way from there to a validated simulation: calibrate, simulate, run, compare.

usage: test_calibrate.py STARLING MPIRUN PRELOADED
"""
import pathlib
import re
import subprocess

from program_case import ProgramCase, main

MACHINE = "# Measured by starling calibrate: by hand\n[network]\nkind = constant\nlatency = 1 us\n"
SCENARIO = """include = machine.ini
[run]
nodes = 4
steps = 10
save_models = yes
[topology]
kind = ring
[compute]
gradient = 20 ms
distribution = constant
[workload]
kind = mlp
dataset = digits
hidden = 16
[algorithm]
kind = dpsgd
learning_rate = 0.05
"""

ROOT = pathlib.Path(__file__).resolve().parents[2]


class CalibrateTest(ProgramCase):
    def setUp(self):
        super().setUp()
        self.write("machine.ini", MACHINE)
        self.write("s.ini", SCENARIO)

    def said(self, *words, ranks=0, status=0, exported=()):
        """What the program says, with these variables of the environment."""
        options = [word for name, value in dict(exported).items() for word in ("-x", f"{name}={value}")]
        done = self.starling(*words, processes=ranks, status=status, options=options)
        return done.stdout + done.stderr

    def test_figures_are_positive_and_a_scenario_includes_them(self):
        said = self.said("calibrate", "s.ini", "-o", "measured.ini", ranks=3, exported={"STARLING_HEARTBEAT": "1"})
        # Twenty messages 2 ms apart, 31 times: more than a second.
        self.assertRegex(said, r"(?m)^ *\d+ %, within a host: bursts of messages, ")
        self.assertEqual(said.count("measuring the network between 3 ranks, and gradients ...\n"), 1, said)
        text = (self.folder / "measured.ini").read_text()
        self.assertIn("# Measured by starling calibrate: 3 ranks on 1 host.", text)
        time, rate = r"[\d.]+ (?:ns|us|ms)", r"[\d.e+]+ GB/s"
        for key, form in {"latency": time, "bandwidth": rate, "local_latency": time, "local_bandwidth": rate, "gradient": time}.items():
            found = re.search(rf"^{key} = ({form})$", text, re.M)
            self.assertIsNotNone(found, text)
            self.assertGreater(float(found[1].split()[0]), 0)
        # A message of 8 MB was moved, and no memory moves 10 TB/s.
        self.assertLess(float(re.search(r"^bandwidth = ([\d.e+]+)", text, re.M)[1]), 10000)
        self.assertIn("nodes_per_host = 3", text)
        measured = SCENARIO.replace("machine.ini", "measured.ini").replace("gradient = 20 ms\ndistribution = constant\n", "")
        (self.folder / "s.ini").write_text(measured)
        self.assertIn("virtual time", self.said("run", "s.ini"))

    def test_a_scenario_need_not_have_what_it_shall_get_from_here(self):
        bare = SCENARIO.replace("include = machine.ini\n", "").replace("gradient = 20 ms\ndistribution = constant\n", "")
        (self.folder / "s.ini").write_text(bare)
        self.said("calibrate", "s.ini", "-o", "measured.ini", ranks=2)
        (self.folder / "s.ini").write_text("include = measured.ini\n" + bare)
        self.assertIn("virtual time", self.said("run", "s.ini"))

    def test_ways_within_a_host_are_those_of_the_ranks_that_measured_them(self):
        for hosts in "011", "001", "010":
            said = self.said("calibrate", "-o", "measured.ini", ranks=len(hosts), exported={
                "LD_PRELOAD": self.preloaded, "STARLING_TEST_HOSTS": hosts, "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"})
            text = (self.folder / "measured.ini").read_text()
            self.assertIn(f"{len(hosts)} ranks on 2 hosts", text)
            doubt = f"the ranks were on hosts {' '.join(hosts)}, which nodes_per_host = 2 cannot say: "
            self.assertEqual(f"# Beware: {doubt}" in text, hosts != "001")
            self.assertEqual(f"starling: warning: {doubt}" in said, hosts != "001")
            self.assertGreater(float(re.search(r"^local_latency = ([\d.]+) [num]s$", text, re.M)[1]), 0, text)

    def test_a_file_is_replaced_when_the_new_one_is_whole(self):
        (self.folder / "kept.ini").hardlink_to(self.folder / "machine.ini")
        self.said("calibrate", "-o", "machine.ini", ranks=2)
        self.assertIn("# Measured by starling calibrate", (self.folder / "machine.ini").read_text())
        self.assertEqual((self.folder / "kept.ini").read_text(), MACHINE)

    def test_a_scenario_is_not_replaced_by_what_was_measured_for_it(self):
        for output in "s.ini", str(self.folder / "s.ini"):
            self.assertIn(f"{output}: is the scenario itself", self.said("calibrate", "s.ini", "-o", output, ranks=2, status=1))
        self.assertEqual((self.folder / "s.ini").read_text(), SCENARIO)

    def test_what_is_no_measurement_is_not_replaced_by_one(self):
        (self.folder / "other.ini").write_text("[run]\nnodes = 4\n")
        self.assertIn("other.ini: is there already and no measurement", self.said("calibrate", "s.ini", "-o", "other.ini", ranks=2, status=1))
        self.assertEqual((self.folder / "other.ini").read_text(), "[run]\nnodes = 4\n")

    def test_folders_above_the_file_are_made(self):
        self.said("calibrate", "-o", "new/m.ini", ranks=2)
        self.assertTrue((self.folder / "new" / "m.ini").exists())

    def test_a_file_that_cannot_be_written_is_told_before_anything_is_measured(self):
        # One rank cannot measure, which is found when that begins.
        self.assertIn("s.ini/m.ini: cannot write: Not a directory", self.said("calibrate", "-o", "s.ini/m.ini", ranks=1, status=1))
        self.assertIn("two ranks at least", self.said("calibrate", "-o", "m.ini", ranks=1, status=1))
        self.assertFalse((self.folder / "m.ini").exists())

    def test_calibrate_simulate_run_compare(self):
        self.said("calibrate", "-o", "machine.ini", ranks=4)
        self.said("run", "s.ini", "-q", "-o", "simulated.h5")
        self.said("run", "s.ini", "-q", "-o", "real.h5", "--transport", "mpi", ranks=4)
        # Times differ as much as the machine is shared; the numbers may not differ at all.
        said = self.said("compare", "simulated.h5", "real.h5", "--models", "0", "--loss", "0", "--time", "100")
        self.assertIn("the runs agree", said)
        self.assertIn("time per step, s", said)

    def validate(self, *words):
        """What tools/validate printed, and its table. Times may differ as much as the machine is shared."""
        done = subprocess.run([ROOT / "tools" / "validate", "--program", self.program, *words, "--median", "100", "--training", "100",
                               "--write", "table.md"], cwd=self.folder, capture_output=True, text=True, timeout=500)
        if "no network namespaces" in done.stderr:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout, (self.folder / "table.md").read_text()

    def test_a_table_of_predictions_is_made(self):
        earlier = "| ranks | algorithm | simulated, ms/step | real, ms/step | deviation | models, to the bit |\n"
        (self.folder / "table.md").write_text(earlier)
        _, table = self.validate("--ranks", "2", "--sizes", "10 kB", "--gradients", "2 ms", "--steps", "5", "--repeats", "1")
        for algorithm in ("allreduce", "dpsgd", "wagma", "adpsgd"):
            # Steps of 2 ms or a little more, on a busy machine of much more: a plausible number on either side.
            self.assertRegex(table, rf"\| 2 \| 2 ms \| {algorithm} \| 10 kB \| [1-9]\d*\.\d+ \| [1-9]\d*\.\d+ \|")

    def test_the_hosts_may_be_two_in_racks_of_their_own(self):
        said, table = self.validate("--hosts", "2", "--racks", "2", "--ranks", "4", "--algorithms", "allreduce", "swarm",
                                    "--sizes", "100 kB", "--gradients", "20 ms", "--steps", "5", "--repeats", "1")
        self.assertIn("# Measured by starling calibrate: 4 ranks on 2 hosts.", said)
        self.assertIn("[network]\nkind = tcp\n", said)
        self.assertIn("nodes_per_host = 2", said)
        limit = float(re.search(r"^A cable carries (\S+) GB/s", said, re.M)[1])
        bandwidth = float(re.search(r"^bandwidth = (\S+) GB/s$", said, re.M)[1])
        # Other jobs of the machine only ever make the cable look slower.
        self.assertLess(bandwidth, 1.05 * limit, said)
        self.assertGreater(bandwidth, 0.1 * limit, said)
        self.assertIn("all models are equal to the bit", table)
        self.assertEqual(re.findall(r"(?m)^\| 4 \| 20 ms \| (\w+) ", table), ["allreduce", "swarm"])

    def test_what_cannot_be_measured_is_said(self):
        sizes = SCENARIO.replace("kind = mlp\ndataset = digits\nhidden = 16", "kind = timing\nparameters = 10")
        (self.folder / "sizes.ini").write_text(sizes)
        self.assertIn("two ranks at least", self.said("calibrate", ranks=1, status=None))
        self.assertIn("4 nodes, fewer than the 5 ranks", self.said("calibrate", "s.ini", ranks=5, status=None))
        self.assertIn("no gradient can be timed",
                      self.said("calibrate", "sizes.ini", ranks=2, status=None))
        self.assertIn("nowhere.ini", self.said("calibrate", "nowhere.ini", ranks=2, status=None))


if __name__ == "__main__":
    main("program", "mpirun", "preloaded")
