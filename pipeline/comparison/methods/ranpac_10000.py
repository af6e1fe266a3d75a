"""RanPAC with its authors' 10,000 projections; see `ranpac` for the method and what else departs from them.

With fewer than 10,000 rows the work is that of the rows' own Gram matrix, see `ranpac.Sums`.
"""

from __future__ import annotations

from pipeline.comparison.methods.ranpac import RidgeRegression

PROJECTIONS = 10_000  # M, the authors'
RANPAC = RidgeRegression("ranpac-10000", lambda: PROJECTIONS)
METHODS = RANPAC.methods()
