"""Are the notes of a piano found? `python -m benchmarks.piano DIR`, with DIR/piano/four_notes_pairs_fluidr3.wav and its
notes.

Four notes sound together, then in all pairs, never alone. |STFT| ≈ W H with the default settings, K = 4, 5 and 8,
five seeds: each note should be matched by a template (a column of W) of correlation >= 0.9 with the note's own. That
one is learnt with the notes known: by multiplicative updates for the Kullback–Leibler divergence, with one template per
note that is silent wherever its note does not sound.
"""

from __future__ import annotations

import argparse
import time
import warnings
import wave
from pathlib import Path
from typing import Any

import numpy as np
from experiments.sound import correlations, magnitudes, matched
from numpy.typing import NDArray

import psgld

from .harness import Row

Floats = NDArray[np.float64]

_NAME, _SHARE, _WINDOW, _HOP = "four_notes_pairs_fluidr3", 4, 1024, 512
_ENOUGH, _SEEDS = 0.9, 5
_RANKS = 4, 5, 8
"""With five templates, one can be that of the quiet background, which counts as much as notes unless it is Poisson."""

_FLOOR = 1e-4
"""Added to all magnitudes, relative to the largest: `Gamma()` takes no zeros, which silence has."""

_RING = 0.3
"""Seconds that a note sounds after its key is released."""


def recording(folder: Path) -> tuple[Floats, Floats]:
    """Return |STFT| of the recording, and for each note and frame whether it sounds."""
    with wave.open(str(folder / "piano" / f"{_NAME}.wav")) as sound:
        rate, channels = sound.getframerate(), sound.getnchannels()
        x = np.frombuffer(sound.readframes(sound.getnframes()), np.int16) / 2**15
    x = x.reshape(-1, channels).mean(axis=1)
    x = (
        x[: len(x) // _SHARE * _SHARE].reshape(-1, _SHARE).mean(axis=1)
    )  # a lower rate: these notes have little above
    rate /= _SHARE
    V = magnitudes(x, _WINDOW, _HOP)
    notes = np.loadtxt(folder / "piano" / f"{_NAME}_notes.csv", delimiter=",", skiprows=1)
    at = (np.arange(V.shape[1]) * _HOP + [[0], [_WINDOW]]) / rate  # begin and end of the frames
    pitches = np.unique(notes[:, 2])
    sounds = [
        np.any([(at[1] > s) & (at[0] < s + n + _RING) for s, n, p, _ in notes if p == pitch], axis=0)
        for pitch in pitches
    ]
    return V + _FLOOR * V.max(), np.array(sounds, float)


def known(V: Floats, sounds: Floats, updates: int = 300) -> tuple[Floats, Floats]:
    """Return the spectra of the notes, (frequencies, notes), learnt where they sound, and their activations."""
    rng = np.random.default_rng(0)
    W, H = rng.random((V.shape[0], len(sounds))) + 0.5, sounds * (rng.random((len(sounds), V.shape[1])) + 0.5)
    for _ in range(updates):
        H *= W.T @ (V / np.maximum(W @ H, 1e-12)) / W.sum(axis=0)[:, None]
        W *= (V / np.maximum(W @ H, 1e-12)) @ H.T / H.sum(axis=1)
    return W, H


def scores(post: psgld.Posterior, spectra: Floats) -> tuple[float, float]:
    """Return the least correlation of a note with its template, in the last draw of the best chain, and of any."""
    least = [float(matched(correlations(W[-1].astype(float), spectra)).min()) for W in post.W]
    return least[int(post.sample_stats["lp"].mean(axis=1).argmax())], min(least)


def found(V: Floats, spectra: Floats, model: psgld.FactorModel, about: str, **options: Any) -> Row:
    """Return in how many seeds all notes are found, in the chain of the largest lp."""
    begin, least = time.process_time(), []
    for seed in range(_SEEDS):
        post = psgld.sample(V, model, seed=seed, progress=False, **options)
        least.append(scores(post, spectra))
    seconds = (time.process_time() - begin) / _SEEDS
    best, every = zip(*least, strict=True)
    best_of, least_of = ([round(r, 2) for r in one] for one in (best, every))
    note = f"least correlation {best_of}, in any chain {least_of}, {seconds:.1f} s of the processor per run"
    good = sum(r >= _ENOUGH for r in best)
    return Row(f"four notes, {about}: seeds with all notes", good, _SEEDS, least=True, note=note)


def beyond_the_notes(V: Floats, W: Floats, H: Floats) -> Row:
    """Compare the log likelihood of default chains with that of a chain which starts at the notes and stays there."""
    model = psgld.FactorModel(len(H), psgld.Gamma())
    notes, free = (
        psgld.sample(V, model, progress=False, **options)
        for options in ({"start": (W, np.maximum(H, 1e-6 * H.max())), "chains": 1}, {})
    )
    levels = [float(psgld.log_likelihood(post, V).mean(axis=1).max()) for post in (free, notes)]
    least, _ = scores(notes, W.T)
    note = f"{levels[0]:,.0f}, {levels[1]:,.0f}; the chain from the notes keeps them, least correlation {least:.2f}"
    return Row(
        "four notes, K = 4, gamma: log likelihood by default - notes'", levels[0] - levels[1], note=note
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.piano", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    V, sounds = recording(args.folder)
    W, H = known(V, sounds)
    spectra = W.T
    print(beyond_the_notes(V, W, H), flush=True)
    for likelihood in (psgld.Poisson(phi=None), psgld.Gamma(), psgld.CompoundPoisson()):
        for rank in _RANKS:
            model, name = psgld.FactorModel(rank, likelihood), likelihood.name
            for starts in (None, 8):
                about = f"K = {rank}, {name}{'' if starts is None else f', {starts} starts'}"
                row = found(V, spectra, model, about, starts=starts)
                print(row, flush=True)
                if row.ok:
                    break


if __name__ == "__main__":
    main()
