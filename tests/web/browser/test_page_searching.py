"""Queries by file, paste, drop and picture; results that are followed; the address as the state."""

import base64
import re
import shutil
from functools import partial
from pathlib import Path

import httpx
import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, Route, expect

from browsing import Watch
from faemb.collection import Collection, new_model
from faemb.features import HessianAffine
from faemb.web.settings import ServerSettings
from processes import wait_until
from served import served, serving


def cards(page: Page) -> Locator:
    return page.locator(".results .card:not(.skeleton)")


def assert_found(page: Page, name: str) -> None:
    """The first result is claimed, and has this name."""
    first = cards(page).first
    expect(first.locator(".name")).to_have_text(name)
    expect(first.locator(".claim.same")).to_have_text("The same thing")


@pytest.fixture
def photograph(gallery: Path) -> Path:
    return gallery / "images" / "palace" / "left.jpg"


def as_base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def assert_found_palace(page: Page) -> None:
    expect(page).to_have_url(re.compile(r"\?query=upload-[0-9a-f]{32}$"))
    expect(cards(page).first.locator(".claim.same")).to_be_visible()
    expect(page.locator(".query .name")).to_contain_text("jpg")
    expect(page.locator(".query-picture")).to_have_js_property("complete", True)


def test_query_by_file(page: Page, server: str, photograph: Path):
    page.goto(server)
    page.get_by_label("Choose a photograph").set_input_files(photograph)
    assert_found_palace(page)
    expect(page.locator(".query .name")).to_have_text("left.jpg")
    expect(page.locator(".summary")).to_contain_text("show the same thing")


@pytest.mark.parametrize("address", ["/", "/?query=image-{0}&box=9,9,99,99&folder={1}"], ids=["first", "filtered"])
def test_a_file_is_searched_with_once(
    page: Page, server: str, gallery: Path, ids: dict[str, int], address: str, tmp_path: Path
):
    """So that the time which is shown is that of the search, and not of an answer that the server has kept."""
    Image.open(gallery / "images" / "palace" / "left.jpg").resize((500 + len(address), 400)).save(tmp_path / "new.jpg")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    page.goto(server + address.format(ids["flower/original.jpg"], gallery / "images"))
    expect(page.get_by_role("main")).not_to_be_empty()
    page.wait_for_load_state("networkidle")
    sent.clear()
    with page.expect_response("**/api/search") as told:
        page.locator("input[type=file]").first.set_input_files(tmp_path / "new.jpg")
    expect(page).to_have_url(re.compile("upload-"))
    expect(page.locator(".summary")).to_contain_text("show the same thing")
    page.wait_for_load_state("networkidle")
    assert sent == [f"{server}/api/search"]
    shown = re.search(r"([0-9.]+)\s*s\.$", page.locator(".summary").inner_text())
    assert shown
    assert float(shown[1]) == pytest.approx(told.value.json()["seconds"], abs=0.006)


