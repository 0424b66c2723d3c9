"""Where the results of the experiments are kept: pieces, so that a run can be resumed, and finished figures."""

from __future__ import annotations

import datetime
import io
import json
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

import psgld
from psgld import _core

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = dict[str, Any]
"""Numbers, settings: serialisable as JSON."""


_COLOURS = 48
"""Colours of a plot in its file."""


@final
@dataclass(frozen=True)
class Outcome:
    """A finished figure: its numbers and settings, a paragraph about them, and the plot."""

    numbers: Record
    settings: Record
    paragraph: str
    figure: Figure


@final
class Folder:
    """A folder of results. `quick` runs use tiny sizes: they show that an experiment runs, not its numbers."""

    def __init__(self, path: Path, quick: bool = False, data: Path | None = None) -> None:
        self.path, self.quick, self.data = path, quick, data
        (path / "pieces").mkdir(parents=True, exist_ok=True)

    def choose(self, full: Any, quick: Any) -> Any:
        """Return the size to run at."""
        return quick if self.quick else full

    def piece(self, name: str, settings: Record, make: Callable[[], Record]) -> Record:
        """Return a piece of an experiment. It is made once for its settings and this version, and kept in a file."""
        file = self.path / "pieces" / f"{name}.json"
        settings = json.loads(json.dumps(settings))
        if file.is_file():
            kept: Record = json.loads(file.read_text(encoding="utf-8"))
            if (kept["settings"], kept["version"]) == (settings, psgld.__version__):
                return dict(kept["found"])
        print(f"  {name} …", flush=True)
        found, load = make(), round(os.getloadavg()[0], 1)
        record = {
            "settings": settings,
            "version": psgld.__version__,
            "found": found,
            "when": now(),
            "load": load,
        }
        beside = file.with_suffix(".new")
        beside.write_text(json.dumps(record, default=_plain), encoding="utf-8")
        beside.rename(file)
        return dict(json.loads(file.read_text(encoding="utf-8"))["found"])

    def write(self, name: str, outcome: Outcome) -> None:
        """Write the plot, the numbers and the paragraph of a figure."""
        record = {
            "figure": name,
            "date": now(),
            "machine": machine(),
            "quick": self.quick,
            "settings": outcome.settings,
            "numbers": outcome.numbers,
            "paragraph": outcome.paragraph,
        }
        text = json.dumps(record, indent=1, default=_plain, ensure_ascii=False)
        (self.path / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        (self.path / f"{name}.txt").write_text(outcome.paragraph + "\n", encoding="utf-8")
        _save(outcome.figure, self.path / f"{name}.png")


def _save(figure: Figure, path: Path) -> None:
    """Write a plot in a few colours, which makes the file small."""
    from PIL import Image  # matplotlib needs it, too

    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=80)
    Image.open(drawn).convert("RGB").quantize(_COLOURS).save(path, optimize=True)


def now() -> str:
    """Return the date and time, UTC."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def machine() -> Record:
    """Return the kind of machine, without its name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        processor = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        processor = platform.machine()
    return {
        "processor": processor,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "instruction set": _core.instruction_set,
        "load": round(os.getloadavg()[0], 1),
        "versions": {
            "psgld": psgld.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def _plain(x: Any) -> Any:
    return x.tolist() if isinstance(x, np.ndarray | np.generic) else str(x)
