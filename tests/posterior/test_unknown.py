"""Labels that the data did not have: said with the remedy, or drawn from the prior."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import kstest

import psgld
from psgld.datasets import ratings


@pytest.fixture(scope="module")
def counts():
    V = np.random.default_rng(0).poisson(3.0, (20, 10)).astype(float)
    return psgld.sample(
        V, psgld.FactorModel(2, "poisson", psgld.Exponential()), draws=40, tune=200, thin=2, progress=False
    )


@pytest.fixture(scope="module")
def stars():
    data = ratings(users=60, items=40, entries=900)
    return psgld.sample(
        data.V, psgld.FactorModel(2, "gaussian", bias=True), draws=40, tune=200, thin=2, progress=False
    )


def test_known_pairs_keep_their_bits(counts):
    known, mixed = counts.predict([1, 2], [3, 4]), counts.predict([1, 99, 2], [3, 3, 4], fallback="prior")
    assert np.array_equal(known.draws, mixed.draws[:, [0, 2]])
    assert np.array_equal(known.new_draws(), mixed.new_draws()[:, [0, 2]])
    assert mixed.row_labels.tolist() == [1, 99, 2] and counts.shape == (20, 10)


def test_an_unknown_row_is_a_draw_from_the_prior(counts):
    """w / rate is a standard exponential; the column's factors are its draws."""
    grown = psgld.posterior.unknown.with_unknown(counts, 0, np.arange(100, 150), 0)[0]
    w = grown.draws.W[:, :, 20:] * grown.draws.row_rate[:, :, None, :]
    assert kstest(w.ravel()[::3], "expon").pvalue > 0.01
    assert np.array_equal(grown.draws.H, counts.draws.H)


def test_biases_come_from_their_prior(stars):
    every = stars.predict("nobody", stars.col_labels, fallback="prior")
    assert every.sd.mean() > 1.5 * stars.predict("user-1").sd.mean()  # of user-1, something is known
    assert set(every.row_labels) == {"nobody"} and every.col_labels.tolist() == stars.col_labels.tolist()
    p = stars.predict("nobody", "nothing", fallback="prior")
    assert abs(p.mean[0] - stars.draws.offset.mean()) < 4 * p.sd[0] / np.sqrt(80)


def test_the_remedy_is_named(counts, stars):
    with pytest.raises(psgld.DataError, match=r"unknown row.*fold_in.*fallback"):
        counts.predict([20], [0])
    with pytest.raises(psgld.DataError, match=r"unknown row.*fold_in"):
        stars.recommend("nobody")
    with pytest.raises(psgld.DataError, match='fallback must be None or "prior", got True'):
        counts.predict([0], [0], fallback=True)


@pytest.mark.parametrize("nothing", [np.full((3, 10), np.nan), csr_array((3, 10))], ids=["dense", "sparse"])
def test_rows_without_entries_are_folded_in(counts, nothing):
    new = counts.fold_in(nothing)
    assert new.shape == (3, 10) and (new.W > 0).all()
    assert new.recommend([0], n=4).cols.shape == (1, 4)


def test_new_rows_and_new_columns_have_noise_of_their_own(counts):
    """Row n and column n, folded in with the same seed, are independent given the rest."""
    both = counts.fold_in(np.full((60, 10), np.nan)).fold_in(np.full((60, 60), np.nan), "cols")
    w, h = (x.reshape(80, 60, 2) for x in (both.W, both.H.swapaxes(-1, -2)))
    w, h = (
        x * rate.reshape(80, 1, 2)
        for x, rate in zip((w, h), (both.draws.row_rate, both.draws.col_rate), strict=True)
    )
    assert abs(np.corrcoef(w.ravel(), h.ravel())[0, 1]) < 0.05
