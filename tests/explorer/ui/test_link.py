"""State <-> link: whatever can be chosen comes back from its own link, and nothing else does."""

from dataclasses import fields, make_dataclass
from functools import partial
from urllib.parse import parse_qsl

import pytest
from hypothesis import given, strategies as st
from shown import words_of
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from explorer import shell
from explorer.components.heads_payload import MAX_PINNED
from explorer.exhibits.block import escape
from explorer.exhibits.choices import PartChoices, ScreenChoices, choice, form_of
from explorer.exhibits.links import FREE, MOST_PADS, Links, State
from explorer.exhibits.positions.choices import MOST_DIMS
from explorer.pages import MENU, PAGES
from explorer.render import app
from explorer.runs.edits import parse_edits
from explorer.shell import LINKS
from explorer.text import EARLIER, t
from explorer.ui import controls, session
from models.hooks import ROLES
from models.strategies import Beam, Greedy, Sample

index = st.none() | st.integers(0, 900)
place = st.one_of(
    st.tuples(st.integers(0, 900), st.integers(0, 900)),
    st.sampled_from(["mean-1", "mean-12", "rollout"]),
)
beam = st.builds(
    Beam, width=st.integers(1, 8), length_penalty=st.sampled_from([0.0, 0.6, 1.0, 1.9, 2.0])
)
sample = st.builds(
    Sample,
    temperature=st.sampled_from([0.0, 0.1, 0.7, 1.0, 3.0]),
    top_k=st.integers(0, 100),
    top_p=st.sampled_from([0.0, 0.05, 0.5, 0.95, 1.0]),
    seed=st.integers(0, 9999),
)
strategy = st.one_of(st.just(Greedy()), beam, sample)
read, write = LINKS.read, LINKS.write
states = st.builds(
    partial(LINKS.change, State()),
    text=st.none() | st.text(max_size=30),
    target=st.none() | st.text(max_size=30),
    site=st.sampled_from(ROLES),
    layer=index,
    head=index,
    row=index | st.just(FREE),
    step=index,
    edits=st.sampled_from([(), parse_edits("causal-off~head-blocks.1.attn-2")]),
    pads=st.none() | st.integers(0, MOST_PADS),
    instead=st.sampled_from(["", "none", "mean-2", "rollout"]),
    pins=st.lists(place, max_size=MAX_PINNED, unique=True).map(tuple),
    strategy=strategy,
    dims=st.none() | st.lists(st.integers(0, 1023), max_size=MOST_DIMS, unique=True).map(tuple),
    gamma=st.tuples(*[st.integers(0, 300)] * 6),
    fork=st.lists(st.integers(0, 9999), max_size=5).map(tuple),
    with_=st.text(max_size=20),
    with_head=st.none() | st.tuples(st.integers(0, 998), st.integers(0, 998)),
)
"""What is written in a form of its own; `OLD` has a value of every other choice."""


REFUSED = (
    *("lang xx", "theme pink", "site everywhere", "layer zero", "layer 0", "head -1", "row x"),
    *("instead 2.5", "pins 1.1_1.1", "pins 0.1", "measure length", "by_measure 2", "scale cubic"),
    *("step 1e3", "pads 99", "pads 00000000099", "edits causal-maybe", "strategy beam-0-9"),
    *("strategy sample-nan-0-1-1", "strategy beam-3-1-sooner", "base 1", "width ١٢", "key x"),
    *("stage 6", "goal -1", "aside all", "scaling √", "init zeros", "drop 95"),
    *("gradient z", "rendering 2", "reader numpy", "way often"),
    *("lowered 60001", "gamma 1-2", "gamma 1-2-3-4-5-999", "gamma a-b-c-d-e-f", "change swap-1"),
    *("change shift-9999", "change <b>", "aligner longest", "case none", "claim flat_earth"),
    *("guess maybe", "guessed 2", f"guessed {'1' * 99}", "guessed true", "guessed 10x", "task <b>"),
    *("across nothing", "sentence 99", "sheet ../../etc", "programs ???"),
    *("answers look.9999.1.aaaa", "answers <b>.1.1.a", "answers look.1.1.a~look.2.0.b"),
)
"""A name and a value that it cannot have."""


@pytest.mark.parametrize("refused", REFUSED)
def test_a_value_that_no_choice_has_is_refused(refused):
    name, value = refused.split(" ")
    state, said = read({name: value, "text": "I like you."})
    assert said == ((name, value),)
    assert state == State(text="I like you.")


