"""The paper's figure of audio: a dictionary of spectra, learnt from a short piano excerpt by PSGLD and by LD.

|STFT|, 256 × 256, K = 8, B = 8, 10,000 samples after a burn-in of 5,000
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

import psgld

from . import sound
from .folder import Folder, Outcome, Record
from .style import duration, label, panels

RANK, BLOCKS = 8, 8
SAMPLERS = {"PSGLD": psgld.PSGLD(BLOCKS), "LD": psgld.LD()}


def learn(sampler: Any, burn_in: int, samples: int) -> Record:
    """Return the mean dictionary of the samples, columns of sum 1, and the processor seconds of the iterations.

    Those are the difference from a run of a tenth of the length: set-up and diagnostics take as long in both.
    """
    short, _ = _drawn(sampler, burn_in // 10, samples // 10)
    used, post = _drawn(sampler, burn_in, samples)
    W = post.W[0].astype(np.float64)
    dictionary = (W / W.sum(axis=1, keepdims=True)).mean(axis=0)
    return {
        "dictionary": dictionary,
        "size": (W.sum(axis=1) * post.H[0].sum(axis=2)).mean(axis=0),
        "seconds": max(used - short, 0.0) / 0.9,
        "phi": float(post.draws.phi.mean()),
        "step_size": float(post.sample_stats["step_size"][0, -1]),
    }


def _drawn(sampler: Any, burn_in: int, samples: int) -> tuple[float, psgld.Posterior]:
    """Return the processor seconds of a run, and its posterior: 200 draws, or fewer."""
    V = sound.magnitudes(sound.excerpt())
    model = psgld.FactorModel(RANK, psgld.Poisson(phi=None))
    draws = min(200, samples)
    used = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        post = psgld.sample(
            V, model, sampler=sampler, engine=psgld.Threads(1), tune=burn_in, draws=draws, thin=samples // draws,
            chains=1, progress=False,
        )  # fmt: skip
    return time.process_time() - used, post


def sparsity(dictionary: Any) -> float:
    """Return the mean of Hoyer's measure over the columns: 0 if all entries are equal, 1 if only one is not 0."""
    x = np.asarray(dictionary)
    root = np.sqrt(len(x))
    return float(((root - np.abs(x).sum(0) / np.sqrt((x**2).sum(0))) / (root - 1)).mean())


def run(folder: Folder) -> Outcome:
    """Learn both dictionaries, and score their columns against the notes."""
    burn_in, samples = folder.choose((5_000, 10_000), (100, 100))
    pitches = sorted({note.pitch for note in sound.EXCERPT})
    spectra = np.array([sound.alone(pitch) for pitch in pitches])
    found, numbers = {}, {}
    for name, sampler in SAMPLERS.items():
        settings = {"burn_in": burn_in, "samples": samples, "sampler": repr(sampler), "notes": sound.EXCERPT}
        one = folder.piece(
            f"audio-{name}", settings, lambda sampler=sampler: learn(sampler, burn_in, samples)
        )
        found[name] = one
        scores = sound.matched(sound.correlations(np.array(one["dictionary"]), spectra))
        numbers[name] = {
            "processor seconds": one["seconds"],
            "sparsity of the dictionary": sparsity(one["dictionary"]),
            "correlation with each note": dict(zip(map(str, pitches), scores.tolist(), strict=True)),
            "phi": one["phi"],
        }
    return Outcome(
        numbers,
        {"rank": RANK, "blocks": BLOCKS, "burn_in": burn_in, "samples": samples, "likelihood": "Poisson, phi learnt"},
        _text(numbers, burn_in + samples), _draw(found),
    )  # fmt: skip


def _text(numbers: Record, iterations: int) -> str:
    a, b = numbers["PSGLD"], numbers["LD"]
    good = {
        name: sum(r >= 0.9 for r in one["correlation with each note"].values())
        for name, one in numbers.items()
    }
    notes = len(a["correlation with each note"])
    ratio = b["processor seconds"] / max(a["processor seconds"], 1e-9)
    return (
        f"The paper saw both samplers learn dictionaries of harmonic spectra from a piano excerpt, PSGLD in a small "
        f"fraction of the time of LD. Its excerpt is not available: ours is rendered ({notes} pitches). We see for "
        f"{iterations:,} iterations on one thread: PSGLD {duration(a['processor seconds'])}, LD "
        f"{duration(b['processor seconds'])} ({ratio:.1f} × as long); sparsity of the dictionaries (Hoyer) "
        f"{a['sparsity of the dictionary']:.2f} and {b['sparsity of the dictionary']:.2f}; notes whose own spectrum a "
        f"template matches with correlation >= 0.9: {good['PSGLD']} and {good['LD']} of {notes}."
    )


def _draw(found: Record) -> Any:
    figure, axes = panels(1, 3, 3.6, 3.4)
    V = sound.magnitudes(sound.excerpt())
    low = 60.0
    extent = (0, sound.SIZE * sound.HOP / sound.RATE, 0, sound.RATE / 2000)

    def level(x: Any) -> Any:
        return 20 * np.log10(np.maximum(x / x.max(), 10 ** (-low / 20)))

    axes[0, 0].imshow(level(V), origin="lower", aspect="auto", cmap="cividis", extent=extent)
    label(axes[0, 0], "the excerpt, |STFT| in dB", "seconds", "kHz")
    for axis, (name, one) in zip(axes[0, 1:], found.items(), strict=True):
        W = np.array(one["dictionary"])
        W = W[:, np.argsort((W * np.arange(len(W))[:, None]).sum(axis=0))]
        axis.imshow(level(W / W.max(axis=0)), origin="lower", aspect="auto", cmap="cividis", interpolation="nearest",
                    extent=(0.5, RANK + 0.5, 0, sound.RATE / 2000))  # fmt: skip
        label(axis, f"{name}: dictionary, {duration(one['seconds'])}", "template, by its centre", "kHz")
        axis.set_xticks(range(1, RANK + 1))
        for k in range(1, RANK):
            axis.axvline(k + 0.5, color="white", lw=1.5)
    figure.get_layout_engine().set(wspace=0.06)
    return figure
