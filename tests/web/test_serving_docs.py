"""docs/serving.md: the client runs as it is printed, and the numbers are those of the code."""

import re
from pathlib import Path

from faemb.runtime.limits import in_words
from faemb.web import connections, queries
from faemb.web.guard import costs
from faemb.web.settings import ServerSettings
from pictures import picture
from served import serving
from small_collections import make_collection

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")


def test_the_client_in_python(tmp_path, monkeypatch, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    collection = make_collection(tmp_path, ["a.png", "b.png"]) / "photos.faemb"
    picture(tmp_path / "query.jpg", 0)
    monkeypatch.chdir(tmp_path)
    with serving(ServerSettings(collection, jobs=1)) as client:
        exec(code.replace("http://127.0.0.1:8000", str(client.base_url)), {})  # noqa: S102
    first, *_, last = capsys.readouterr().out.splitlines()
    assert re.fullmatch(rf"[\d.]+ same {re.escape(str(tmp_path / 'photos'))} a.png", first)
    assert last.endswith(".")


def test_limits_are_those_of_the_code():
    settings = ServerSettings(Path("photos.faemb"))
    held = costs._HELD * settings.most_bytes
    for words in (
        f"one image of {in_words(settings.most_bytes)} and {in_words(costs._FORM)} beside it",
        f"{settings.body_seconds:.0f} s to send it; {settings.most_waiting} requests that cost work",
        f"{connections.MOST} connections",
        f"the last {queries._MOST}, at most {in_words(queries._MOST_BYTES)}",
        f"may hold {in_words(held)} more",
    ):
        assert words in PAGE, words


def test_the_container_runs_as_an_ordinary_user_from_files_that_exist():
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert any(re.fullmatch(r"USER [1-9]\d*", line) for line in lines)
    copied = [word for line in lines if line.startswith("COPY") and "--from" not in line for word in line.split()[1:-1]]
    assert copied
    assert all((ROOT / name).exists() for name in copied)
