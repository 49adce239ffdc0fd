"""The picture: converts a run into the component's arguments, and handles its actions."""

from typing import cast, get_args
from urllib.parse import urlencode

from explorer.analysis.heads.compare import token_diff
from explorer.analysis.start.flow import Flow, Lane
from explorer.components import start as component
from explorer.components.start import Heads, Moment, Opened, Thread, sent_pick
from explorer.engine.cache import Run
from explorer.exhibits.view import View
from explorer.library import LoadedModel
from explorer.pages.start import cached
from explorer.pages.start.choices import SHUT, StartChoices
from explorer.pages.start.masks import MaskName, in_force, offered, with_mask
from explorer.runs.generation import Generation
from explorer.ui import session

KEY = "start.picture"
PAGES = {
    "positions": "positions",
    "heads": "heads",
    "masks": "masks",
    "head": "cell",
    "steps": "decoding",
}
"""The page that each station of the picture links to."""


def plain_run(view: View) -> Run:
    """The run of the user's text and edits, without padding or a given output."""
    return Run(view.loaded.name, view.text, None, view.edits, 0)


def take_moves(view: View) -> bool:
    """Apply the last action in the picture; return whether there was one."""
    stacks = view.trace.stacks
    sites = [
        [
            [s for s in view.trace.sites if s.stack == stack.role and s.layer == layer]
            for layer in range(stack.n_layers)
        ]
        for stack in stacks
    ]
    heads = [[[site.n_heads for site in block] for block in lane] for lane in sites]
    picked = sent_pick(KEY, heads, get_args(MaskName))
    if picked.link in _links(view).values():
        session.follow(cast(str, picked.link))
    if picked.head is not None:
        lane, block, at, head = picked.head
        site = sites[lane][block][at]
        session.change(site=site.role, layer=site.layer, head=head, door="head")
    elif picked.door is not None:
        session.change(door=picked.door or SHUT)
    elif picked.mask is not None:
        session.change(edits=with_mask(view.edits, cast(MaskName, picked.mask)), step=None)
    else:
        return False
    return True


def show(view: View, made: Generation | None, before: Generation | None) -> Flow:
    """Draw the picture; `before` is the output without the user's edits, if there are any."""
    found = cached.flow(plain_run(view), made, view.edits)
    door = view.choices(StartChoices).door
    component.start(
        threads(view, found),
        moments(found),
        key=KEY,
        masks=[(name, view.t(f"start.masks.{name}")) for name in offered(view)],
        mask=in_force(view.edits),
        diff=()
        if made is None or before is None
        else token_diff(_said(view.loaded, before), _said(view.loaded, made)),
        door="" if door == SHUT else door,
        opened=_opened(view, made, found) if door == "head" else None,
        links=_links(view),
        prompt=_prompt(view, made),
        said=found.steps[-1].text if made is not None else view.text,
        words=view.words("components.start"),
    )
    return found


def _prompt(view: View, made: Generation | None) -> str:
    """The prompt of a text that is continued."""
    if made is None or view.trace.predicts != "next" or view.trace.src_tokens:
        return ""
    return view.loaded.tokenizer.decode(made.given)


def _said(loaded: LoadedModel, made: Generation) -> list[str]:
    return [step.chosen_str for step in made.steps if not loaded.marks.ends(step.chosen)]


def threads(view: View, found: Flow) -> list[Thread]:
    """The sequences of a flow, for the component."""
    return [_thread(view, found, lane) for lane in found.lanes]


def _thread(view: View, found: Flow, lane: Lane) -> Thread:
    last = lane is found.lanes[-1]
    starts = lane.starts
    ends = (*starts[1:], len(lane.tokens))
    tokens = [
        lane.tokens[start] if end - start == 1 else f"{lane.tokens[start]} …"
        for start, end in zip(starts, ends, strict=True)
    ]
    blocks = [
        (
            view.t("start.block", number=layer + 1),
            [
                Heads(
                    title=view.t(f"start.kinds.{each.site.role}"),
                    role=each.site.role,
                    cells=each.pattern,
                    allowed=each.allowed,
                    rows=each.steps,
                    there=each.allowed_then,
                )
                for each in block
            ],
        )
        for layer, block in enumerate(lane.blocks)
    ]
    given = sum(start < found.given for start in starts) if last else len(starts)
    return Thread(
        stream=lane.stack.stream,
        title=view.stream(lane.stack.stream),
        tokens=tokens,
        given=given,
        embedded=lane.embedded,
        waves=lane.waves,
        turns=lane.turns,
        blocks=blocks,
    )


def moments(found: Flow) -> list[Moment]:
    """The steps of a flow, for the component."""
    return [
        Moment(step.thread, step.tokens, step.chances, step.chosen, step.text)
        for step in found.steps
    ]


def _opened(view: View, made: Generation | None, found: Flow) -> Opened:
    site = view.site
    head = cached.open_head(plain_run(view), made, view.edits, site.name, view.head)
    lane = next(at for at, each in enumerate(found.lanes) if each.stack.role == site.stack)
    names = [each.site.name for each in found.lanes[lane].blocks[site.layer]]
    return Opened(
        at=(lane, site.layer, names.index(site.name)),
        head=view.head,
        queries=head.queries,
        keys=head.keys,
        vectors={"q": head.q, "k": head.k, "v": head.v, "z": head.z},
        scores=head.scores,
        allowed=head.allowed,
        pattern=head.pattern,
        whole=(head.n_query, head.n_key),
    )


def _links(view: View) -> dict[str, str]:
    """The link of each station, with the sentence and the model."""
    query = urlencode(session.links().write(view.state))
    names = session.page_names()
    return {what: f"{page}?{query}" for what, page in PAGES.items() if page in names}
