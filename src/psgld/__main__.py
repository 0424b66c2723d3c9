"""`python -m psgld` is `psgld`."""

from .cli import main

raise SystemExit(main())
