"""python -m tools.fuzz --seconds 600 [--seed 0] [--only pictures models] [--jobs 2] [--keep build/fuzz/findings]."""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")  # before NumPy is imported: threads do not survive a fork

from tools.fuzz.driver import Driver, Plan  # noqa: E402
from tools.fuzz.findings import INPUT, Findings, load  # noqa: E402
from tools.fuzz.forked import again  # noqa: E402
from tools.fuzz.kinds import KINDS  # noqa: E402
from tools.fuzz.process import Limits  # noqa: E402
from tools.fuzz.report import Shown, about, report  # noqa: E402

KEEP = Path("build/fuzz/findings")


def main() -> int:
    given = _arguments()
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=given.work) as work:
        if given.again is not None:
            return _show_again(given.again, Path(work))
        return _run(given, Path(work))


def _run(given: argparse.Namespace, work: Path) -> int:
    import sklearn.cluster  # noqa: F401  (once here, and not in each process that is forked)

    plan = Plan(given.seed, None if given.inputs else given.seconds, given.inputs, given.jobs)
    findings = Findings(given.keep)
    driver = Driver([KINDS[name] for name in given.only], plan, work, findings)
    start = time.monotonic()
    try:
        driver.run(Shown())
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    findings.close()
    text = report(driver, time.monotonic() - start)
    given.keep.mkdir(parents=True, exist_ok=True)
    (given.keep / "report.txt").write_text(text + "\n")
    print(text)
    return 1 if findings.all else 0


def _show_again(folder: Path, work: Path) -> int:
    finding = load(folder)
    outcome = again(KINDS[finding.kind], folder / INPUT, work, Limits())
    print(*about(finding, folder.parent), sep="\n")
    print(f"now: {outcome.result} {outcome.signature}\n{outcome.detail}")
    return 1 if outcome.is_finding else 0


def _in_memory() -> Path | None:
    """Where files are written fastest: readers that repair wait for the disk at every step."""
    folder = Path("/dev/shm")  # noqa: S108
    return folder if os.access(folder, os.W_OK) else None


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description="Damaged input for every reader.")
    parser.add_argument("--seconds", type=float, default=600, help="how long to run")
    parser.add_argument("--inputs", type=int, help="number of inputs of each kind, instead of --seconds")
    parser.add_argument("--seed", type=int, default=0, help="other inputs for another seed")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS), help="kinds of input")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at the same time")
    parser.add_argument("--keep", type=Path, default=KEEP, help="folder for the findings")
    parser.add_argument("--work", type=Path, default=_in_memory(), help="folder in which inputs are made and read")
    parser.add_argument("--again", type=Path, help="folder of one finding: read its input again")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
