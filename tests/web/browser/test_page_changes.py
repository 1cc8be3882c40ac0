"""The collection is changed in the browser: pictures are sent, removed and brought back; long work is cancelled."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, Response, expect

from browsing import Watch, assert_accessible
from faemb.collection import Collection
from faemb.collection.locking import only_writer
from faemb.demo.prints import pictures
from faemb.web.settings import ServerSettings
from gallery import SCRIPT
from pictures import pixels
from processes import PATIENCE, wait_until
from served import serving


def file_row(page: Page, name: str) -> Locator:
    return page.locator(".file").filter(has_text=name)


@pytest.fixture(scope="module")
def new_pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two prints that the gallery does not show."""
    folder = tmp_path_factory.mktemp("new")
    for name, print_ in list(pictures().items())[-2:]:
        Image.fromarray(print_).save(folder / f"{name}.jpg")
    return folder


def test_pictures_are_sent_and_can_be_found(
    page: Page, watch: Watch, writable: str, own_gallery: Path, new_pictures: Path
):
    """Several at once, each with what has become of it."""
    watch.expected = ("422",)
    (new_pictures / "letter.jpg").write_text("Dear Sir or Madam")
    known = own_gallery / "images" / "palace" / "original.jpg"
    first, second = sorted(path for path in new_pictures.iterdir() if path.name != "letter.jpg")
    page.goto(f"{writable}/?view=add")
    page.get_by_label("Choose pictures").set_input_files([first, second, known, new_pictures / "letter.jpg"])
    expect(page.locator(".summary")).to_have_text("4 of 4 done")
    for added in (first, second):
        expect(file_row(page, added.name)).to_contain_text("added")
    expect(file_row(page, "original.jpg")).to_contain_text("in the collection already")
    expect(file_row(page, "letter.jpg")).to_contain_text("not added: letter.jpg is not an image")
    page.goto(f"{writable}/?view=browse&name={first.name}")
    page.get_by_role("link", name=f"Search with {first.name}").click()
    expect(page.locator(".query .detail").first).to_contain_text("It is in the collection itself.")


def test_a_busy_server_is_asked_again(page: Page, watch: Watch, own_gallery: Path, tmp_path: Path):
    """All that it works on at a time comes slowly from other clients; for the page, time stands still meanwhile."""
    watch.expected = ("429",)
    Image.fromarray(pixels(78, (320, 240))).save(tmp_path / "busy.png")
    settings = ServerSettings(own_gallery / "gallery.faemb", writable=True, most_waiting=MOST_AT_ONCE, jobs=1)
    with serving(settings) as client, sent_slowly(client, MOST_AT_ONCE) as release:
        page.clock.install(time=0)
        page.goto(f"{client.base_url}?view=add")
        page.clock.pause_at(1000)
        with page.expect_response(is_refused_upload):
            page.get_by_label("Choose pictures").set_input_files(tmp_path / "busy.png")
        page.get_by_role("link", name="Browse", exact=True).click()
        expect(page.get_by_role("heading", name="All pictures")).to_be_visible()
        release()
        page.clock.resume()
        expect(page.locator(".toast")).to_contain_text("1 picture was sent.")
        page.get_by_role("link", name="Add", exact=True).click()
        expect(file_row(page, "busy.png")).to_contain_text("added")
        page.close()  # it asks the server now and then


MOST_AT_ONCE = 8
"""More than the requests that Chromium sends to one server at a time: the page alone does not make it busy."""


def is_refused_upload(told: Response) -> bool:
    return told.status == 429 and told.request.method == "POST" and told.url.endswith("/api/images")


@contextmanager
def sent_slowly(client: httpx.Client, count: int) -> Iterator[Callable[[], None]]:
    """Requests that the server works on until the function is called, which sends the last byte of each."""
    last = threading.Event()

    def body() -> Iterator[bytes]:
        yield b'--slow\r\nContent-Disposition: form-data; name="top"\r\n\r\n1\r\n--slow-'
        last.wait(PATIENCE)
        yield b"-"

    def send() -> None:
        client.post("/api/search", content=body(), headers={"Content-Type": "multipart/form-data; boundary=slow"})

    senders = [threading.Thread(target=send) for _ in range(count)]

    def release() -> None:
        last.set()
        for sender in senders:
            sender.join()

    for sender in senders:
        sender.start()
    try:
        in_flight = f"faemb_requests_in_flight {count + 1:.1f}\n"  # with that for the metrics
        assert wait_until(lambda: in_flight in client.get("/metrics").text)
        yield release
    finally:
        release()


