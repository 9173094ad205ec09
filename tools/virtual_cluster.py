"""Two hosts in one: network namespaces joined by a cable of 100 Mbit/s, real MPI over TCP between them."""
import os
import shlex
import shutil
import subprocess

RATE = 100e6 / 8 * 1448 / 1514  # payload of a packet on Ethernet, bytes per second
SETTINGS = {"btl": "tcp,self,vader", "btl_tcp_if_include": "10.77.0.0/24", "oob_tcp_if_include": "10.77.0.0/24",
            "btl_vader_single_copy_mechanism": "none"}


class NoClusterError(Exception):
    """This system does not let us make one: says why."""


class VirtualCluster:
    """Hosts a and b, 10.77.0.1 and 10.77.0.2. Each is a network namespace with a name of its own."""

    def __init__(self, folder):
        """Keeps a script in folder."""
        self.names = {host: f"starling-{os.getpid()}-{host}" for host in "ab"}
        self.agent = folder / "agent"
        self.agent.write_text(f"#!/bin/sh\nshift\nexec {shlex.join(self.enter('b'))} sh -c \"$*\"\n")
        self.agent.chmod(0o755)

    def __enter__(self):
        if not shutil.which("ip"):
            raise NoClusterError("no network namespaces with rate-limited links here: there is no ip (iproute2)")
        try:
            self.start()
        except (OSError, subprocess.CalledProcessError) as error:
            self.stop()
            raise NoClusterError("no network namespaces with rate-limited links here: "
                                 f"{(getattr(error, 'stderr', None) or str(error)).strip()}") from error
        return self

    def __exit__(self, *_):
        self.stop()

    def enter(self, host):
        return ["ip", "netns", "exec", self.names[host], "unshare", "--uts", "sh", "-c",
                f'hostname host-{host} && exec "$@"', "sh"]

    def start(self):
        def command(*words):
            subprocess.run(words, capture_output=True, text=True, check=True)

        a, b = self.names["a"], self.names["b"]
        for name in (a, b):
            command("ip", "netns", "add", name)
            command("ip", "-n", name, "link", "set", "lo", "up")
        command("ip", "link", "add", "cable", "netns", a, "type", "veth", "peer", "name", "cable", "netns", b)
        for name, address in ((a, "10.77.0.1/24"), (b, "10.77.0.2/24")):
            command("ip", "-n", name, "address", "add", address, "dev", "cable")
            command("ip", "-n", name, "link", "set", "cable", "up")
            # A switch's short queue; and how clusters send, whatever this system's default is.
            command("tc", "-n", name, "qdisc", "add", "dev", "cable", "root", "tbf", "rate", "100mbit", "burst", "3kb",
                    "latency", "10ms")
            command("ip", "netns", "exec", name, "sysctl", "-q", "net.ipv4.tcp_congestion_control=reno")
            command("ip", "netns", "exec", name, "sysctl", "-q", "net.ipv4.tcp_slow_start_after_idle=0")

    def stop(self):
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def mpirun(self, ranks):
        """The words before a program that start it on so many ranks (even), half of them on either host."""
        words = [*self.enter("a"), "mpirun", "-H", f"10.77.0.1:{ranks // 2},10.77.0.2:{ranks // 2}",
                 "--mca", "plm_rsh_agent", str(self.agent)]
        for key, value in SETTINGS.items():
            words += ["--mca", key, value]
        return words
