"""The program answers at once: no library is loaded, no thread started, before it is needed."""

import os
import subprocess
import time


def test_help_starts_within_ten_milliseconds():
    times = []
    for _ in range(30):
        begin = time.perf_counter()
        subprocess.run([os.environ["REGAUGE"], "--help"], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - begin)
    assert min(times) < 0.010, times