def test_changes_wait_for_another_process(page: Page, watch: Watch, writable: str, own_gallery: Path, tmp_path: Path):
    """Such as faemb update on the server's command line."""
    watch.expected = ("503",)
    Image.fromarray(pixels(79, (320, 240))).save(tmp_path / "patient.png")
    page.goto(f"{writable}/?view=add")
    with Collection.open(own_gallery / "gallery.faemb") as photos, only_writer(photos.layout):
        page.get_by_label("Choose pictures").set_input_files(tmp_path / "patient.png")
        expect(file_row(page, "patient.png")).to_contain_text("waiting: the collection is being changed")
        page.get_by_role("link", name="Browse", exact=True).click()
        page.get_by_role("button", name="Remove: visitor.jpg").first.click()
        page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        expect(page.locator(".toast")).to_contain_text("this is done when that has ended")
    expect(page.locator(".toast").last).to_contain_text("visitor.jpg was removed")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".toast").last).to_contain_text("visitor.jpg is back")
    page.get_by_role("link", name="Add", exact=True).click()
    expect(file_row(page, "patient.png")).to_contain_text("added")


def test_pictures_are_dropped(page: Page, writable: str):
    page.goto(f"{writable}/?view=add")
    dropped = page.evaluate_handle(
        """async () => {
          const files = new DataTransfer();
          for (const seed of [3, 5]) {
            const canvas = new OffscreenCanvas(320, 240);
            const brush = canvas.getContext("2d");
            for (let spot = 0; spot < 80; spot++) {
              brush.fillStyle = `hsl(${(spot * 47 * seed) % 360} 80% 50%)`;
              brush.fillRect((spot * 71 * seed) % 300, (spot * 37 * seed) % 220, 8 + (spot % 17), 8 + (spot % 11));
            }
            files.items.add(new File([await canvas.convertToBlob()], `drawn ${seed}.png`, { type: "image/png" }));
          }
          return files;
        }"""
    )
    page.dispatch_event("main", "dragenter", {"dataTransfer": dropped})
    expect(page.get_by_text("Drop to add these pictures")).to_be_visible()
    page.dispatch_event("main", "drop", {"dataTransfer": dropped})
    expect(page.locator(".summary")).to_have_text("2 of 2 done")
    expect(page.locator(".file[data-state=added]")).to_have_count(2)


def test_script_as_the_name_of_a_picture_that_is_sent(page: Page, writable: str, tmp_path: Path):
    Image.fromarray(pixels(77, (320, 240))).save(tmp_path / SCRIPT)
    page.goto(f"{writable}/?view=add")
    page.get_by_label("Choose pictures").set_input_files(tmp_path / SCRIPT)
    expect(page.locator(".file[data-state]")).to_contain_text(SCRIPT)
    assert "it-ran" not in page.title()
    assert page.locator("img[src=x]").count() == 0


def test_remove_after_a_question_and_undo(page: Page, writable: str, own_gallery: Path):
    page.goto(f"{writable}/?view=browse&name=close")
    cards = page.locator(".endless .card:not(.skeleton)")
    expect(cards).to_have_count(4)
    page.get_by_role("button", name="Remove: close.jpg").first.click()
    expect(page.get_by_role("dialog")).to_contain_text("The file itself stays where it is.")
    assert_accessible(page)
    page.get_by_role("button", name="Keep it").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Remove: close.jpg").first).to_be_focused()
    expect(cards).to_have_count(4)

    page.get_by_role("button", name="Remove: close.jpg").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(cards).to_have_count(3)
    assert_accessible(page)
    assert len(list((own_gallery / "images").glob("*/close.jpg"))) == 4
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".toast")).to_contain_text("close.jpg is back.")
    expect(cards).to_have_count(4)


