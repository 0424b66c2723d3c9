"""Real data sets for the benchmarks: those of scikit-learn, and those in DIR as in `real_data.py`."""

from __future__ import annotations

import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import psgld

from . import real_data

Floats = NDArray[np.float64]


class Split(NamedTuple):
    """Entries to fit, and held-out ones: rows, columns, values."""

    train: psgld.Observations
    test: tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


def held_out(V: Any) -> Split:
    """Hold out a tenth of the observed entries, chosen at random."""
    train, (rows, cols, values) = psgld.observations(V).split(0.1, seed=0)
    return Split(train, (np.asarray(rows), np.asarray(cols), np.asarray(values)))


def table(name: str) -> Floats:
    """Return the table of features of a set that scikit-learn ships."""
    from sklearn import datasets

    return np.asarray(getattr(datasets, f"load_{name}")().data, np.float64)


def piano(folder: Path) -> Floats:
    """Return the power spectrogram of five seconds of piano, frames of 1,024 samples by 513 frequencies."""
    with wave.open(str(folder / "piano" / "bach846_bars1-2_fluidr3_mono22k_5s.wav")) as sound:
        x = np.frombuffer(sound.readframes(sound.getnframes()), np.int16) / 2**15
    frames = np.lib.stride_tricks.sliding_window_view(x, 1024)[::256] * np.hanning(1024)
    power = np.square(np.abs(np.fft.rfft(frames, axis=1)))
    return np.asarray(power + 1e-10 * power.max())


def words(folder: Path) -> Floats:
    """Return the counts of 1,000 posts of KOS, of words that occur five times: most are zero."""
    X = real_data.kos(folder).tocsr()[:1000].toarray().astype(np.float64)
    return np.asarray(X[:, X.sum(axis=0) >= 5])


def standardised(X: Floats) -> Floats:
    """Return the columns with mean 0 and standard deviation 1: their units differ."""
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0))


SETS: dict[str, Callable[[Path], Split]] = {
    "digits": lambda _: held_out(table("digits")),
    "diabetes": lambda _: held_out(table("diabetes")),
    "wine": lambda _: held_out(table("wine")),
    "wine, standardised": lambda _: held_out(standardised(table("wine"))),
    "breast cancer": lambda _: held_out(table("breast_cancer")),
    "iris": lambda _: held_out(table("iris")),
    "piano, magnitude": lambda folder: held_out(np.sqrt(piano(folder))),
    "piano, power": lambda folder: held_out(piano(folder)),
    "KOS, 1,000 posts": lambda folder: held_out(words(folder)),
    "KOS, word or not": lambda folder: held_out((words(folder) > 0).astype(np.float64)),
    "MovieLens-100K": lambda folder: held_out(real_data.movielens_100k(folder)),
    "MovieLens-1M": lambda folder: held_out(real_data.movielens_1m(folder)),
}