def test_no_two_pages_may_use_one_name_in_links():
    one = make_dataclass("OneChoices", [("depth", int, choice(1, int))], frozen=True)
    other = make_dataclass("OtherChoices", [("depth", int, choice(2, int))], frozen=True)
    shared = make_dataclass("SharedName", [("layer", int, choice(0, int))], frozen=True)
    assert Links(one).read({"depth": "7"})[0].of(one) == one(7)
    with pytest.raises(ValueError, match=r"OneChoices and OtherChoices .* 'depth'"):
        Links(one, other)
    with pytest.raises(ValueError, match=r"State and SharedName .* 'layer'"):
        Links(shared)


def test_every_field_can_stand_in_a_short_link_that_counts_from_one():
    """A control that a page keeps but no link carries would be lost on reload."""
    for kind in (State, ScreenChoices, PartChoices, *(page.choices for page in PAGES)):
        missing = {each.name for each in fields(kind) if form_of(each) is None}
        assert missing <= {"owned"}, kind
    place = {"layer": "1", "head": "5", "step": "3"}
    assert write(State(layer=0, head=4, step=2)) == {"lang": "en", **place}


@given(states)
def test_every_state_comes_back_and_another_kind_of_attention_forgets_places(state):
    assert read(write(state)) == (state, ())
    left = LINKS.elsewhere(state)
    for name in ("layer", "head", "row", "instead", "pins", "with_head"):
        assert LINKS.chosen(left, name) == LINKS.chosen(State(), name)
    kept = {name: words for name, words in write(state).items() if name in write(left)}
    assert write(left) == kept
    pointing = {"layer", "head", "row", "instead", "pins", "with_head"}
    assert write(state).keys() - kept.keys() <= pointing


@given(st.text(max_size=40))
def test_escaped_text_has_no_mark_that_markdown_acts_on(text):
    rest = escape(text)
    for number in {ord(character) for character in text}:
        rest = rest.replace(f"&#{number};", "")
    for name in ("91", "93", "43"):  # the marks of what `show` names: [U+202E]
        rest = rest.replace(f"&#{name};", "")
    assert not set(rest) & set("\\`*_{}[]()<>#+-.!|~$:&\"'\n\r")


def test_a_change_of_page_drops_the_address_and_keeps_the_choice(open_page):
    at = open_page("heads", layer="1", head="3", text="I like you.")
    at.query_params.clear()
    at.run()
    assert "L1·H3" in "".join(words_of(each) for each in at.markdown)
    assert at.query_params["text"] == "I like you."


def test_the_address_follows_once_the_words_are_sent(open_page, monkeypatch):
    order: list[str] = []
    write = session.write_link

    def noted() -> None:
        order.append("link")
        write()

    monkeypatch.setattr(session, "write_link", noted)
    monkeypatch.setattr(controls, "words_first", lambda run: order.append("words"))
    at = open_page("masks", edits="causal-off")
    assert order == ["words", "link"]
    assert at.query_params["edits"] == "causal-off"


def test_the_picture_that_a_choice_changes_is_painted_before_those_above_it(open_page, monkeypatch):
    painted: list[object] = []
    is_new = False

    def changed(name: str, now: tuple[object, ...]) -> bool:
        assert (name, now[0].name) == ("masks.effect", "decoder.blocks.1.attn")
        return is_new

    monkeypatch.setattr(app, "is_new", changed)
    monkeypatch.setattr(app, "_exhibit", lambda sheet, exhibit: painted.append(exhibit.name))
    monkeypatch.setattr(app, "pause", lambda: painted.append("pause"))
    at = open_page("masks", site="decoder", layer="2")
    order = [*painted]
    painted.clear()
    is_new = True
    at.run()
    order.remove("masks.effect")
    assert painted == ["masks.effect", "pause", *order]


