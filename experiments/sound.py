"""A short piano-like excerpt with known notes: decaying harmonics of a few pitches, added up."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RATE, WINDOW, HOP, SIZE = 8000, 510, 128, 256
"""Samples per second, samples per frame, samples between frames; frequencies and frames of the spectrogram."""


@final
class Note(NamedTuple):
    """A key that is struck: when and for how many seconds, and its MIDI number."""

    start: float
    length: float
    pitch: int


EXCERPT = tuple(
    Note(0.5 * beat, 0.8, pitch)
    for beat, chord in enumerate([(60,), (64,), (67,), (72,), (60, 67), (64, 71), (57, 64), (60, 64, 67)])
    for pitch in chord
)
"""Six pitches, first some alone, then in pairs and in a chord."""


def struck(pitch: int, length: float, seed: int = 0) -> Floats:
    """Return the sound of one key: harmonics that decay the faster the higher they are, slightly sharp."""
    rng, t = np.random.default_rng([seed, pitch]), np.arange(int(length * RATE)) / RATE
    base = 440.0 * 2.0 ** ((pitch - 69) / 12)
    out = np.zeros(len(t))
    for h in range(1, 16):
        f = h * base * np.sqrt(1 + 4e-4 * h * h)
        if f < 0.48 * RATE:
            loud = h**-1.1 * np.exp(-t * (1.5 + 0.5 * h)) * np.exp(0.3 * rng.standard_normal())
            out += loud * np.sin(2 * np.pi * f * t + 2 * np.pi * rng.random())
    ends = np.minimum(1.0, np.minimum(t, t[::-1]) / 0.01)  # 10 ms of attack and of release
    return np.asarray(out * ends)


def excerpt(notes: tuple[Note, ...] = EXCERPT) -> Floats:
    """Return the sound of notes, with a little noise, long enough for the spectrogram."""
    out = 1e-3 * np.random.default_rng(0).standard_normal((SIZE - 1) * HOP + WINDOW)
    for note in notes:
        first, sound = int(note.start * RATE), struck(note.pitch, note.length)[: len(out)]
        sound = sound[: len(out) - first]
        out[first : first + len(sound)] += sound
    return out


def magnitudes(x: Floats, window: int = WINDOW, hop: int = HOP) -> Floats:
    """Return |STFT|, (frequencies, frames), with a Hann window."""
    frames = np.lib.stride_tricks.sliding_window_view(x, window)[::hop] * np.hanning(window)
    return np.asarray(np.abs(np.fft.rfft(frames, axis=1)).T)


def alone(pitch: int) -> Floats:
    """Return the mean spectrum of a note on its own."""
    return np.asarray(magnitudes(struck(pitch, 0.8)).mean(axis=1))


def correlations(dictionary: Floats, spectra: Floats) -> Floats:
    """Return the correlation of each spectrum (a row) with each column of a dictionary."""
    both: Any = np.corrcoef(spectra, dictionary.T)
    return np.asarray(both[: len(spectra), len(spectra) :])


def matched(found: Floats) -> Floats:
    """Return the correlation of each note with its template, notes and templates paired one to one, best in sum."""
    from scipy.optimize import linear_sum_assignment

    rows, cols = linear_sum_assignment(-found)
    out = np.full(len(found), -1.0)
    out[rows] = found[rows, cols]
    return out
