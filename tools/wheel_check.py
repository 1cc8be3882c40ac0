"""Install the wheel under FOLDER/dist in an empty virtual environment and run the demo there.

python tools/wheel_check.py build/wheel
"""

import subprocess
import sys
import tempfile
from pathlib import Path


def main(folder: Path) -> None:
    (wheel,) = folder.resolve().glob("dist/*.whl")
    with tempfile.TemporaryDirectory() as place:
        environment = Path(place) / "environment"
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        inside = environment / "bin"
        subprocess.run([inside / "python", "-m", "pip", "install", "--quiet", f"{wheel}[demo]"], check=True)
        # Away from the source tree, so that nothing but the wheel can be imported.
        for command in (["python", "-m", "faemb", "--version"], ["faemb", "demo", "--out", "demo"]):
            subprocess.run([inside / command[0], *command[1:]], check=True, cwd=place)
        if not (Path(place) / "demo" / "demo.html").is_file():
            sys.exit(f"{wheel.name} is installed, and its demo made no page")
    print(f"{wheel.name} works in an empty environment")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