def test_query_by_paste(page: Page, server: str, photograph: Path):
    """By the clipboard itself, which holds a picture as PNG."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(server)
    page.evaluate(
        """async (jpeg) => {
          const bytes = Uint8Array.from(atob(jpeg), (letter) => letter.charCodeAt(0));
          const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/jpeg" }));
          const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
          canvas.getContext("2d").drawImage(bitmap, 0, 0);
          await navigator.clipboard.write([new ClipboardItem({ "image/png": await canvas.convertToBlob() })]);
        }""",
        as_base64(photograph),
    )
    page.keyboard.press("Control+V")
    expect(page).to_have_url(re.compile("upload-"))
    expect(cards(page).first.locator(".claim.same")).to_be_visible()


def test_query_by_drop_on_any_view(page: Page, server: str, photograph: Path):
    page.goto(f"{server}/?view=browse")
    dropped = page.evaluate_handle(
        """(jpeg) => {
          const files = new DataTransfer();
          const bytes = Uint8Array.from(atob(jpeg), (letter) => letter.charCodeAt(0));
          files.items.add(new File([bytes], "left.jpg", { type: "image/jpeg" }));
          return files;
        }""",
        as_base64(photograph),
    )
    page.dispatch_event("main", "dragenter", {"dataTransfer": dropped})
    expect(page.get_by_text("Drop to search with this photograph")).to_be_visible()
    page.dispatch_event("main", "drop", {"dataTransfer": dropped})
    expect(page.locator(".dropping")).to_be_hidden()
    assert_found_palace(page)


@pytest.mark.parametrize("by", ["drop", "paste"])
def test_text_in_place_of_a_picture_is_answered(page: Page, server: str, by: str):
    """Also an address, which the browser would leave the page for; in a field, text is text."""
    give = """(place, by) => {
      const data = new DataTransfer();
      data.setData("text/uri-list", "http://127.0.0.1:1/picture.jpg");
      data.setData("text/plain", "http://127.0.0.1:1/picture.jpg");
      const shared = { bubbles: true, cancelable: true };
      return !place.dispatchEvent(by === "drop" ? new DragEvent("drop", { ...shared, dataTransfer: data })
        : new ClipboardEvent("paste", { ...shared, clipboardData: data }));
    }"""
    page.goto(f"{server}/?view=browse")
    assert page.get_by_label("Name contains").evaluate(give, by) is False
    expect(page.locator(".toast")).to_have_count(0)
    assert page.get_by_role("main").evaluate(give, by) is (by == "drop")
    expect(page.locator(".toast")).to_contain_text("That holds no picture file.")
    expect(page).to_have_url(f"{server}/?view=browse")


def test_a_file_that_is_no_picture_is_explained_where_the_user_looks(
    page: Page, server: str, watch: Watch, tmp_path: Path
):
    watch.expected = (*watch.expected, "422")
    (tmp_path / "notes.jpg").write_text("nothing to see")
    page.goto(server)
    page.get_by_label("Choose a photograph").set_input_files(tmp_path / "notes.jpg")
    expect(page.get_by_role("alert")).to_contain_text("notes.jpg")
    expect(page.get_by_role("heading", level=1)).to_have_text("Find the pictures that show the same thing")


def test_after_a_file_that_is_no_picture_the_page_shows_what_the_address_names(
    page: Page, server: str, watch: Watch, tmp_path: Path, ids: dict[str, int]
):
    watch.expected = (*watch.expected, "422")
    (tmp_path / "notes.jpg").write_text("nothing to see")
    address = f"{server}/?query=image-{ids['palace/original.jpg']}&expand=results"
    page.goto(f"{address}&compare={ids['palace/left.jpg']}")
    expect(page.locator(".joined")).to_be_visible()
    page.locator("input[type=file]").first.set_input_files(tmp_path / "notes.jpg")
    expect(page.get_by_role("alert")).to_contain_text("notes.jpg")
    assert "notes.jpg" not in page.locator(".query").inner_text()
    expect(page).to_have_url(address)
    expect(page.locator(".query .name")).to_have_text("original.jpg")
    expect(page.locator(".query .detail").first).to_contain_text("It is in the collection itself.")
    expect(cards(page).first.locator(".claim.same")).to_be_visible()
    page.get_by_label("Name contains").fill("right")
    expect(page).to_have_url(re.compile("name=right"))
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_filter_is_one_step_of_the_history(page: Page, server: str, ids: dict[str, int]):
    """However many keys it takes; and back leads to the same search without it."""
    address = f"{server}/?query=image-{ids['palace/original.jpg']}"
    page.goto(address)
    expect(cards(page).nth(8)).to_be_attached()
    steps = page.evaluate("history.length")
    field = page.get_by_label("Name contains")
    for typed in ("ri", "ght "):
        field.press_sequentially(typed)
        expect(page).to_have_url(re.compile(f"name=[a-z]*{typed.strip()}$"))
    expect(field).to_have_value("right ")
    expect(cards(page)).to_have_count(4)
    assert page.evaluate("history.length") == steps + 1
    page.go_back()
    expect(page).to_have_url(address)
    expect(field).to_have_value("")
    expect(cards(page).nth(8)).to_be_attached()
    page.go_forward()
    expect(field).to_have_value("right")
    expect(cards(page)).to_have_count(4)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ("name=no-such-name", "No picture fits the filter."),
        ("since=2199-01-01", "No picture fits the filter."),
        ("folder={folder}&name=original", "No other picture fits the filter."),
    ],
    ids=["name", "date", "itself"],
)
def test_a_filter_that_leaves_nothing_is_said_to(
    page: Page, server: str, gallery: Path, ids: dict[str, int], fields: str, sentence: str
):
    folder = gallery / "images" / "palace"
    page.goto(f"{server}/?query=image-{ids['palace/original.jpg']}&{fields.format(folder=folder)}")
    expect(page.locator(".results .summary")).to_have_text(sentence)


def test_a_collection_without_other_pictures_says_so(page: Page, gallery: Path, photograph: Path, tmp_path: Path):
    """With one picture, and then with none."""
    only = tmp_path / "images" / "only.jpg"
    only.parent.mkdir()
    shutil.copy(photograph, only)
    with Collection.create(tmp_path / "one.faemb", Collection.open(gallery / "gallery.faemb").model) as collection:
        collection.add(only.parent)
    with served(tmp_path / "one.faemb", "--writable") as one:
        page.goto(f"{one.address}?query=image-1")
        expect(page.locator(".results .summary")).to_have_text("There is no other picture to compare it with.")
        assert httpx.delete(f"{one.address}api/images/1").is_success
        page.goto(one.address)
        page.get_by_label("Choose a photograph").set_input_files(photograph)
        expect(page.locator(".results .summary")).to_have_text("There are no pictures to search in yet.")


def test_a_file_that_is_too_large_is_not_sent(page: Page, gallery: Path, photograph: Path):
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with serving(ServerSettings(gallery / "gallery.faemb", most_bytes=2000, jobs=1)) as client:
        page.goto(str(client.base_url))
        page.get_by_label("Choose a photograph").set_input_files(photograph)
        told = "left.jpg is larger than 2 KB, which is the most that may be sent."
        expect(page.get_by_role("alert")).to_have_text(told)
        page.close()  # it asks the server now and then
    assert not any(url.endswith("/api/search") for url in asked)


def test_start_with_a_picture_and_follow_results(page: Page, server: str, ids: dict[str, int]):
    page.goto(server)
    page.locator(".start-cards .card .open").first.click()
    expect(page).to_have_url(re.compile(r"\?query=image-\d+$"))
    page.goto(f"{server}/?query=image-{ids['palace/original.jpg']}")
    followed = cards(page).first
    number = followed.get_attribute("data-id")
    name = followed.locator(".name > bdi").inner_text()
    followed.get_by_role("link", name="Search with this").click()
    expect(page).to_have_url(f"{server}/?query=image-{number}")
    expect(page.locator(".query .name")).to_have_text(name)
    expect(cards(page).first.locator(".claim.same")).to_be_visible()


def test_back_forward_and_reload_show_the_same(page: Page, server: str, ids: dict[str, int]):
    first, second = ids["palace/original.jpg"], ids["flower/original.jpg"]
    page.goto(f"{server}/?query=image-{first}")
    expect(cards(page).first).to_be_visible()
    numbers = cards(page).evaluate_all("cards => cards.map((card) => card.dataset.id)")
    page.goto(f"{server}/?query=image-{second}")
    expect(cards(page).first).to_be_visible()
    for move in (page.go_back, page.reload):
        move()
        expect(page).to_have_url(f"{server}/?query=image-{first}")
        expect(cards(page).first).to_have_attribute("data-id", numbers[0])
        assert cards(page).evaluate_all("cards => cards.map((card) => card.dataset.id)") == numbers
    page.go_forward()
    expect(page).to_have_url(f"{server}/?query=image-{second}")


def test_history_inside_the_page(page: Page, server: str, ids: dict[str, int]):
    """Without loading it again: views, and where a list was scrolled to."""
    page.goto(f"{server}/?query=image-{ids['palace/original.jpg']}")
    expect(cards(page).nth(20)).to_be_attached()
    cards(page).nth(20).scroll_into_view_if_needed()
    assert wait_until(lambda: page.evaluate("history.state?.scroll > 100"))
    scrolled = page.evaluate("scrollY")
    page.get_by_role("link", name="Browse", exact=True).click()
    expect(page.get_by_role("heading", name="All pictures")).to_be_visible()
    assert page.evaluate("scrollY") == 0
    page.go_back()
    expect(cards(page).first).to_be_visible()
    assert wait_until(lambda: abs(page.evaluate("scrollY") - scrolled) < 2)


def test_a_photograph_that_the_server_has_lost_is_explained(page: Page, server: str, watch: Watch):
    watch.expected = (*watch.expected, "404")
    page.goto(f"{server}/?query=upload-{'0' * 32}")
    expect(page.get_by_role("alert")).to_contain_text("send it again")
    expect(page.get_by_role("button", name="Try again")).to_have_count(0)  # it would be answered in the same way
    expect(page.locator(".query .frame")).to_be_hidden()
    expect(page.get_by_text("The picture cannot be shown.")).to_be_visible()


def test_a_server_that_has_gone_is_told_once(page: Page, watch: Watch, gallery: Path, photograph: Path):
    watch.expected = (*watch.expected, "ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")
    with serving(ServerSettings(gallery / "gallery.faemb", jobs=1)) as client:
        page.goto(str(client.base_url))
        expect(page.locator(".start-cards .card:not(.skeleton)").first).to_be_visible()
    page.get_by_label("Choose a photograph").set_input_files(photograph)
    expect(page.get_by_role("alert")).to_have_text("The server cannot be reached. Is it still running?")
    expect(page.locator(".start section > *")).to_have_count(0)
    page.get_by_role("link", name="Browse", exact=True).click()
    expect(page.get_by_role("alert")).to_have_text("The server cannot be reached. Is it still running?")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()


ASKED = {
    "start": ("/", "images?*", ".start-cards .card:not(.skeleton)"),
    "results": ("/?query=image-{before}", "search", ".results .card:not(.skeleton)"),
    "compare": ("/?query=image-{before}&compare={after}", "explain/**", ".joined"),
    "browse": ("/?view=browse", "images?*", ".endless .card:not(.skeleton)"),
    "collection": ("/?view=state", "info", ".facts-list"),
}


@pytest.mark.parametrize("fault", ["away", "unreachable"])
@pytest.mark.parametrize("view", ASKED)
def test_what_may_pass_can_be_tried_again(
    page: Page, server: str, watch: Watch, ids: dict[str, int], view: str, fault: str
):
    """A worker that was killed, an image server that is away, a network that is down."""
    watch.expected = ("503", "ERR_FAILED")
    address, asked, shown = ASKED[view]
    page.route(f"**/api/{asked}", lambda route: route.abort() if fault == "unreachable" else refused(route, status=503))
    page.goto(server + address.format(before=ids["planted/before.png"], after=ids["planted/after.png"]))
    expect(page.get_by_role("alert")).to_contain_text("Not now." if fault == "away" else "cannot be reached")
    page.unroute_all()
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(shown).first).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def refused(route: Route, *, status: int, later: bool = True) -> None:
    """In the server's place."""
    route.fulfill(status=status, json={"detail": "Not now."}, headers={"Retry-After": "2"} if later else {})


