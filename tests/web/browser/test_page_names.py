"""A file name is text: nothing in it runs, and it is shown as it is."""

import shutil
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from gallery import SCRIPT

LONG = "seen from the road in the morning " * 6 + ".jpg"


@pytest.mark.parametrize(
    "address",
    ["/?view=browse&name=onerror", "/?query=image-{id}", "/?query=image-{other}&compare={id}"],
    ids=["browse", "query", "compare"],
)
def test_script_as_a_file_name(page: Page, server: str, ids: dict[str, int], address: str):
    page.goto(server + address.format(id=ids[f"flower/{SCRIPT}"], other=ids["flower/evening.jpg"]))
    expect(page.get_by_text(SCRIPT, exact=True).first).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert "it-ran" not in page.title()
    assert page.locator("img[src=x]").count() == 0


def test_script_as_the_name_of_a_query(page: Page, server: str, gallery, tmp_path):
    sent = tmp_path / SCRIPT
    sent.write_bytes((gallery / "images" / "palace" / "close.jpg").read_bytes())
    page.goto(server)
    page.get_by_label("Choose a photograph").set_input_files(sent)
    expect(page.locator(".query .name")).to_have_text(SCRIPT)
    expect(page.locator(".results .card:not(.skeleton)").first).to_be_visible()
    assert "it-ran" not in page.title()
    assert page.locator("img[src=x]").count() == 0


def test_script_in_the_address(page: Page, server: str, watch):
    """Fields of the address are shown as text too."""
    watch.expected = (*watch.expected, "422", "404")
    page.goto(f"{server}/?query=image-1&folder=<img src=x onerror=document.title='it-ran'>&name=<b>&box=<i>")
    expect(page.get_by_role("alert")).to_be_visible()
    assert "it-ran" not in page.title()
    assert page.locator("img[src=x], b:has-text('<')").count() == 0


@pytest.mark.parametrize("width", [390, 1600])
def test_both_long_names_of_a_comparison_are_seen(page: Page, server: str, gallery: Path, width: int, tmp_path: Path):
    """That of the query, which is cut, does not push that of the result out of sight."""
    page.set_viewport_size({"width": width, "height": 800})
    with (gallery / "images" / "palace" / "left.jpg").open("rb") as file:
        query = httpx.post(f"{server}/api/search", files={"file": (LONG, file)}).json()
    result = next(hit["id"] for hit in query["hits"] if hit["name"] == "right.jpg")
    page.goto(f"{server}/?query={query['query']['key']}&compare={result}")
    names = page.locator(".compare h2 bdi")
    expect(names).to_have_text([LONG, "right.jpg"])
    for name in names.all():
        seen = name.evaluate(
            """(name) => {
              const box = name.parentElement.getBoundingClientRect();
              return document.elementFromPoint(box.right - 4, box.top + box.height / 2)?.closest(".named")
                === name.parentElement && box.width > 100 && box.height < 40;
            }"""
        )
        assert seen, name.inner_text()


def test_long_names_of_pictures_that_are_sent_take_few_lines(
    page: Page, writable: str, own_gallery: Path, tmp_path: Path
):
    page.set_viewport_size({"width": 390, "height": 800})
    sent = shutil.copy(own_gallery / "images" / "palace" / "left.jpg", tmp_path / ("x" * 200 + ".jpg"))
    page.goto(f"{writable}/?view=add")
    page.get_by_label("Choose pictures").set_input_files(sent)
    row = page.locator(".file[data-state]")
    expect(row).to_contain_text("in the collection already")
    assert row.evaluate("(row) => row.clientHeight") < 110
