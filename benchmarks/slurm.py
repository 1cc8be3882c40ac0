"""The recipe of docs/scale.md on a real SLURM: its daemons run on this machine, and dask-jobqueue submits workers.

    apt-get install --no-install-recommends slurmctld slurmd slurm-client munge
    pip install dask-jobqueue
    python -m benchmarks.slurm IMAGES [N]

The first N (40) images are indexed by two jobs of one core, and with two processes of this machine; the vectors are
compared. The daemons listen on loopback, at free ports, and their files are temporary.
"""

import getpass
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from faemb.collection import Collection, new_model
from faemb.features.folders import find_images
from faemb.runtime.cluster import open_cluster
from faemb.runtime.parallel import Jobs
from processes import wait_until

JOBS, MEMORY = 2, 4000
"""Number of jobs, and megabytes of each."""
_SETTINGS = """
ClusterName=trial
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName={host} NodeAddr=127.0.0.1 CPUs={jobs} RealMemory={memory}
PartitionName=normal Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


@contextmanager
def slurm(folder: Path) -> Iterator[None]:
    """Controller, one node and the daemon that authenticates them, until the end of the block."""
    folder.chmod(0o711)  # munged lets all users reach its socket
    for name in ("state", "spool"):
        (folder / name).mkdir()
    settings, key = folder / "slurm.conf", folder / "munge.key"
    values = {"host": socket.gethostname(), "user": getpass.getuser(), "folder": folder}
    settings.write_text(_SETTINGS.format(**values, ports=free_ports(2), jobs=JOBS, memory=JOBS * MEMORY))
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    os.environ["SLURM_CONF"] = str(settings)
    places = {"socket": "munge.socket", "pid-file": "munge.pid", "log-file": "munge.log", "seed-file": "munge.seed"}
    options = [f"--{option}={folder / name}" for option, name in places.items()]
    with ExitStack() as daemons:
        daemons.enter_context(running(["munged", "--foreground", f"--key-file={key}", *options], folder))
        require((folder / "munge.socket").exists, folder)
        daemons.enter_context(running(["slurmctld", "-D"], folder))
        daemons.enter_context(running(["slurmd", "-D"], folder))
        require(lambda: told("sinfo", "--noheader", "--format=%T") == "idle", folder)
        yield


def free_ports(count: int) -> list[int]:
    with ExitStack() as until_all_are_known:
        taken = [until_all_are_known.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in taken]


@contextmanager
def running(command: Sequence[str], folder: Path) -> Iterator[None]:
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def require(condition: Callable[[], bool], folder: Path) -> None:
    if not wait_until(condition):
        raise RuntimeError((folder / "log").read_text())


def told(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603


@contextmanager
def submitted(folder: Path) -> Iterator[str]:
    """The address of a scheduler whose workers are jobs."""
    kind: Any = import_module("dask_jobqueue").SLURMCluster
    how = {"interface": "lo", "log_directory": str(folder), "scheduler_options": {"dashboard_address": "127.0.0.1:0"}}
    with kind(queue="normal", cores=1, processes=1, memory=f"{MEMORY}MB", walltime="01:00:00", **how) as made:
        made.scale(jobs=JOBS)
        made.wait_for_workers(JOBS)
        yield made.scheduler_address


def indexed(images: Sequence[Path], folder: Path, jobs: Jobs) -> dict[str, np.ndarray]:
    """The vector of each image, by path."""
    start = time.perf_counter()
    with Collection.create(folder, new_model()) as collection:
        report = collection.add(images, jobs=jobs)
        print(f"{folder.stem}: {report.added} images added in {time.perf_counter() - start:.1f} s", flush=True)
        collection.export(folder.with_suffix(".npz"), "npz")
    stored = np.load(folder.with_suffix(".npz"))
    return dict(zip(stored["paths"].tolist(), stored["vectors"], strict=True))


def main(folder: str, count: str = "40") -> None:
    images = find_images([Path(folder)]).images[: int(count)]
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        with slurm(scratch), submitted(scratch) as address, open_cluster(address) as machines:
            print(f"{told('sinfo', '--version')}: {told('squeue', '--noheader', '--format=job %i is %T').splitlines()}")
            here = indexed(images, scratch / "slurm.faemb", machines)
        there = indexed(images, scratch / "machine.faemb", JOBS)
        gap = max(float(np.abs(vector - there[path]).max()) for path, vector in here.items())
        print(f"{len(here)} and {len(there)} vectors, which differ by at most {gap:.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:])