def test_a_photograph_is_sent_again_as_far_as_that_may_help(page: Page, server: str, watch: Watch, photograph: Path):
    """The server can say of any refusal that it passes."""
    watch.expected = ("422", "503")
    again = page.get_by_role("button", name="Try again")
    page.goto(server)
    for status, later in ((422, False), (422, True), (503, True)):
        page.route("**/api/search", partial(refused, status=status, later=later))
        page.get_by_label("Choose a photograph").set_input_files(photograph)
        expect(page.get_by_role("alert")).to_have_text("Not now.")
        expect(again).to_have_count(int(later))
        page.unroute_all()
    again.click()
    assert_found_palace(page)
    expect(page.get_by_role("alert")).to_have_count(0)


def test_filters_are_in_the_address(page: Page, server: str, gallery: Path, ids: dict[str, int]):
    page.goto(f"{server}/?query=image-{ids['palace/original.jpg']}")
    expect(cards(page).nth(8)).to_be_attached()
    page.get_by_label("Name contains").fill("right")
    expect(page).to_have_url(re.compile("name=right"))
    expect(cards(page)).to_have_count(4)
    assert_found(page, "palace/right.jpg")
    page.get_by_role("button", name="Clear filters").click()
    expect(page).not_to_have_url(re.compile("name="))
    steps = page.evaluate("history.length")
    page.get_by_label("Date from").fill("2001-02-03")
    expect(page).to_have_url(re.compile("since=2001-02-03"))
    assert page.evaluate("history.length") == steps + 1
    page.goto(f"{server}/?query=image-{ids['flower/original.jpg']}&folder={gallery / 'images' / 'planted'}")
    expect(page.locator(".line")).to_contain_text("No result is confirmed")