OLD = (
    "?site=encoder&layer=2&head=1&row=3&measure=entropy&with=writer",
    "heads?site=decoder&layer=1&head=2&instead=rollout&pins=2.1_mean-1&scale=log&own_range=1&words=1",
    "cell?layer=2&head=3&row=1&key=2&stage=2&goal=2&aside=backward&scaling=model&init=gpt2&drop=20",
    "masks?part=conventions&pads=2&edits=causal-off&rendering=billion&reader=added&picture=scores",
    "masks?part=fills&way=added&lowered=2",
    "positions?part=sum&place=2",
    "positions?part=rotary&theme=dark&kv_heads=2&stream=tgt&base=100&width=32&dims=2&layout=half",
    "positions?part=table&length=50&change=reverse&shuffle=2",
    "blocks?part=residual&norm=batchnorm&depth=24&final=0&gamma=110-100-100-100-100-90",
    "machine?sizes=2-4-8&unfolded=2",
    "decoding?part=branches&strategy=beam-4-0.6&fork=7.9&limit=12&sample=sample-0.8-40-0.95-1",
    "causes?part=lens&beside_key=2&word=2&rival=2&alone=1&filmed=1",
    "patching?second=I+like+you.&align=1-2&into=first&what=attn_out&cell=decoder-1-2",
    "alignment?part=matrices&aligner=best&word_row=write&back=zh-en",
    "circuits?part=circuit&behaviour=duplicate&made_of=by-hand&head_map=qk",
    "atlas?across=alignment&up=entropy&sentence=4",
    "certificate?tested=1",
    "clinic?case=inverted_causal",
    "training?part=opened&room=abc&shown=2&moment=20",
    "workshop?part=sheets&task=softmax&solved=causal&solver=Ann",
    "claims?claim=mha_count&guess=true&guessed=10",
    "path?part=sheet&lesson=causal&sheet=causal~look&sheet_title=Masks&solutions=1&learner=Ann",
)
"""Links as pages of f3be6ec wrote them, with Heads at the root."""


def test_the_menu_has_at_most_sixteen_views_and_every_page():
    assert sum(len(group.views) for group in MENU) <= 16
    linked = {name for group in MENU for name in group.views + group.inner}
    assert linked == {*(page.name for page in PAGES), "models", "glossary"}


def test_a_link_to_a_page_of_the_earlier_menu_opens_its_view(app, monkeypatch):
    monkeypatch.setattr(shell, "draw_page", lambda *page: session.write_link())
    for link in OLD:
        place, _, query = link.partition("?")
        place, _, implied = EARLIER.get(place, place).partition("?")  # redirected
        asked = (
            dict(parse_qsl(implied))
            | dict(parse_qsl(query))  # of two values of a choice, the last applies
            | {"lang": "zh", "text": "I like you."}
        )
        at = AppTest.from_file("../../../app.py", default_timeout=60)
        at._page_hash = calc_hash(place) if place else ""
        for name, value in asked.items():
            at.query_params[name] = value
        at.run()
        shown = {"": "heads", "models": "shelf"}.get(place, place)
        assert [title.value for title in at.title] == [t(f"{shown}.title", lang="zh")], link
        assert {name: at.query_params[name] for name in asked} == asked, link


@pytest.mark.parametrize(("chosen", "model"), [("part", "zh-en"), ("text", None)])
def test_a_link_to_no_run_opens_the_model_of_a_first_visit(monkeypatch, shipped, chosen, model):
    monkeypatch.setattr(shell, "draw_page", lambda *page: session.write_link())
    at = AppTest.from_file("../../../app.py", default_timeout=60)
    at.query_params |= {"lang": "en", chosen: "order"}
    assert at.run().query_params.get("model") == model


def _interrupted() -> None:
    import streamlit as st

    from explorer.shell import LINKS
    from explorer.ui import session

    session.start(LINKS)
    st.text_input(
        "words", on_change=lambda: session.change(text=st.session_state["words"]), key="words"
    )
    st.text(session.state().text)  # and no address is written


def test_a_change_survives_runs_that_are_interrupted_before_they_write_the_link(app):
    at = AppTest.from_function(_interrupted, default_timeout=60)
    at.query_params["text"] = ""
    at.run().text_input(key="words").input("I like dogs.").run()
    assert "I like dogs." in [each.value for each in at.run().text]


def _with_an_old_address() -> None:
    import streamlit as st

    from explorer.shell import LINKS
    from explorer.ui import session

    session.start(LINKS)
    if session.state().text == "":
        session.change(text="I like dogs.")
        session.write_link()
        st.query_params["text"] = ""  # of the request that began this run
        session.run_page()
    st.text(session.state().text)


def test_a_run_of_the_whole_page_keeps_a_choice_that_the_address_precedes(app):
    at = AppTest.from_function(_with_an_old_address, default_timeout=60)
    at.query_params["text"] = ""
    assert [text.value for text in at.run().text] == ["I like dogs."]
