"""Are two checkpoints the same model, and if not, what broke?

A Transformer's weights are one of infinitely many settings with the same function. Regauge knows
the exact group of these settings, and uses it to find out whether two checkpoints are the same
model, and to bring one into the coordinates of the other.

    >>> import regauge
    >>> found = regauge.diff("original", "converted")
    >>> found.same, found.statement
    >>> print(found)
"""

from . import testing
from ._align import Alignment, Objective, align
from ._barrier import Barrier, barrier, plot
from ._core import Cancelled, CorruptFile, Error, Factor, FileError, UsageError, version
from ._diff import Cause, Diagnosis, Diff, TensorResidual, Verification, diff, verify
from ._group import Element, Symmetry, symmetry_of
from ._model import Model, Parameters, from_checkpoint, from_state_dict, open, register
from ._progress import Progress, tqdm_progress
from ._records import records
from ._rewrite import act, canon, convert, fold

__version__ = version()

__all__ = [
    "Alignment",
    "Barrier",
    "Cancelled",
    "Cause",
    "CorruptFile",
    "Diagnosis",
    "Diff",
    "Element",
    "Error",
    "Factor",
    "FileError",
    "Model",
    "Objective",
    "Parameters",
    "Progress",
    "Symmetry",
    "TensorResidual",
    "UsageError",
    "Verification",
    "__version__",
    "act",
    "align",
    "barrier",
    "canon",
    "convert",
    "diff",
    "fold",
    "from_checkpoint",
    "from_state_dict",
    "open",
    "plot",
    "records",
    "register",
    "symmetry_of",
    "testing",
    "tqdm_progress",
    "verify",
]