def test_filters_of_a_phone_that_is_turned(page: Page, server: str):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{server}/?view=browse")
    expect(page.get_by_label("Name contains")).to_be_hidden()
    page.set_viewport_size({"width": 844, "height": 390})
    expect(page.get_by_label("Name contains")).to_be_visible()


def test_expansion_is_in_the_address(page: Page, server: str, ids: dict[str, int]):
    page.goto(f"{server}/?query=image-{ids['palace/original.jpg']}")
    page.get_by_label("Search again with each sure result").check()
    expect(page).to_have_url(re.compile("expand=results"))
    expect(cards(page).first).to_be_visible()


def test_a_photograph_that_lies_on_its_side(page: Page, server: str, photograph: Path, tmp_path: Path):
    Image.open(photograph).transpose(Image.Transpose.ROTATE_90).save(tmp_path / "sideways.png")
    page.goto(server)
    page.get_by_label("Choose a photograph").set_input_files(tmp_path / "sideways.png")
    expect(page.locator(".line")).to_contain_text("No result is confirmed")
    page.get_by_label("The picture may lie on its side").check()
    expect(page).to_have_url(re.compile("turned=true"))
    expect(cards(page).first.locator(".claim.same")).to_be_visible()
    page.reload()
    expect(page.get_by_label("The picture may lie on its side")).to_be_checked()
    with page.expect_response(re.compile("/api/explain/.*turned=true")) as explained:
        cards(page).first.get_by_role("link", name="Compare").click()
    assert explained.value.json()["verdict"] == "same"


