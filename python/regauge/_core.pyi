from collections.abc import Callable, Mapping, Sequence
import os
from typing import Annotated, Any

import numpy
from numpy.typing import NDArray


def version() -> str: ...

def run_command_line(arguments: Sequence[str]) -> int: ...

class Error(Exception):
    """Everything that goes wrong; the message says what to do."""

class FileError(Error):
    """A file that cannot be opened, read or written."""

class UsageError(Error):
    """
    An argument, a description or a request that cannot be carried out as asked.
    """

class CorruptFile(Error):
    """A file that fails a check."""

class Cancelled(Error):
    """The user asked a long job to stop."""

class Architecture:
    @staticmethod
    def from_json(arg: str, /) -> Architecture: ...

    def to_json(self) -> str: ...

    @property
    def parameter_count(self) -> int: ...

    @property
    def parameter_names(self) -> list[str]: ...

class Model:
    @property
    def path(self) -> str: ...

    @property
    def family(self) -> str: ...

    @property
    def format(self) -> str: ...

    @property
    def config(self) -> str: ...

    @property
    def architecture(self) -> Architecture: ...

    @property
    def unclaimed(self) -> list[str]: ...

    @property
    def unread(self) -> list[str]: ...

    @property
    def not_understood(self) -> dict[str, str]: ...

    @property
    def tensor_names(self) -> list[str]: ...

    def tensor(self, name: str) -> object: ...

    def place(self, parameter: str) -> tuple[str, bool, int, float, list[int]]: ...

    def read(self, parameter: str) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]: ...

    def read_double(self, parameter: str) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None))]: ...

class Checkpoint:
    def __init__(self, folder: str | os.PathLike[str]) -> None: ...

    @property
    def tensor_names(self) -> list[str]: ...

    def shape(self, name: str) -> list[int]: ...

    def dtype(self, name: str) -> str: ...

    def numbers(self, name: str, first: int, count: int) -> object: ...

def open(path: str | os.PathLike[str]) -> Model: ...

def register(file: str | os.PathLike[str]) -> None: ...

def register_text(text: str) -> None: ...

def from_tensors(tensors: Mapping[str, Annotated[NDArray[Any], dict(order='C', device='cpu', writable=False)]], made: Mapping[str, tuple[str, Sequence[int], Callable[[], object]]], config: str) -> Model: ...

class Factor:
    @property
    def name(self) -> str: ...

    @property
    def category(self) -> str: ...

    @property
    def group(self) -> str: ...

    @property
    def times(self) -> int: ...

    @property
    def dimension(self) -> int: ...

    @property
    def log2_components(self) -> float: ...

class Space:
    """A coordinate system of the model, and what may act on it."""

    @property
    def name(self) -> str: ...

    @property
    def count(self) -> int: ...

    @property
    def width(self) -> int: ...

    @property
    def group(self) -> str: ...

class Symmetry:
    @property
    def architecture(self) -> Architecture: ...

    @property
    def dimension(self) -> int: ...

    @property
    def log2_components(self) -> float: ...

    @property
    def factors(self) -> list[Factor]: ...

    @property
    def spaces(self) -> list[Space]: ...

    def element(self, maps: Mapping[str, tuple[Sequence[int], Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)]]], shifts: Mapping[str, Sequence[float]]) -> Element: ...

    def identity(self) -> Element: ...

    def random_element(self, seed: int, only: Sequence[str] | None = None) -> Element: ...

    def load_element(self, path: str | os.PathLike[str]) -> Element: ...

def symmetry_of(architecture: Architecture) -> Symmetry: ...

class Element:
    @property
    def symmetry(self) -> Symmetry: ...

    @property
    def is_identity(self) -> bool: ...

    @property
    def maps(self) -> dict[str, tuple[list[int], Annotated[NDArray[numpy.float64], dict(shape=(None, None))]]]: ...

    @property
    def shifts(self) -> dict[str, Annotated[NDArray[numpy.float64], dict(shape=(None, None))]]: ...

    def inverse(self) -> Element: ...

    def __mul__(self, arg: Element, /) -> Element: ...

    def distance(self, arg: Element, /) -> float: ...

    def save(self, path: str | os.PathLike[str]) -> None: ...

