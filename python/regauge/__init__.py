"""The parameter symmetries of Transformers.

A Transformer's weights are one of infinitely many settings with the same function. Regauge knows
that group exactly, and uses it to tell whether two checkpoints are the same model and to bring one
into the coordinates of the other.

    >>> import regauge
    >>> model = regauge.open("path/to/model")
    >>> model.symmetry
    >>> moved = regauge.act(model, model.symmetry.random_element(seed=1))
    >>> regauge.diff(model, moved)
"""

from . import testing
from ._align import Alignment, Barrier, Objective, align, barrier
from ._core import Cancelled, CorruptFile, Error, Factor, FileError, UsageError, version
from ._diff import Cause, Diagnosis, Diff, TensorResidual, Verification, diff, verify
from ._group import Element, Symmetry, symmetry_of
from ._model import Model, Parameters, from_state_dict, open, register
from ._progress import Progress, tqdm_progress
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
    "from_state_dict",
    "open",
    "register",
    "symmetry_of",
    "testing",
    "tqdm_progress",
    "verify",
]
