"""The page in a real browser, before the real service of a tiny random model."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from playwright.sync_api import Browser, Error, Page, Request, Response, Route, expect

from jpr.pipeline import Pipeline
from jpr.retrieve.custom import FunctionRetriever
from jpr.serve.tokens import Tokens
from jpr.types import Hit, Passage
from tests.serve.browser import MISSING, browsing
from tests.serve.running import QUESTION, running

ATTACK = (
    "red <img src=x onerror='window.harmed = 1'> which <script>window.harmed = 1</script> colour "
    "<svg onload='window.harmed = 1'></svg> red"
)
PASSAGES = [
    Passage("plain", "blue", "blue which colour blue"),
    Passage("attack", "<b onclick='window.harmed = 1'>red</b>", ATTACK),
    Passage("beyond", "gold", "🙂🙂 gold which 🙂 colour gold"),  # each 🙂 is two for JavaScript
    Passage("again", "gold", "gold which colour"),
    Passage("other", "pink", "pink which colour", {"file": "notes.txt", "page": 3}),
    Passage("more", "blue", "blue blue which"),
]
TOKEN = "open-sesame-0123"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)

Reply = dict[str, Any]


@dataclass
class Visit:
    """A page, what it sent, and what went wrong on it."""

    page: Page
    asked: list[Reply] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    def ask(self, question: str = QUESTION) -> Reply:
        """Type a question, and return what the service answered; the answers get the focus."""
        self.page.get_by_label("What do you want to know?").fill(question)
        reply = self._reply_to(lambda: self.page.keyboard.press("Enter"))
        expect(self.page.locator("#answers-title")).to_be_focused()
        return self._with_repeated(reply)

    def answer_to(self, act: Callable[[], None]) -> Reply:
        """Return what the service answers when something is done."""
        return self._with_repeated(self._reply_to(act))

    def _reply_to(self, act: Callable[[], None]) -> Reply:
        with self.page.expect_response("**/v1/ask") as waited:
            act()
        reply: Reply = waited.value.json()
        expect(self.page.locator("#reply:not([aria-busy])")).to_be_visible()
        return reply

    def _with_repeated(self, reply: Reply) -> Reply:
        """Show passages that add no answer, too, if there are any."""
        every = self.page.get_by_label("show repeated passages")
        if every.is_visible():
            every.check()
        expect(self.page.get_by_role("treeitem")).to_have_count(len(reply["tree"]["nodes"]))
        return reply


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        if found is None:
            pytest.skip(MISSING)
        yield found


@pytest.fixture(scope="module")
def small(pipeline: Pipeline) -> Pipeline:
    """The tiny model over the passages above, all of which it chooses."""
    hits = [Hit(passage, -float(at)) for at, passage in enumerate(PASSAGES)]
    return replace(pipeline, retriever=FunctionRetriever(lambda _, k: hits[:k]), k=len(PASSAGES))


@pytest.fixture(scope="module")
def address(small: Pipeline) -> Iterator[str]:
    with running(small) as found:
        yield found


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Visit]:
    with browser.new_context(reduced_motion="reduce") as context:
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        made = opened(context.new_page(), address)
        yield made
        assert made.troubles == []


def opened(page: Page, address: str) -> Visit:
    visit = Visit(page)

    def note(request: Request) -> None:
        if request.url.endswith("/v1/ask"):
            visit.asked.append(json.loads(request.post_data or ""))

    page.on("request", note)
    page.on("console", lambda line: visit.troubles.append(line.text))  # breaches of the policy, too
    page.on("pageerror", lambda error: visit.troubles.append(str(error)))
    with page.expect_response("**/healthz"):
        page.goto(address)
    return visit


def texts(page: Page, selector: str) -> list[str]:
    return page.locator(selector).all_text_contents()


def no_wider_than(page: Page) -> int:
    width: int = page.evaluate("document.documentElement.scrollWidth")
    return width


def test_asking_shows_the_answers_and_marks_them_in_the_passages(visit: Visit) -> None:
    reply = visit.ask()
    page = visit.page
    assert reply["answers"], "the tiny model reads some answer"
    assert texts(page, "#answers .text") == [answer["text"] for answer in reply["answers"]]
    assert texts(page, ".passage .body > .text") == [one["text"] for one in reply["passages"]]
    for row, passage in zip(page.locator(".passage").all(), reply["passages"], strict=True):
        places = {at for one in passage["spans"] for at in range(one["start"], one["end"])}
        said = "".join(passage["text"][at] for at in sorted(places))  # spans may overlap
        assert "".join(row.locator(".text mark").all_text_contents()) == said
    beyond = next(one for one in reply["passages"] if one["id"] == "beyond")
    assert beyond["spans"], "characters that JavaScript counts twice stand before an answer"
    expect(page.get_by_role("status")).to_contain_text(reply["answers"][0]["text"])
    expect(page.get_by_text("notes.txt")).to_be_visible()


def test_the_tree_has_every_node_and_its_probabilities(visit: Visit) -> None:
    nodes = visit.ask()["tree"]["nodes"]
    page = visit.page
    items = page.get_by_role("treeitem")
    for item, node in zip(items.all(), nodes, strict=True):
        assert item.get_attribute("aria-level") == str(node["depth"])
    at, node = next((at, one) for at, one in enumerate(nodes) if one["instead_of"])
    items.nth(at).hover()
    rows = page.locator("#node tbody tr")
    expect(rows).to_have_count(1 + len(node["instead_of"]))
    share = f"{round(100 * 2.718281828459045 ** node['log_prob'])} %"
    expect(rows.first).to_contain_text(share)
    assert f"probability {share}" in (items.nth(at).get_attribute("aria-label") or "")
    for row, other in zip(rows.all()[1:], node["instead_of"], strict=True):
        expect(row).to_contain_text(f"{other['score']:.2f}".replace("-", "−"))


def test_the_slider_asks_for_a_tree_and_redraws(visit: Visit) -> None:
    visit.ask()
    page = visit.page
    slider = page.get_by_role("slider")
    wide = visit.answer_to(lambda: slider.press("End"))
    assert wide["tree"]["beta"] == 8
    assert visit.asked[-1]["decode"] == "tree"
    expect(page.locator("#beta-value")).to_have_text("= 8.0")
    deep = visit.answer_to(lambda: slider.press("Home"))
    assert deep["tree"]["beta"] == -4
    levels = [
        int(one.get_attribute("aria-level") or 0) for one in page.get_by_role("treeitem").all()
    ]
    assert levels == [node["depth"] for node in deep["tree"]["nodes"]]
    visit.answer_to(page.get_by_role("button", name="Reset to the model’s default").click)
    assert "beta" not in visit.asked[-1]


def test_html_in_a_passage_is_text_and_nothing_of_it_runs(visit: Visit) -> None:
    visit.ask()
    page = visit.page
    row = page.locator(".passage", has_text="onerror")
    assert row.locator(".text").text_content() == ATTACK
    assert row.locator("h3").text_content() == PASSAGES[1].title
    page.get_by_role("radio", name="Compare with independent").check()
    for element in ("img", "script", "svg", "b"):
        assert page.locator(f"#passages {element}, #tree svg {element}").count() == 0
    assert page.evaluate("window.harmed") is None


def test_html_in_names_of_files_and_in_answers_is_text_too(visit: Visit) -> None:
    page, harm = visit.page, "<img src=x onerror='window.harmed = 1'>"
    page.evaluate(
        DROP, [f"{harm}.txt", f"lime which {harm} <script>window.harmed = 1</script> lime"]
    )
    expect(page.locator("#corpus")).to_contain_text(f"{harm}.txt")
    reply = visit.ask(f"which colour ? {harm}")
    assert harm in reply["passages"][0]["title"] + reply["passages"][0]["id"]

    def answer(route: Route) -> None:
        reply = route.fetch().json()
        reply["answers"] = [{"text": harm, "score": 0.5, "passages": [reply["passages"][0]["id"]]}]
        reply["passages"][0] |= {"adds": [harm], "meta": {"file": harm, "page": harm}}
        route.fulfill(json=reply)

    page.route("**/v1/ask", answer)
    visit.ask(f"which colour now ? {harm}")
    expect(page.locator("#answers")).to_contain_text(harm)
    page.get_by_role("radio", name="Compare with independent").check()
    assert page.locator("img, script:not([src])").count() == 0
    assert page.evaluate("window.harmed") is None


def test_the_strictest_policy_holds(visit: Visit, address: str) -> None:
    page = visit.page

    def strictly(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(
            response=answer, headers={**answer.headers, "content-security-policy": POLICY}
        )

    page.route(f"{address}/", strictly)
    page.goto(address)
    visit.ask()
    page.get_by_role("treeitem").first.hover()
    page.get_by_role("radio", name="Compare with independent").check()
    with pytest.raises(Error, match="TrustedHTML"):
        page.evaluate("document.body.innerHTML = '<p>'")
    visit.troubles.clear()  # of the line before


def test_the_service_sends_a_policy(browser: Browser, address: str) -> None:
    with browser.new_context() as context:
        response = context.new_page().goto(address)
        assert isinstance(response, Response)
        policy = response.headers["content-security-policy"]
    assert policy == POLICY


def test_examples_are_offered_for_the_encyclopedia(visit: Visit) -> None:
    page = visit.page
    page.route("**/healthz", lambda route: route.fulfill(json={"corpus": "encyclopedia", "k": 2}))
    page.reload()
    expect(page.locator("#corpus")).to_have_text("Asking the demo encyclopedia")
    example = page.get_by_role("button", name="Eli Whitney")
    reply = visit.answer_to(example.click)
    assert len(reply["passages"]) == 2
    expect(example).to_be_hidden()


def test_the_independent_ranking_stands_beside_with_its_repeats(visit: Visit) -> None:
    reply = visit.ask()
    page = visit.page
    page.get_by_role("radio", name="Compare with independent").check()
    column = page.get_by_role("region", name="Ranked independently")
    rows = column.locator(".brief").all()
    alone = reply["independent"]
    assert len(rows) == len(alone["passages"])
    covered: set[str] = set()
    for row, passage in zip(rows, alone["passages"], strict=True):
        held = {one["text"] for one in alone["answers"] if passage["id"] in one["passages"]}
        assert row.locator(".badge:not(.again)").count() == len(held - covered)
        assert row.locator(".badge.again").count() == len(held & covered)
        covered |= held
    assert column.locator(".badge.again").count() > 0


def test_the_keyboard_alone_does_it_all(visit: Visit) -> None:
    page, press = visit.page, visit.page.keyboard.press
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the question")).to_be_focused()
    press("Enter")
    page.keyboard.type(QUESTION)
    reply = visit.answer_to(lambda: press("Enter"))
    tabbed_to(page, "#copy-context")
    press("Enter")
    expect(page.locator("#copy-context")).to_have_text("Copied")
    tabbed_to(page, "#beta")
    visit.answer_to(lambda: press("ArrowRight"))
    tabbed_to(page, ".item")
    press("End")
    expect(page.get_by_role("treeitem").last).to_be_focused()
    press("Home")
    expect(page.locator("#node .which")).to_be_visible()
    press("Enter")
    expect(page.locator("#passage-1")).to_be_focused()
    press("Shift+Tab")
    expect(page.get_by_role("radio", name="Joint")).to_be_focused()
    press("ArrowRight")
    expect(page.get_by_role("region", name="Chosen jointly")).to_be_visible()
    assert len(reply["passages"]) == page.locator(".column").first.locator("li").count()


def tabbed_to(page: Page, selector: str) -> None:
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("one => document.activeElement.matches(one)", selector):
            return
    pytest.fail(f"Tab does not come to {selector}")


def test_a_late_hashchange_event_asks_nothing_again(visit: Visit) -> None:
    """The link to the question changes the address, too; its event may come after a question."""
    visit.ask()
    late = (
        "dispatchEvent(new HashChangeEvent('hashchange', {newURL: `${location.origin}/#question`}))"
    )
    visit.page.evaluate(late)
    visit.page.wait_for_timeout(100)
    assert len(visit.asked) == 1


@pytest.mark.parametrize("width", [320, 360])
def test_nothing_is_wider_than_a_phone(visit: Visit, width: int) -> None:
    page = visit.page
    page.set_viewport_size({"width": width, "height": 740})
    assert no_wider_than(page) == width
    visit.ask()
    assert no_wider_than(page) == width
    page.get_by_role("treeitem").first.hover()
    page.get_by_role("radio", name="Compare with independent").check()
    assert no_wider_than(page) == width


CONTRAST = """selector => {
  const parsed = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parsed(getComputedStyle(at).backgroundColor);
      if (colour.length === 3) return colour;
    }
  };
  return [...document.querySelectorAll(selector)].map((element) => {
    const both = [light(parsed(getComputedStyle(element).color)), light(behind(element))];
    return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
  });
}"""


def test_light_and_dark_follow_the_system_or_the_button_and_can_be_read(visit: Visit) -> None:
    page = visit.page
    backgrounds = []
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        visit.ask()
        page.get_by_role("treeitem").first.hover()
        found = page.evaluate(
            CONTRAST, "p, a, h2, h3, label, .badge:not(.again), .share, td, th, .main"
        )
        assert len(found) > 20
        assert min(found) >= 4.5
        backgrounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert backgrounds[0] != backgrounds[1]
    page.get_by_role("button", name="Light theme").click()
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == backgrounds[0]
    expect(page.get_by_role("button", name="Dark theme")).to_be_visible()


DROP = """([name, text]) => {
  const files = new DataTransfer();
  files.items.add(new File([text], name, { type: "text/plain" }));
  for (const kind of ["dragenter", "drop"]) {
    const event = new DragEvent(kind, { dataTransfer: files, bubbles: true, cancelable: true });
    document.body.dispatchEvent(event);
  }
}"""


def test_files_that_are_dropped_are_asked(visit: Visit) -> None:
    page = visit.page
    page.evaluate(DROP, ["colours.txt", "lime which colour lime ."])
    expect(page.locator("#corpus")).to_have_text("Asking colours.txt, 1 passage")
    expect(page.get_by_label("What do you want to know?")).to_be_focused()
    reply = visit.ask()
    assert visit.asked[-1]["corpus"]
    assert [one["text"] for one in reply["passages"]] == ["lime which colour lime ."]
    page.get_by_role("button", name="Remove these files").click()
    expect(page.locator("#reply")).to_be_hidden()
    visit.ask()
    assert "corpus" not in visit.asked[-1]


def test_what_the_service_refuses_is_said(visit: Visit) -> None:
    page = visit.page
    page.locator("#files").set_input_files(
        {"name": "tune.mp3", "mimeType": "audio/mpeg", "buffer": b"la"}
    )
    expect(page.get_by_role("alert")).to_contain_text("tune.mp3")
    visit.troubles.clear()  # the browser notes every status of 400 and above
    visit.ask()
    expect(page.get_by_role("alert")).to_be_hidden()


def test_a_busy_service_is_asked_again(visit: Visit) -> None:
    answers = iter([429])

    def answer(route: Route) -> None:
        if status := next(answers, None):
            route.fulfill(status=status, headers={"Retry-After": "3"}, json={"message": "busy"})
        else:
            route.fallback()

    visit.page.route("**/v1/ask", answer)
    page = visit.page
    page.get_by_label("What do you want to know?").fill(QUESTION)
    page.keyboard.press("Enter")
    expect(page.locator("#busy")).to_contain_text("retrying in")
    expect(page.locator(".passage")).to_have_count(len(PASSAGES))
    expect(page.locator("#busy")).to_be_hidden()
    visit.troubles.clear()


def test_the_token_is_asked_for_once(browser: Browser, small: Pipeline) -> None:
    with (
        running(small, tokens=Tokens.of_text(TOKEN, "here")) as address,
        browser.new_context() as context,
    ):
        visit = opened(context.new_page(), address)
        page = visit.page
        page.get_by_label("What do you want to know?").fill(QUESTION)
        page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Token").fill("open barley")
        page.keyboard.press("Enter")
        expect(dialog).to_contain_text("Wrong token")
        dialog.get_by_label("Token").fill(TOKEN)
        page.keyboard.press("Enter")
        expect(page.locator(".passage")).to_have_count(len(PASSAGES))
        visit.ask()
        expect(dialog).to_be_hidden()


def test_a_reply_is_copied_as_json_and_as_context(visit: Visit) -> None:
    reply = visit.ask()
    page = visit.page
    page.get_by_role("button", name="Copy JSON").click()
    expect(page.locator("#copy-json")).to_have_text("Copied")
    assert json.loads(page.evaluate("navigator.clipboard.readText()")) == reply
    page.get_by_role("button", name="Copy for an LLM").click()
    expect(page.locator("#copy-context")).to_have_text("Copied")
    context = page.evaluate("navigator.clipboard.readText()")
    assert f"Question: {QUESTION}\n" in context
    for place, passage in enumerate(reply["passages"], start=1):
        assert f"[{place}] {passage['title']} (id: {passage['id']})\n{passage['text']}\n" in context


def test_texts_are_cut_where_answers_stand(visit: Visit) -> None:
    call = "([name, ...given]) => import('/reply.js').then((all) => all[name](...given))"

    def called(name: str, *given: object) -> object:
        found: object = visit.page.evaluate(call, [name, *given])
        return found

    spans = [{"answer": 0, "start": 2, "end": 5}, {"answer": 1, "start": 4, "end": 6}]
    assert called("pieces", "🙂 abcd", spans) == [
        {"text": "🙂 ", "answers": []},
        {"text": "ab", "answers": [0]},
        {"text": "c", "answers": [0, 1]},
        {"text": "d", "answers": [1]},
    ]
    cut = called("excerpt", "one two three four five", [{"answer": 0, "start": 14, "end": 18}], 9)
    assert cut == {"text": "… four five", "spans": [{"answer": 0, "start": 2, "end": 6}]}
    assert [called("letter", place) for place in (0, 25, 26)] == ["A", "Z", "A2"]


def test_the_question_is_in_the_address_and_comes_back(visit: Visit) -> None:
    visit.ask()
    page = visit.page
    visit.answer_to(lambda: page.get_by_role("slider").press("End"))
    assert "beta=8" in page.url
    page.reload()
    expect(page.locator("#beta-value")).to_have_text("= 8.0")
    expect(page.locator(".passage")).to_have_count(len(PASSAGES))