def act(model: Model, element: Element, output: str | os.PathLike[str] | None = None, dtype: str | None = None, progress: object | None = None) -> Model: ...

def fold_element(model: Model, symmetry: Symmetry, biases: bool = True, centring: bool = False, progress: object | None = None) -> Element: ...

def canon_element(model: Model, symmetry: Symmetry, progress: object | None = None) -> tuple[Element, list[str]]: ...

def convert(model: Model, format: str, family: str | None = None, output: str | os.PathLike[str] | None = None, dtype: str | None = None, progress: object | None = None) -> Model: ...

class TensorResidual:
    """One tensor of A against the same of B in A's coordinates."""

    @property
    def tensor(self) -> str: ...

    @property
    def size(self) -> float:
        """root mean square of A's tensor"""

    @property
    def residual(self) -> float:
        """root mean square of the difference"""

    @property
    def rounding(self) -> float:
        """of that, what rounding explains"""

    @property
    def excess(self) -> float:
        """in units of what is accepted"""

    @property
    def standing_out(self) -> str:
        """the row, column, entry or direction"""

    @property
    def relation(self) -> str: ...

    @property
    def agrees(self) -> bool: ...

    def __repr__(self) -> str: ...

class Cause:
    """A known mistake that explains a difference."""

    @property
    def mistake(self) -> str: ...

    @property
    def sentence(self) -> str:
        """what was done, where"""

    @property
    def repair(self) -> str:
        """what undoes it; empty where nothing in the files does"""

    @property
    def tensors(self) -> list[str]: ...

    def __repr__(self) -> str: ...

class Diagnosis:
    """Why B is not A, which is taken as right."""

    @property
    def causes(self) -> list[Cause]: ...

    @property
    def certain(self) -> bool:
        """with all causes undone, B is the same as A"""

    @property
    def moved(self) -> bool:
        """besides, B stands in other coordinates"""

    @property
    def repairable(self) -> bool: ...

    def __repr__(self) -> str: ...

class Verification:
    """Whether a certificate holds."""

    @property
    def holds(self) -> bool: ...

    @property
    def problems(self) -> list[str]: ...

    @property
    def residuals(self) -> list[TensorResidual]: ...

    def __bool__(self) -> bool: ...

    def __repr__(self) -> str: ...

class Comparison:
    @property
    def verdict(self) -> str: ...

    @property
    def statement(self) -> str: ...

    @property
    def sentence(self) -> str: ...

    @property
    def grounds(self) -> str: ...

    @property
    def reasons(self) -> list[str]: ...

    @property
    def declarations(self) -> list[str]: ...

    @property
    def not_compared(self) -> list[str]: ...

    @property
    def movements(self) -> list[tuple[str, str]]: ...

    @property
    def residuals(self) -> list[TensorResidual]: ...

    @property
    def diagnosis(self) -> Diagnosis: ...

    @property
    def explanation(self) -> list[str]: ...

    @property
    def a_from_b(self) -> Element: ...

    def save_certificate(self, path: str | os.PathLike[str], in_toto: str | os.PathLike[str] | None = None, progress: object | None = None) -> None: ...

    def save_page(self, path: str | os.PathLike[str]) -> None: ...

    def repair(self, path: str | os.PathLike[str], progress: object | None = None) -> Model: ...

def diff(a: Model, b: Model, progress: object | None = None) -> Comparison: ...

def diff_part(a: str | os.PathLike[str], b: str | os.PathLike[str], part: int, of: int, made: Sequence[str]) -> str: ...

def diff_joined(a: str | os.PathLike[str], b: str | os.PathLike[str], made: Sequence[str], progress: object | None = None) -> Comparison: ...

def verify(a: Model, b: Model, certificate: str | os.PathLike[str], progress: object | None = None) -> Verification: ...

def align(a: Model, b: Model, method: str, scope: str, seed: int, iterations: int, starts: int, progress: object | None = None) -> tuple[Element, str]: ...

def learn(a: Model, b: Model, start: Element, objective: object, settings: str, scope: str, checkpoint: str | os.PathLike[str], progress: object | None = None) -> tuple[Element, str]: ...
