"""A file name is text: nothing in it runs, and it is shown as it is."""

import pytest
from playwright.sync_api import Page, expect

from gallery import SCRIPT


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