def test_removals_are_undone_by_keys(page: Page, writable: str):
    """However late, one after the other; the button can be reached from the menu."""
    page.clock.install()
    page.goto(f"{writable}/?view=browse&name=close")
    cards = page.locator(".endless .card:not(.skeleton)")
    toasts = page.locator(".toast")
    for left in (3, 2):
        page.get_by_role("button", name="Remove: close.jpg").first.focus()
        page.keyboard.press("Enter")
        page.get_by_role("dialog").get_by_role("button", name="Remove").press("Enter")
        expect(cards).to_have_count(left)
        expect(toasts).to_have_count(1)
    page.clock.fast_forward(300_000)
    expect(toasts).to_contain_text("close.jpg was removed")
    assert_accessible(page)
    page.get_by_label("Name contains").focus()
    page.keyboard.press("Control+z")
    expect(cards).to_have_count(2)  # in a field, its own text is meant
    page.locator("#views a").last.focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Undo")).to_be_focused()
    page.keyboard.press("Control+z")
    expect(cards).to_have_count(3)
    page.keyboard.press("Control+z")
    expect(cards).to_have_count(4)
    page.clock.fast_forward(20_000)
    expect(toasts).to_have_count(0)


def test_a_removal_leaves_the_list_and_the_focus_where_they_were(page: Page, writable: str):
    """In a list of pages of ten, with thumbnails whose addresses name the content of their files."""
    page.route("**/api/images?*", lambda route: route.continue_(url=route.request.url.replace("limit=60", "limit=10")))
    page.set_viewport_size({"width": 400, "height": 500})
    page.goto(f"{writable}/?view=browse")
    cards = page.locator(".endless .card:not(.skeleton)")
    for number in (9, 19, 25):
        cards.nth(number).scroll_into_view_if_needed()
        expect(cards.nth(number + 1)).to_be_attached()
    numbers = [cards.nth(place).get_attribute("data-id") for place in (25, 26)]
    content = httpx.get(f"{writable}/api/images/{numbers[0]}").json()["content"]
    expect(cards.nth(25).locator("img")).to_have_attribute("src", f"/api/images/{numbers[0]}/thumbnail?v={content}")
    cards.nth(25).get_by_role("button", name="Remove").click()
    scrolled = page.evaluate("scrollY")
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.locator(f'.card[data-id="{numbers[1]}"] .open')).to_be_focused()
    assert abs(page.evaluate("scrollY") - scrolled) < 2
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".toast")).to_contain_text("is back")


def test_remove_from_results(page: Page, writable: str):
    by_name = httpx.get(f"{writable}/api/images", params={"name": "visitor"}).json()["images"]
    number = by_name[0]["id"]
    query = httpx.get(f"{writable}/api/images", params={"name": "original"}).json()["images"][0]["id"]
    page.goto(f"{writable}/?query=image-{query}")
    removed = page.locator(f'.results .card[data-id="{number}"]')
    removed.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.locator(".toast")).to_contain_text("was removed")
    expect(removed).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".toast")).to_contain_text("is back")


def test_groups_are_found_by_a_job_and_shown(page: Page, writable: str):
    page.goto(f"{writable}/?view=groups&same_thing=1")
    expect(page.locator(".group").first).to_be_visible()
    expect(page.locator(".group .mark").first).to_contain_text("keep: ")
    expect(page.locator(".summary")).to_contain_text("group")
    page.locator(".group").first.get_by_role("link", name="Compare: ").last.click()
    expect(page.get_by_role("dialog").locator(".joined")).to_be_visible()
    page.go_back()
    expect(page.locator(".group").first).to_be_visible()
    page.get_by_text("Copies", exact=True).click()
    expect(page).to_have_url(f"{writable}/?view=groups")


