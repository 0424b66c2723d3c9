"""Starts MPI jobs for tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import psgld

HERE = Path(__file__).parent
MPIEXEC = shutil.which(
    "mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
)

try:
    import mpi4py  # noqa: F401

    MISSING = "" if MPIEXEC else "there is no mpiexec; pip install 'psgld[mpi]'"
except ImportError:
    MISSING = "mpi4py is not installed; pip install 'psgld[mpi]'"

needs_mpi = pytest.mark.skipif(bool(MISSING), reason=MISSING or "-")

ENVIRONMENT = {  # for Open MPI: as root, and more ranks than cores
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PYTHONPATH": os.pathsep.join([str(Path(psgld.__file__).parents[1]), str(HERE)]),
}


def mpiexec(ranks, *arguments, program=(str(HERE / "mpi_case.py"),), check=True, timeout=120):
    command = [MPIEXEC, "-n", str(ranks), sys.executable, *program, *map(str, arguments)]
    done = subprocess.run(
        command, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0 or not check, done.stderr
    return done
