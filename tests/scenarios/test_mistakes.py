#!/usr/bin/python3
"""Mistakes and absurd requests: an exit status and one clear sentence for each.

usage: test_mistakes.py STARLING
"""

import resource

from command_line import FLUID, GOOD, CommandLineCase
from program_case import main

# override or file contents -> exit status and what the sentence must contain
MISTAKES = [
    (["algorithm.learning_rat=0.1"], 2, "command line: algorithm.learning_rat is not a key here"),
    (["algorithm.learning_rate=fast"], 2, "command line: algorithm.learning_rate must be a number, got fast"),
    (["algorithm.learning_rate=0"], 2, "algorithm.learning_rate must be positive, got 0"),
    (["compute.gradient=3"], 2, "compute.gradient"),
    (["compute.gradient=3 miles"], 2, "compute.gradient"),
    (["algorithm.kind=wagma", "algorithm.group_size=3"], 2, "algorithm.group_size must be a power of two, got 3"),
    (["algorithm.kind=wagma", "run.nodes=6"], 2, "a power of two, got 6"),
    (["topology.kind=hypercube", "run.nodes=6"], 2, "power of two"),
    (["topology.kind=erdos_renyi", "topology.probability=0.001"], 2, "enough to connect 8 nodes"),
    (["topology.kind=file", "topology.path=nowhere.graphml"], 2, "nowhere.graphml"),
    (["topology.kind=file", "topology.path=apart.dot"], 2, "connected"),
    (["workload.dataset=idx", "workload.directory=cut"], 2, "command line: workload.directory cut/train-images"),
    (["workload.dataset=idx", f"workload.directory={300 * 'x'}"], 2, "/train-images-idx3-ubyte: cannot open: File name too long"),
    (["workload.dataset=hdf5", "workload.path=nowhere.h5"], 2, "command line: workload.path nowhere.h5: cannot open"),
    (["workload.dataset=hdf5", "workload.path=lzf.h5"], 2, "damaged, or stored with a filter that is not installed"),
    (["compute.distribution=empirical", "compute.samples=nowhere.csv"], 2, "compute.samples nowhere.csv: cannot open"),
    (["algorithm.learning_rate=1e30"], 1, "the run diverged"),
    (["run.output=/proc/nowhere/x.h5"], 1, "/proc/nowhere"),
    (["failures.stop=3 @ 5 ms"], 1, ": node 3 stopped at 0.005 s; "),
    (["failures.stop=8 @ 5 ms"], 2, "failures.stop must name nodes from 0 to 7, got 8"),
    (["failures.lose=0.1", "network.eager_limit=8 KiB"], 2, "network.eager_limit must be infinite with [failures]"),
    (["network.eager_limit=-1 B"], 2, "network.eager_limit"),
    (["network.eager_limit=often"], 2, "; or infinite"),
    (["failures.lose=0.1", "network.collectives=analytic"], 2,
     "failures.lose needs network.collectives = expanded, which changes nothing for an algorithm without collectives"),
    # A closed form would leave these out without a word.
    ([*FLUID, "network.link_schedule=away.csv", "network.collectives=analytic"], 2, "network.link_schedule needs network.collectives ="),
    ([*FLUID, "network.failure_interval=1 s", "network.collectives=analytic"], 2, "network.failure_interval needs network.collectives ="),
    ([*FLUID, "network.slow_hosts=3", "network.collectives=analytic"], 2, "network.slow_hosts needs network.collectives = expanded"),
    ([*FLUID, "network.host_latencies=3: 1 s", "network.collectives=analytic"], 2, "network.host_latencies needs network.collectives ="),
    ([*FLUID, "network.link_bandwidths=host 3 *: 1 MB/s", "network.collectives=analytic"], 2,
     "network.link_bandwidths needs network.collectives = expanded: collectives in closed form take all links for alike"),
    ([*FLUID, "network.link_latencies=*: 1 us, host 3 *: 1 s", "network.collectives=analytic"], 2, "network.link_latencies needs"),
    (["network.kind=loggp", "network.preset=edr", "network.slowdowns=3: 9", "network.collectives=analytic"], 2,
     "network.slowdowns needs network.collectives = expanded"),
    (["compute.distribution=published"], 2, "compute.name is missing"),
    (["compute.distribution=trace", "compute.trace=nowhere.csv"], 2, "compute.trace nowhere.csv: cannot open"),
    (["nonsense.key=1"], 2, "nonsense"),
    (["workload.wire_parameters=-1"], 2, "workload.wire_parameters"),
    # Keys that nothing would come of without another one.
    ([*FLUID, "network.local_bandwidth=9 GB/s"], 2, "network.local_bandwidth needs nodes_per_host"),
    ([*FLUID, "network.local_latency=1 us"], 2, "network.local_latency needs nodes_per_host"),
    (["failures.reliable_nodes=2"], 2, "failures.reliable_nodes needs mean_time_between_failures"),
    (["network.cache=30 MB", "network.reduction_bandwidth=2 GB/s"], 2, "network.cache needs cache_bandwidth, without which"),
    (["network.cache=30 MB", "network.cache_bandwidth=3 GB/s"], 2, "network.cache needs reduction_bandwidth, without which"),
    (["network.cache_bandwidth=3 GB/s"], 2, "network.cache_bandwidth needs cache, which"),
    (["network.bandwidth=1e-300 B/s"], 1, " B at next to no bandwidth take longer than the clock holds (106 days)"),
]

