"""The program answers at once: no library is loaded, no thread started, before it is needed."""

import os
import subprocess


def processor_seconds():
    """Of a start of the program; others on the machine make it wait, not work."""
    with subprocess.Popen([os.environ["REGAUGE"], "--help"], stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime


def test_help_starts_within_ten_milliseconds():
    times = [processor_seconds() for _ in range(30)]
    assert min(times) < 0.010, times
