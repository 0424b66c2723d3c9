"""Starts the ranks of an MPI job: the `mpiexec` beside this Python, or else the first on the path."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

ENVIRONMENT = {  # for Open MPI: as root, and more ranks than cores
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def mpiexec() -> str | None:
    """Return the program that starts ranks; None without MPI."""
    try:
        import mpi4py  # noqa: F401
    except ImportError:
        return None
    beside = str(Path(sys.executable).parent)
    return shutil.which("mpiexec", path=os.pathsep.join([beside, os.environ["PATH"]]))


def ranks_of(number: int, program: str, module: str, *arguments: object) -> list[str]:
    """Return the command that runs a module of this folder on that many ranks."""
    return [program, "-n", str(number), sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)]


def environment() -> dict[str, str]:
    """Return the environment for such a command."""
    return {**os.environ, **ENVIRONMENT}
