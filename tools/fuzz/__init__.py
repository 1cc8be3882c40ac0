"""Damaged and hostile input for every reader, each read in a process with limits: `make fuzz SECONDS=600`.

Every input is a folder: a copy of a small valid one (a seed), of which one file has been changed. Input number i of a
kind depends on the seed of the run and on i alone, so that a finding can be made again.

    kind.py, kinds/        seeds of one kind of input, changes that know its format, and how it is read
    mutations.py, odd.py   changes that know no format; values that no writer writes
    process.py, guard.py   limits of a process: memory, time, folders that it may write to
    worker.py, driver.py   a batch of inputs in one process; batches of all kinds until the time is over
    forked.py              other processes: seeds, single inputs, why a process has ended
    findings.py, report.py what was found, the smallest input of each; one page about the run
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
for _folder in (
    ROOT / "tests",
    ROOT / "tests" / "features",
):  # pictures, collections and networks of the tests are seeds
    if str(_folder) not in sys.path:
        sys.path.append(str(_folder))
