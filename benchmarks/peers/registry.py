"""The peers: what to install, what each is fitted to, and with which settings.

Settings that are not listed are the peer's defaults. A variant with a `grid` is fitted to the validation part of the
training data with each of these settings, and then to all of it with the best.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from ..clicks import SEEDS, WEIGHTS

Settings = dict[str, Any]


@dataclass(frozen=True)
class Variant:
    """One way to fit a peer to problems of a kind; `only` names the problems if it is not for all of them."""

    kind: str
    name: str
    settings: Settings
    grid: tuple[Settings, ...] = ()
    only: tuple[str, ...] = ()


@dataclass(frozen=True)
class Peer:
    """`script` is in `fits/`; `requirements` are installed from the package index; None: the project's environment."""

    name: str
    script: str
    requirements: tuple[str, ...] | None
    variants: tuple[Variant, ...] = field(default=())
    most_seconds: float = math.inf
    """A limit of its own, for a peer that sometimes does not return."""


def _each(name: str, values: tuple[Any, ...]) -> tuple[Settings, ...]:
    return tuple({name: value} for value in values)


_SWEEPS = {"burnin": 20, "nsamples": 80}
_EPOCHS = {"epochs": [2, 5, 10, 20, 40, 60]}
_ALS = {"iterations": [1, 2, 5, 10]}
_VI = {"iterations": [10, 25, 50, 100]}
_KL = {"iterations": [10, 20, 50, 100, 200]}
_POSTERIOR = {"model": "fixed"}
_OFTEN = {"draws": 6000, "thin": 10}
"""As many iterations as by default, where draws are further apart than they are correlated."""

PSGLD = Peer(
    "psgld", "psgld", None,
    (
        Variant("ratings", "defaults", {"model": "gaussian", "sampler": "psgld"}),
        Variant(
            "ratings", "BPMF, φ = 1/1.5, PSGLD",
            {"model": "bpmf", "phi": 1 / 1.5, "sampler": "psgld", "tune": 1000, "draws": 100, "thin": 10},
        ),
        Variant(
            "ratings", "BPMF, φ = 1/1.5, Gibbs",
            {"model": "bpmf", "phi": 1 / 1.5, "sampler": "bpmf-gibbs", "tune": 20, "draws": 80, "thin": 1},
        ),
        Variant("counts", "defaults", {"model": "poisson", "sampler": "psgld"}),
        Variant(
            "counts", "best of gamma priors", {"model": "gamma priors", "sampler": "psgld"},
            _each("shape", (0.1, 0.3, 1.0)),
        ),
        Variant("posterior", "PSGLD", _POSTERIOR | {"sampler": "psgld"}),
        Variant("posterior", "PSGLD, thin = 10", _POSTERIOR | {"sampler": "psgld"} | _OFTEN),
        Variant(
            "posterior", "PSGLD, thin = 10, ε = 0.4", _POSTERIOR | {"sampler": "psgld", "step_size": 0.4} | _OFTEN
        ),
        Variant(
            "posterior", "Gibbs, thin = 1", _POSTERIOR | {"sampler": "gibbs", "draws": 5000, "thin": 1},
            only=("Poisson, 64 × 48",),
        ),
        Variant("clicks", "Bernoulli, biases", {"model": "Bernoulli, biases"}, _each("weight", WEIGHTS)),
        Variant(
            "clicks", "Poisson, GammaPrior(0.3)", {"model": "Poisson, GammaPrior(0.3)"}, _each("weight", WEIGHTS)
        ),
    ),
)  # fmt: skip

PEERS: tuple[Peer, ...] = (
    PSGLD,
    Peer(
        "SMURFF", "smurff", ("smurff>=1.1",),
        (
            Variant("ratings", "precision 1.5", {"precision": 1.5} | _SWEEPS),
            Variant("ratings", "precision sampled", {"precision": None} | _SWEEPS),
        ),
    ),
    Peer(
        "myFM", "myfm", ("myfm>=0.3.5", "numpy", "scipy"),
        (Variant("ratings", "defaults", _SWEEPS),),
    ),
    Peer(
        "LIBMF", "libmf", ("libmf>=0.9", "numpy"),
        (
            Variant("ratings", "defaults", {"penalty": None} | _EPOCHS),
            Variant("ratings", "best L2 penalty", _EPOCHS, _each("penalty", (0.03, 0.05, 0.1))),
        ),
        most_seconds=120.0,  # on two threads and little data, some fits wait for ever
    ),
    Peer(
        "cmfrec", "cmfrec", ("cmfrec>=3.5", "threadpoolctl", "setuptools<81"),
        (
            Variant("ratings", "defaults", {"penalty": None} | _ALS),
            Variant("ratings", "best λ", _ALS, _each("penalty", (5.0, 10.0, 20.0, 40.0))),
        ),
    ),
    Peer(
        "scikit-learn", "sklearn", ("scikit-learn>=1.5",),
        (
            Variant("counts", "KL, defaults", {"init": None, "floor": 0.0} | _KL),
            Variant(
                "counts", "KL, best of grid", {},
                tuple(
                    {"init": init, "floor": floor, "iterations": _KL["iterations"][:n]}
                    for init, floor, n in product(("nndsvda", "random"), (1e-2, 1e-3), (2, 3, 5))
                ),
            ),
        ),
    ),
    Peer(
        "hpfrec", "hpfrec", ("hpfrec>=0.2", "numpy", "pandas", "scipy"),
        (
            Variant("counts", "defaults", {"shape": None} | _VI),
            Variant("counts", "best of grid", _VI, _each("shape", (0.1, 0.3, 1.0))),
        ),
    ),
    Peer(
        "poismf", "poismf", ("poismf>=0.4", "setuptools<81"),
        (
            Variant("counts", "defaults", {"penalty": None} | _ALS),
            Variant("counts", "best of grid", _ALS, _each("penalty", (0.1, 1.0, 10.0, 100.0))),
        ),
    ),
    Peer(
        "NumPyro", "numpyro", ("numpyro>=0.15",),
        (Variant("posterior", "NUTS", {"warmup": 500, "samples": 1000}),),
    ),
    Peer(
        "implicit", "implicit", ("implicit>=0.7",),
        (Variant("clicks", "ALS", {"seeds": SEEDS}, _each("weight", WEIGHTS)),),
    ),
)  # fmt: skip


_BRIEF = {"sampler": "psgld", "tune": 60, "draws": 20, "thin": 2}
QUICK: tuple[Peer, ...] = (
    Peer(
        "psgld", "psgld", None,
        (
            Variant("ratings", "defaults", {"model": "gaussian"} | _BRIEF),
            Variant("counts", "best of gamma priors", {"model": "gamma priors"} | _BRIEF, _each("shape", (0.3,))),
        ),
    ),
    Peer(
        "scikit-learn", "sklearn", None,
        (Variant("counts", "KL", {"init": "nndsvda", "floor": 1e-2, "iterations": [5, 10]}),),
    ),
)  # fmt: skip
"""Tiny runs in the project's environment, to see that everything works; their figures mean nothing."""
