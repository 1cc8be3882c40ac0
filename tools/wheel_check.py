"""Install the wheel under FOLDER/dist in an empty virtual environment and run the demo there.

    python tools/wheel_check.py FOLDER

The command line and the demo are run without any extra, and without any program of the system but `cat`, by which
scikit-learn's joblib reads the number of cores: small containers hardly have more.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def main(folder: Path) -> None:
    (wheel,) = folder.resolve().glob("dist/*.whl")
    with tempfile.TemporaryDirectory() as place:
        environment = Path(place) / "environment"
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        install = ["-m", "pip", "install", "--quiet", str(wheel)]
        subprocess.run([environment / "bin" / "python", *install], check=True)
        programs = Path(place) / "programs"
        programs.mkdir()
        (programs / "cat").symlink_to(str(shutil.which("cat")))
        commands = (
            ["faemb", "--help"],
            ["faemb", "--version"],
            ["python", "-m", "faemb", "--version"],
            ["faemb", "demo", "--out", "demo"],
        )
        for program, *arguments in commands:  # away from the source tree, so that only the wheel can be imported
            command = [str(environment / "bin" / program), *arguments]
            ended = subprocess.run(command, cwd=place, env={"PATH": str(programs)}, stderr=subprocess.PIPE, timeout=600)
            if ended.returncode or ended.stderr:
                sys.exit(f"{program} {' '.join(arguments)}: {ended.returncode}, {ended.stderr.decode()}")
        if not (Path(place) / "demo" / "demo.html").is_file():
            sys.exit(f"{wheel.name} is installed, and its demo made no page")
    print(f"{wheel.name} works in an empty environment")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
