"""What a posterior shows to readers: its components, what explains a prediction, a page to share."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

from ..runs.result import Result

if TYPE_CHECKING:
    from .components import Components
    from .explain import Explanation


class Views(Result):
    """A result with methods that explain it; `Posterior` adds those that compute with it."""

    def components(self, n: int = 10, level: float = 0.9) -> Components:
        """Return the components, aligned across draws and chains, with their n largest loadings and intervals.

        W H = Σ_k w_k h_kᵀ is not changed: components are scaled and matched to their mean (Hungarian algorithm);
        real-valued ones are first turned to the principal axes of W H.

        Examples
        --------
        >>> import psgld
        >>> V = psgld.datasets.synthetic(40, 30, 3, "poisson").V
        >>> found = psgld.sample(V, psgld.FactorModel(3, "poisson"), draws=50).components(n=2)
        >>> len(found), found[0].cols.labels.shape, found.band("cols").mean.shape
        (3, (2,), (3, 30))
        """
        from .components import components  # here and below, so that `import psgld` is quick

        return components(self, n, level)

    def explain(self, row: Any, col: Any, data: Any = None, n: int = 10, level: float = 0.9) -> Explanation:
        """Return what explains a prediction: the components, the biases, and n of the row's own entries.

        The effect of an entry is the change of the mean if it were left out. That needs the values of the entries:
        `data`, what was sampled. Without, it is the change per unit of its value.
        """
        from .explain import explain

        return explain(self, row, col, data, n, level)

    def report(
        self, path: str | PathLike[str], test: Any = None, data: Any = None, title: str | None = None
    ) -> dict[str, Any]:
        """Write a page to share, one HTML file that needs no network; return what was written.

        It has the verdict in plain words, accuracy and calibration, the components, a look-up of rows with their best
        columns and the reasons, and the traces. Accuracy is that of held-out entries, `test`, in any form that
        `log_predictive_density` takes, or of `split`; without, that of `data`, what was sampled. With `data`, reasons
        name the values of a row's own entries.
        """
        from .report import write_report

        return write_report(self, path, test, data, title)

    def to_anndata(self, adata: Any, key: str = "psgld", level: float = 0.9) -> Any:
        """Write the aligned components to an AnnData object, by the names of its cells and genes; return it.

        `.obsm["X_psgld"]` has the loadings of the rows, (cells, K), `.varm["psgld"]` those of the columns, each with
        `…_low` and `…_high`, the ends of their intervals; `.uns["psgld"]` has share and stability of each component.
        """
        from .anndata import to_anndata

        return to_anndata(self, adata, key, level)
