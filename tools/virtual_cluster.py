"""Hosts within this one: network namespaces on switches with ports of 100 Mbit/s, real MPI over TCP between them."""
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
    """Hosts 10.77.0.1, 10.77.0.2 and so on, the same number in every rack.

    Each host, and each switch, is a network namespace. The hosts of a rack are joined by its switch; the switches of several
    racks by another one, each over a single cable. Every cable carries 100 Mbit/s in either direction.
    """

    def __init__(self, folder, hosts, racks=1):
        """Keeps a script in folder."""
        prefix = f"starling-{os.getpid()}"
        self.hosts = [f"{prefix}-host-{i}" for i in range(hosts)]
        self.switches = [f"{prefix}-root", *(f"{prefix}-rack-{i}" for i in range(racks))]
        self.agent = folder / "agent"
        cases = "".join(f"10.77.0.{i + 1}) exec {shlex.join(self.enter(i))} sh -c \"$*\" ;;\n" for i in range(hosts))
        self.agent.write_text(f"#!/bin/sh\nhost=$1\nshift\ncase $host in\n{cases}esac\n")
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
        """The words before a program that start it on a host."""
        return ["ip", "netns", "exec", self.hosts[host], "unshare", "--uts", "sh", "-c",
                f'hostname host-{host} && exec "$@"', "sh"]

    def start(self):
        for name in [*self.hosts, *self.switches]:
            command("ip", "netns", "add", name)
            command("ip", "-n", name, "link", "set", "lo", "up")
        for name in self.switches:
            command("ip", "-n", name, "link", "add", "switch", "type", "bridge")
            command("ip", "-n", name, "link", "set", "switch", "up")
        for i, name in enumerate(self.hosts):
            self.join((name, "cable"), (self.switches[1 + i * (len(self.switches) - 1) // len(self.hosts)], f"host-{i}"))
            command("ip", "-n", name, "address", "add", f"10.77.0.{i + 1}/24", "dev", "cable")
            # How clusters send, whatever this system's default is.
            command("ip", "netns", "exec", name, "sysctl", "-q", "net.ipv4.tcp_congestion_control=reno")
            command("ip", "netns", "exec", name, "sysctl", "-q", "net.ipv4.tcp_slow_start_after_idle=0")
        for i, name in enumerate(self.switches[1:]):
            self.join((name, "root"), (self.switches[0], f"rack-{i}"))

    def join(self, *ends):
        """A cable between two interfaces, each (namespace, name), with a switch's short queue at either end."""
        (a, name), (b, peer) = ends
        command("ip", "link", "add", name, "netns", a, "type", "veth", "peer", "name", peer, "netns", b)
        for namespace, interface in ends:
            if namespace in self.switches:
                command("ip", "-n", namespace, "link", "set", "dev", interface, "master", "switch")
            command("ip", "-n", namespace, "link", "set", "dev", interface, "up")
            command("tc", "-n", namespace, "qdisc", "add", "dev", interface, "root", "tbf", "rate", "100mbit", "burst", "3kb",
                    "latency", "10ms")

    def stop(self):
        for name in [*self.hosts, *self.switches]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def mpirun(self, ranks):
        """The words before a program that start it on so many ranks, as many on each host."""
        slots = ",".join(f"10.77.0.{i + 1}:{ranks // len(self.hosts)}" for i in range(len(self.hosts)))
        words = [*self.enter(0), "mpirun", "-H", slots, "--mca", "plm_rsh_agent", str(self.agent)]
        for key, value in SETTINGS.items():
            words += ["--mca", key, value]
        return words


def command(*words):
    subprocess.run(words, capture_output=True, text=True, check=True)