def test_what_the_boxes_to_check_do_not_say_is_not_asked(page: Page, server: str, ids: dict[str, int]):
    """The server would take turned=1 for a yes, and refuse other values of expand."""
    page.goto(f"{server}/?query=image-{ids['palace/original.jpg']}&expand=all&turned=1")
    expect(page).to_have_url(f"{server}/?query=image-{ids['palace/original.jpg']}")
    expect(cards(page).first.locator(".claim.same")).to_be_visible()
    for label in ("Search again with each sure result", "The picture may lie on its side"):
        expect(page.get_by_label(label)).not_to_be_checked()


def test_turned_pictures_are_not_asked_for_where_the_collection_finds_them_anyway(
    page: Page, photograph: Path, tmp_path: Path
):
    """An address from another collection; also with a filter, and a photograph after it."""
    shutil.copytree(photograph.parent, tmp_path / "images")
    model = new_model(HessianAffine(max_features=400, rotation_invariant=True))
    with Collection.create(tmp_path / "any.faemb", model) as collection:
        collection.add(tmp_path / "images")
    with serving(ServerSettings(tmp_path / "any.faemb", jobs=1)) as client:
        first, second = (image["id"] for image in client.get("/api/images").json()["images"][:2])
        page.goto(f"{client.base_url}?query=image-{first}&turned=true&name=right&compare={second}")
        expect(page.get_by_role("dialog").locator(".verdict")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page).to_have_url(re.compile(f"query=image-{first}&name=right$"))
        page.get_by_role("button", name="Clear filters").click()
        expect(page).to_have_url(re.compile(f"query=image-{first}$"))
        expect(cards(page).nth(1)).to_be_visible()
        page.get_by_label("Another photograph").set_input_files(photograph)
        assert_found_palace(page)
        page.close()  # it asks the server now and then