BLOBS = ["workload.dataset=blobs"]

# What no machine can hold, or no clock: refused before memory is asked for, with the arithmetic or the bound.
ABSURD = [
    (["run.nodes=1e12"], 2, "run.nodes must be fewer: 1000000000000 nodes * 380 B beside their models = 353902.6 GiB"),
    (["workload.hidden=1048576,1048576"], 1, "8 nodes * 1099591319562 parameters * 4 B = 32770.4 GiB"),
    (["workload.hidden=1000000000"], 2, "the weights between two such layers would take 1000000000 * 1000000000 * 4 B"),
    (["workload.batch_size=1000000000"], 2, "workload.batch_size must be from 1 to 1048576, got 1000000000"),
    ([*BLOBS, "workload.samples=1000000000", "workload.features=1000000"], 2,
     "workload.samples must be fewer: 1000000500 samples * 1000000 features * 4 B = 3725292.2 GiB"),
    ([*BLOBS, "workload.samples=1000000000000"], 2, "workload.samples must be from 1 to 1073741824"),
    ([*BLOBS, "workload.samples=1", "workload.features=1000000", "workload.classes=1000000"], 2,
     "workload.classes must be fewer: 1000000 centers * 1000000 features * 8 B = 7450.6 GiB"),
    ([*BLOBS, "workload.classes=1000000000"], 2, "workload.classes must be from 1 to 1000000"),
    (["workload.partition=by_label", "workload.shards_per_node=1000000000"], 2, "workload.shards_per_node must be from 1 to"),
    (["workload.kind=cnn", "workload.layers=dense 1000000000"], 2, "must have numbers up to 1048576 in layer 1"),
    (["workload.kind=cnn", "workload.layers=dense 1000000, dense 1000000"], 2, "at most 2147483647 parameters"),
    (["workload.kind=transformer", "workload.width=1000000000"], 2, "workload.width must be from 1 to 65536"),
    (["workload.kind=transformer", "workload.layers=1000000000"], 2, "workload.layers must be from 1 to 1000"),
    (["workload.kind=quadratic", "workload.dimension=1e12"], 2, "workload.dimension must be from 1 to 2147483647"),
    (["workload.kind=quadratic", "workload.dimension=1e9", "run.nodes=10000"], 2,
     "workload.dimension must be fewer: 10000 nodes * 1000000000 curvatures and centers * 8 B = 74505.8 GiB"),
    (["workload.kind=transformer", "workload.dataset=sequences", "workload.samples=16777216", "workload.context=65536",
      "workload.median_length=1e6"], 2, "workload.samples must be fewer: 16777716 samples * 65536 tokens * 4 B = 4096.1 GiB"),
    (["workload.kind=navigation", "workload.side=256", "workload.maps=65536", "run.nodes=10000"], 2,
     "workload.maps must be fewer: 10000 nodes * 65536 maps * 65536 cells * 1 B = 40000.0 GiB"),
    (["workload.kind=navigation", "workload.environments=65536", "workload.rollout_steps=65536"], 2,
     "workload.rollout_steps must be fewer: 65536 environments * 65536 moves * 67 numbers * 4 B = 1072.0 GiB"),
    (["workload.kind=timing", "workload.parameters=1e14"], 2, "workload.parameters must be from 0 to 10000000000000"),
    (["workload.kind=timing", "workload.tensors=1e15"], 2, "workload.tensors must be whole numbers of floats"),
    (["workload.wire_parameters=1e15"], 2, "workload.wire_parameters must be from 0 to 10000000000000"),
    (["workload.wire_parameters=1e13", "network.bandwidth=10 MB/s"], 1, "virtual time passes the end of the clock (106 days)"),
    (["run.nodes=100000", "topology.kind=random_regular", "topology.degree=50000"], 2, "topology.degree asks for 5e+09 arcs of 40 bytes each"),
    (["topology.kind=random_matching", "topology.rounds=1e12"], 2, "topology.rounds asks for 8e+12 arcs of 40 bytes each"),
    (["topology.kind=equi_static", "topology.degree=1e12"], 2, "topology.degree must be from 1 to 1000000"),
    (["topology.kind=torus", "topology.sides=1000000000x1000000000"], 2, "topology.sides must multiply to the 8 nodes"),
    ([*FLUID, "network.fabric=hyperx", "network.sides=3000,3000"], 2, "gives a fabric of 2 * 2.7e+10 links"),
    ([*FLUID, "network.fabric=torus", "network.sides=1000000,1000000"], 2, "gives a fabric of 1000000000000 hosts"),
    ([*FLUID, "network.fabric=fat_tree", "network.k=1000000"], 2, "gives a fabric of 2.5e+17 hosts"),
    ([*FLUID, "network.fabric=dragonfly", "network.routers=1000000", "network.groups=1000000"], 2, "fabric of 2000000000000"),
    (["algorithm.kind=wagma", "algorithm.group_size=1073741824"], 2, "must be at most the number of nodes (8)"),
    (["algorithm.kind=parameter_server", "algorithm.servers=1000000000"], 2, "must be from 1 to the number of nodes (8)"),
    (["algorithm.kind=powersgd", "algorithm.rank=1000000000"], 2, "algorithm.rank must be from 1 to 4096"),
    ([*FLUID, "network.latency=2000 h"], 2, "network.latency must be at most 60 s, got 7200000 s"),
    ([*FLUID, "network.local_latency=2 min"], 2, "network.local_latency must be at most 60 s, got 120 s"),
    ([*FLUID, "network.host_latencies=1: 2 min"], 2, "must be at most 60 s, got 2 min"),
    (["network.kind=tcp", "network.bandwidth=1 GB/s", "network.latency_factor=1e30"], 2, "latency_factor must be at most 1000"),
    ([*FLUID, "network.failure_interval=1 ps"], 2, "network.failure_interval must be 0 s or at least 1 us, got 1 ps"),
    (["algorithm.kind=allreduce", "algorithm.gathered=9223372036854775807 B"], 2, "algorithm.gathered must be from 0 to 1099511627776 B"),
    (["run.timeline=1e12 s"], 2, "which is past the end of the clock (106 days)"),
    (["compute.gradient=1e30 s"], 2, "which is past the end of the clock (106 days)"),
    (["run.steps=1e15"], 2, "run.steps must be from 1 to 2^40"),
]

