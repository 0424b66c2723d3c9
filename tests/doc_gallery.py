"""Runs the Python blocks of a page in this directory: python doc_gallery.py PAGE."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")  # short chains
page = Path(sys.argv[1]).read_text(encoding="utf-8")
exec("\n".join(re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)), {})