def test_nothing_is_claimed_below_the_line(page: Page, server: str, ids: dict[str, int]):
    page.goto(f"{server}/?query=image-{ids['palace/original.jpg']}")
    expect(page.locator(".line")).to_have_text("Not confirmed (confidence below 50 %):")
    claims = page.locator(".results .cards > li").evaluate_all(
        "items => items.map((item) => item.querySelector('.claim')?.className ?? 'line')"
    )
    line = claims.index("line")
    assert "claim unsure" not in claims[:line]
    assert set(claims[line + 1 :]) == {"claim unsure"}


def test_hits_are_counted_as_far_as_they_have_come(page: Page, server: str, ids: dict[str, int]):
    """The query itself and three others are compared with it, and come first; the rest comes later."""
    later: list[Route] = []

    def ask(route: Route, top: int) -> None:
        fields = (route.request.post_data or "").replace('name="top"\r\n\r\n60', f'name="top"\r\n\r\n{top}')
        boundary = fields.partition("\r\n")[0]
        route.continue_(post_data=f'{boundary}\r\nContent-Disposition: form-data; name="verify"\r\n\r\n4\r\n{fields}')

    def ask_or_wait(route: Route) -> None:
        if 'name="offset"\r\n\r\n4' in (route.request.post_data or ""):
            later.append(route)
        else:
            ask(route, 4)

    page.route("**/api/search", ask_or_wait)
    page.goto(f"{server}/?query=image-{ids['palace/original.jpg']}")
    expect(page.locator(".summary")).to_contain_text("At least 3 pictures show the same thing.")
    assert wait_until(lambda: page.evaluate("1") and bool(later))
    ask(later[0], 60)
    expect(page.locator(".line")).to_have_text("Not compared with the query, only similar to it:")
    expect(page.locator(".summary")).to_contain_text(re.compile("^3 pictures show the same thing"))


def test_more_on_scrolling_and_at_the_press_of_a_button(page: Page, server: str):
    """Pages of ten, so that a small gallery has several."""
    page.route("**/api/images?*", lambda route: route.continue_(url=route.request.url.replace("limit=60", "limit=10")))
    page.set_viewport_size({"width": 400, "height": 300})
    page.goto(f"{server}/?view=browse")
    shown = page.locator(".endless .card:not(.skeleton)")
    expect(page.locator(".foot")).to_contain_text("of 35")
    before = shown.count()
    page.get_by_role("button", name="Show more").press("Enter")
    expect(shown.nth(before)).to_be_attached()
    for _ in range(6):
        page.mouse.wheel(0, 4000)
        page.wait_for_timeout(100)
    expect(shown).to_have_count(35)
    expect(page.locator(".foot")).to_be_empty()
