"""Writes a report page per case of `report_cases.py` into a folder, and prints their paths: python make.py FOLDER."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from report_cases import CASES

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
warnings.simplefilter("ignore")  # short chains
for name, case in CASES.items():
    posterior, test, data = case()
    posterior.report(folder / f"{name}.html", test, data, f"Report: {name}")
    print(folder / f"{name}.html")