ABSURD_SWEEPS = [
    ("workload.hidden = 1 .. 1000000000", "sweep.workload.hidden has a range of more than 1000000 values"),
    ("workload.hidden = 1 .. 1000\nrun.seed = 1 .. 1000\nrun.steps = 1 .. 1000", "[sweep] has more than 1000000 points"),
    ("run.steps = 1 .. 2\nrepeats = 1000000000", "sweep.repeats must be from 1 to 100000"),
]


class MistakesTest(CommandLineCase):
    def test_a_mistake_ends_with_its_status_and_one_sentence_and_leaves_no_file_that_cannot_be_opened(self):
        output = self.folder / "mistake.h5"
        for overrides, status, sentence in MISTAKES:
            with self.subTest(overrides):
                words = overrides if any(o.startswith("run.output") for o in overrides) else [*overrides, "-o", output]
                self.expect("run", "good.ini", *words, status=status, sentence=sentence)
                if output.exists():
                    self.assertIn("failed", self.status_in(output))
                self.assertFalse((self.folder / "mistake.h5.partial").exists())
            output.unlink(missing_ok=True)

    def test_another_kind_has_other_keys(self):
        """Which one has them, and how to go on without an editor."""
        self.write("wagma.ini", GOOD.replace("kind = dpsgd", "kind = wagma\ngroup_size = 4\ntau = 5"))
        place, cure = ": algorithm.group_size is not a key here; known keys: ", "; algorithm.group_size=default algorithm.tau=default takes away"
        for words, start, end in ((["wagma.ini", "algorithm.kind=allreduce"], f"wagma.ini:18{place}",
                                   f"; kind = wagma has it{cure} what the file sets, on the command line or zipped in [sweep]"),
                                  (["good.ini", "algorithm.group_size=4"], f"command line{place}", "; kind = wagma has it"),
                                  (["good.ini", "algorithm.keep=0.1"], "command line: algorithm.keep is not a key here; ",
                                   "; it is one with compression = top_k, random_k, threshold, gradient_dropping, threshold_quantization, adaptive_quantization"),
                                  (["good.ini", "compute.sigma=0.1"], "command line: compute.sigma is not a key here; ",
                                   "; it is one with distribution = normal, lognormal"),
                                  (["good.ini", "workload.alpha=0.1"], "command line: workload.alpha is not a key here; ",
                                   "; it is one with partition = dirichlet"),
                                  (["good.ini", "network.preset=edr"], "command line: network.preset is not a key here; ",
                                   "; kind = fluid, loggp, tcp have it"),
                                  (["good.ini", "network.fabric=torus", "network.sides=2, 4"], "command line: network.fabric is not a key here; ",
                                   "; kind = fluid, tcp have it"),
                                  (["good.ini", "topology.kind=complete", "topology.sides=2, 4"], "command line: topology.sides is",
                                   "; kind = torus has it"),
                                  (["good.ini", "workload.hiden=4"], "command line: workload.hiden is", "; did you mean hidden?")):
            with self.subTest(words):
                done = self.expect("describe", *words, status=2, sentence=f"starling: {start}")
                self.assertTrue(done.stderr.endswith(f"{end}\n"), done.stderr)
        self.starling("describe", "wagma.ini", "algorithm.kind=allreduce", *cure.split()[1:3])

    def test_a_section_that_is_not_there_is_no_missing_key(self):
        self.write("short.ini", GOOD.replace("[network]\nkind = constant\nlatency = 20 us\n", ""))
        self.expect("run", "short.ini", status=2, sentence="short.ini has no section [network]: network.kind is missing")


def limited():
    """1 GiB of address space, and seconds."""
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))


class AbsurdRequestsTest(CommandLineCase):
    """Refused with one sentence by a process that may have 1 GiB of address space, and within seconds."""

    def test_absurd_runs(self):
        self.write("bare.ini", GOOD.replace("dataset = digits\nhidden = 8\n", ""))  # for workloads of other kinds, too
        for overrides, status, sentence in ABSURD:
            with self.subTest(overrides):
                self.expect("run", "bare.ini", *overrides, "-o", "absurd.h5", status=status, sentence=sentence, preexec_fn=limited)

    def test_absurd_sweeps(self):
        for number, (section, sentence) in enumerate(ABSURD_SWEEPS):
            with self.subTest(section):
                self.write(f"sweep{number}.ini", GOOD + f"[sweep]\n{section}\n")
                self.expect("sweep", f"sweep{number}.ini", status=2, sentence=sentence, preexec_fn=limited)


if __name__ == "__main__":
    main("program")
