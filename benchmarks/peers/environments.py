"""An environment of its own for each peer, made from the package index on demand, in `build/peers/NAME`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "peers"
_PATIENCE = 3600.0
"""Seconds that an installation may take: some peers are compiled."""


class NotInstalledError(Exception):
    """A peer cannot be installed on this machine; the message says why."""


def python_of(name: str, requirements: Sequence[str]) -> Path:
    """Return the interpreter that has a peer; make its environment if there is none with these requirements.

    A failure is recorded, so that the next run does not compile in vain; remove the folder to try again.
    """
    folder = FOLDER / name
    stamp, python = folder / "installed.json", folder / "bin" / "python"
    done = _read(stamp)
    if done.get("requirements") != list(requirements):
        done = {"requirements": list(requirements), "failure": _install(folder, requirements)}
        stamp.write_text(json.dumps(done))
    if done["failure"]:
        raise NotInstalledError(done["failure"])
    return python


def _install(folder: Path, requirements: Sequence[str]) -> str:
    """Make the environment, and return why that failed, or an empty string."""
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for command in ([sys.executable, "-m", "venv", "--clear", str(folder)], [*pip, *requirements]):
            done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
            if done.returncode:
                return _reason(done.stderr)
    except subprocess.TimeoutExpired:
        return f"not installed within {_PATIENCE:.0f} s"
    return ""


def _reason(printed: str) -> str:
    """Return the line that names the error."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["pip failed without a message"])[-1][:300]


def _read(stamp: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(stamp.read_text()))
    except (OSError, ValueError):
        return {}