def test_a_removal_among_groups_compares_nothing_again(page: Page, writable: str):
    """The other images of its group stay, and a new comparison is offered."""

    def jobs() -> list[str]:
        found = httpx.get(f"{writable}/api/jobs").json()["jobs"]
        return [job["id"] for job in found if job["kind"] == "duplicates"]

    page.goto(f"{writable}/?view=groups&same_thing=1")
    groups = page.locator(".group")
    expect(groups.first).to_be_visible()
    sizes = groups.evaluate_all("(all) => all.map((group) => group.querySelectorAll('.card').length)")
    before, members, many = jobs(), max(sizes), len(sizes)
    assert members > 2
    largest = groups.nth(sizes.index(members))
    cards = largest.locator(".card")
    largest.get_by_role("button", name="Remove: ").last.click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(cards).to_have_count(members - 1)
    expect(groups).to_have_count(many)
    outdated = page.get_by_text("The collection has changed since its pictures were compared.")
    expect(outdated).to_be_visible()
    assert_accessible(page)
    assert jobs() == before
    page.get_by_role("button", name="Undo").click()
    expect(cards).to_have_count(members)
    page.get_by_role("button", name="Look again").click()
    expect(groups).to_have_count(many)
    expect(outdated).to_be_hidden()
    assert len(jobs()) == len(before) + 1


def test_a_job_is_followed_and_cancelled(page: Page, watch: Watch, writable: str, own_gallery: Path):
    """Many large pictures, so that the work takes longer than this test; also when the server is away for a while."""
    watch.expected = ("ERR_FAILED",)
    slow = own_gallery / "images" / "slow"
    slow.mkdir()
    noise = Image.fromarray(np.random.default_rng(3).integers(0, 256, (600, 800, 3), np.uint8))
    noise.resize((2400, 1800)).save(slow / "0.jpg", quality=60)
    for number in range(1, 150):
        shutil.copy(slow / "0.jpg", slow / f"{number}.jpg")
    page.goto(f"{writable}/?view=add")
    page.get_by_role("button", name="Look through the folders again").click()
    job = page.locator(".job")
    expect(job.get_by_role("progressbar")).to_be_visible()
    expect(job).to_contain_text("Look through the folders")
    page.goto(f"{writable}/?view=jobs")
    running = page.locator(".job").first
    expect(running).to_have_attribute("data-state", "running")
    page.goto(f"{writable}/?view=state")
    page.get_by_role("link", name="1 job running").click()
    expect(page).to_have_url(f"{writable}/?view=jobs")
    page.route("**/api/jobs", lambda route: route.abort())
    expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    page.unroute("**/api/jobs")
    expect(page.get_by_role("alert")).to_be_hidden()
    running.get_by_role("button", name="Cancel").click()
    expect(running).to_have_attribute("data-state", "cancelled", timeout=60_000)
    expect(running.get_by_role("progressbar")).to_have_count(0)
    expect(page.get_by_role("link", name="1 job running")).to_have_count(0)
    for path in slow.iterdir():
        path.unlink()


def test_a_folder_of_the_server_is_added(page: Page, writable: str, own_gallery: Path, watch: Watch):
    """One that the collection knows; others are refused with the reason."""
    watch.expected = ("403",)
    Image.fromarray(pixels(88, (320, 240))).save(own_gallery / "images" / "map" / "late.png")
    page.goto(f"{writable}/?view=add")
    field = page.get_by_label("A folder inside one of these")
    folder = str(own_gallery / "images" / "map")
    expect(page.locator("datalist option").nth(1)).to_be_attached()
    assert folder in page.locator("datalist option").evaluate_all("(all) => all.map((option) => option.value)")
    field.fill("/etc")
    page.get_by_role("button", name="Add its pictures").click()
    expect(page.locator(".toast.bad")).to_be_visible()
    field.fill(folder)
    page.get_by_role("button", name="Add its pictures").click()
    expect(page.locator(".job").first).to_have_attribute("data-state", "done", timeout=60_000)  # it may learn again
    page.goto(f"{writable}/?view=browse&name=late")
    expect(page.locator(".endless .card:not(.skeleton)")).to_have_count(1)


def test_a_server_that_only_searches_offers_no_changes(page: Page, server: str, ids: dict[str, int]):
    for address in (f"/?query=image-{ids['palace/original.jpg']}", "/?view=browse", "/?view=state"):
        page.goto(server + address)
        page.wait_for_load_state("networkidle")
        expect(page.get_by_role("button", name="Remove")).to_have_count(0)
        expect(page.get_by_role("link", name="Add", exact=True)).to_have_count(0)
    expect(page.get_by_text("This server only searches.")).to_be_visible()
    page.goto(f"{server}/?view=add")
    expect(page.get_by_text("This server only searches.")).to_be_visible()
    expect(page.get_by_label("Choose pictures")).to_have_count(0)
