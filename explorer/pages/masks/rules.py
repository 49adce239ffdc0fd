"""The named parts of the masks: switches, numbers, and PADs."""

from typing import Any

import streamlit as st

from explorer.exhibits.links import MOST_PADS
from explorer.exhibits.view import View
from explorer.pages.masks import history
from explorer.runs.edits import (
    SIZE_PARTS,
    USUAL_MASKS,
    Edit,
    MaskPart,
    MaskSize,
    MaskSwitch,
    SizePart,
)
from explorer.runs.interventions import rules_in_force, sizes_in_force
from explorer.ui import controls, session
from models.hooks import Role

_CONCERNS: dict[str, Role] = {"cross_pad": "cross", "causal": "decoder", "prefix": "decoder"}
"""The kind of attention that a rule is about, where it is about one alone."""


def rules(view: View) -> None:
    """One row of switches, and below it what is changed, in words: these are sent first."""
    in_force = rules_in_force(view.edits)
    switches = st.container(horizontal=True, vertical_alignment="center", gap="medium")
    controls.edits_bar(view, "masks.reset", reset=_reset)
    with switches:
        st.session_state["masks.pads"] = view.pads
        st.slider(
            view.t("masks.pads"),
            0,
            MOST_PADS,
            key="masks.pads",
            width=170,
            on_change=lambda: session.change(pads=st.session_state["masks.pads"]),
        )
        for part in USUAL_MASKS:
            if not _concerns(view, part):
                continue
            key = f"masks.{part}"
            st.session_state[key] = in_force[part]
            st.toggle(
                view.t(f"edits.{part}"),
                key=key,
                help=view.t(f"masks.{part}_help"),
                on_change=_switch,
                args=(part,),
            )
        with st.popover(view.t("masks.further")):
            _sizes(view, in_force)


def _concerns(view: View, part: MaskPart | SizePart) -> bool:
    """Whether this model has any attention that a rule is about."""
    return part not in _CONCERNS or bool(view.sites_of(_CONCERNS[part]))


def _sizes(view: View, in_force: dict[MaskPart, bool]) -> None:
    """Sliding window, prefix and blocks: each a number, 0 for off."""
    sizes = sizes_in_force(view.edits)
    windows = [site.window for site in view.loaded.sites if site.kind == "self"]
    own = [window for window in windows if window is not None]
    if own:
        sizes_of_it = {"layers": len(own), "all": len(windows), "before": f"{own[0] - 1:,}"}
        st.caption(view.t("masks.own_window", **sizes_of_it))
    longest = max(len(view.trace.src_tokens), len(view.trace.tgt_tokens), *sizes.values(), 2)
    for part in SIZE_PARTS:
        if not _concerns(view, part):
            continue
        key = f"masks.{part}"
        st.session_state[key] = sizes.get(part, 0)
        st.slider(
            view.t(f"edits.{part}"),
            0,
            longest,
            key=key,
            help=view.t(f"masks.{part}_help"),
            disabled=part == "prefix" and not in_force["causal"],
            on_change=_resize,
            args=(part,),
        )


def _switch(part: MaskPart) -> None:
    """Only what differs from the usual masks is an edit, so a link says what was changed."""
    on = bool(st.session_state[f"masks.{part}"])
    _replace(part, () if on == USUAL_MASKS[part] else (MaskSwitch(part, on),))


def _resize(part: SizePart) -> None:
    size = int(st.session_state[f"masks.{part}"])
    _replace(part, (MaskSize(part, size),) if size else ())


def _replace(part: str, change: tuple[Edit, ...]) -> None:
    """The rules come before the painted cells, which are applied on top of them."""

    def is_rule(edit: Edit) -> bool:
        return isinstance(edit, MaskSwitch | MaskSize)

    edits = session.state().edits
    others = [edit for edit in edits if is_rule(edit) and _part(edit) != part]
    history.change_edits((*others, *change, *(edit for edit in edits if not is_rule(edit))))


def _part(edit: Any) -> str:
    return str(edit.part)


def _reset() -> None:
    history.change_edits(())
    session.change(pads=None)
