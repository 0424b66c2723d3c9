"""Which model: by predictions of held-out entries, by the marginal likelihood."""

from .comparison import compare as compare
from .comparison import usual_model as usual_model
from .evidence import MarginalLikelihood as MarginalLikelihood
from .evidence import marginal_likelihood as marginal_likelihood
from .rank import select_rank as select_rank
