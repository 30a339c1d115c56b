"""Shared by the tests that judge the program from outside."""

import functools
import os
import pathlib
import shutil
import subprocess
import time

import pytest

FIXTURES = pathlib.Path(__file__).parent.parent / "fixtures"


def is_written(path):
    return path.exists() and path.stat().st_size > 0


def stopped(start, number, out, is_under_way, pause=0):
    """The status, output and messages of the process of start() that got a signal `pause` seconds after it was under
    way; again where a busy machine let it come to its end and to `out`."""
    for _ in range(5):
        process = start()
        while process.poll() is None and not is_under_way():
            time.sleep(0.002)
        time.sleep(pause)
        process.send_signal(number)
        printed, messages = process.communicate(timeout=600)
        if process.returncode != 0:
            return process.returncode, printed, messages
        shutil.rmtree(out)
    pytest.fail("the work was over too soon")


@pytest.fixture(scope="session")
def regauge():
    """Runs the program named by the environment variable REGAUGE."""
    program = os.environ.get("REGAUGE")
    if not program:
        pytest.fail("set REGAUGE to the built program")

    def run(*arguments, expect=0):
        result = subprocess.run(
            [program, *map(str, arguments)], capture_output=True, text=True, check=False
        )
        expected = expect if isinstance(expect, set) else {expect}
        assert result.returncode in expected, result.stdout + result.stderr
        return result

    class Regauge:
        """Called with arguments, gives standard output; `messages` gives standard error."""

        def __call__(self, *arguments, expect=0):
            return run(*arguments, expect=expect).stdout

        def messages(self, *arguments):
            return run(*arguments).stderr

    return Regauge()


@pytest.fixture(scope="session")
def lab(regauge):
    """`regauge lab`, for a program that has it."""
    beside = pathlib.Path(shutil.which(os.environ["REGAUGE"]) or "").resolve().parent
    if not (beside / "regauge-lab").exists():
        pytest.skip("REGAUGE was built without the lab (-DREGAUGE_WITH_LAB=ON)")
    return functools.partial(regauge, "lab")


@pytest.fixture(scope="session")
def data():
    """The folder of data sets and trained checkpoints; docs/lab.md says what is in it."""
    folder = os.environ.get("REGAUGE_DATA")
    if not folder:
        pytest.skip("set REGAUGE_DATA to the folder of data sets (docs/lab.md)")
    return pathlib.Path(folder)
