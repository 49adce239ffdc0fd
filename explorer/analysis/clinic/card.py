"""What a pitfall is: wrong code that runs, the correct code, and what tells them apart."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from explorer.analysis.certificate.probe import Subject
from explorer.labels import SpecialToken
from explorer.runs.trace import Trace
from models.hooks import AttentionSite, Edits
from models.masks import causal_mask, padding_mask
from models.rows import Rows

START, END, PAD = (SpecialToken(name) for name in ("<s>", "</s>", "<pad>"))
"""Labels in made-up rows."""

Group = Literal["masks", "shapes", "fills", "padding", "model", "training"]
"""In the order of the page; words at `clinic.groups.*`."""
Needs = Literal["", "causal", "both_ways", "added", "end"]
"""What a model must have for a bug to be injected: anything, causal self-attention, attention in
which only padding is masked, positions added to the embeddings, an end mark. Words at
`clinic.absent.*`."""
Pattern = Callable[[Tensor, Tensor], Tensor]
"""(scores, keep), both [batch, head, query, key], keep Bool with True = may attend -> pattern."""
Plant = Callable[[Subject, Rows], Edits]
"""The fault as a visitor of every run over these rows: the wrong lines in place of ours."""


@dataclass(frozen=True)
class Figure:
    """One number, with the wrong lines and with the right ones; its words: `clinic.figures.*`.

    `of` fills {of} in those words: which item, head, layer or width, where there are several.
    """

    name: str
    wrong: float
    right: float
    of: str = ""

    @property
    def label_key(self) -> str:
        return f"clinic.figures.{self.name}"


@dataclass(frozen=True, eq=False)
class Picture:
    """Two matrices [row, column] of equal shape, to be shown side by side.

    Of a pattern it is the `head` in which the two differ most, and `hidden` are the cells that
    must not be seen; both None for anything else.
    """

    wrong: np.ndarray
    right: np.ndarray
    head: int | None = None
    hidden: np.ndarray | None = None


@dataclass(frozen=True)
class Tried:
    """One case in which both ran: the error that each raised, "" for none."""

    of: str
    wrong: str
    right: str


@dataclass(frozen=True, eq=False)
class Demonstration:
    """What a pitfall does. `own`: measured on the reader's sentence, else on a small fixed case;
    `fresh`: in small new modules, not in the reader's model.

    `wrong` and `right` are what a picture shows side by side, of equal shape where both exist: a
    pattern [head, query, key], or a table [row, column], Bool where it says what is seen. `site` is
    the attention site of a reader's own pattern; else `columns` may name columns. `tried` is where
    the lines raise an error and where they do not, if that differs from case to case.
    """

    figures: tuple[Figure, ...]
    wrong: np.ndarray | None = field(default=None, repr=False)
    right: np.ndarray | None = field(default=None, repr=False)
    own: bool = False
    site: str = ""
    columns: tuple[str, ...] = ()
    tried: tuple[Tried, ...] = ()
    fresh: bool = False

    @property
    def picture(self) -> Picture | None:
        """The two matrices to be drawn; None where numbers alone say it."""
        if self.wrong is None or self.right is None:
            return None
        if self.right.ndim == 2 and not np.isfinite(self.wrong).all():
            return None
        if self.right.ndim == 2:
            return Picture(self.wrong, self.right)
        apart = np.nan_to_num(np.abs(self.wrong - self.right), nan=2.0).sum((1, 2))
        head = int(apart.argmax())
        right = self.right[head]
        return Picture(self.wrong[head], right, head, hidden=right == 0)


@dataclass(frozen=True)
class Pitfall:
    """A common mistake. Its words are at `clinic.<id>.*` in the text files.

    `demonstrate(traced)` measures it on a Trace, or with None on a fixed case. `plant` puts it into
    a model's own run; None where it does not live in a forward pass. `cached`: it shows only in
    decoding with a cache. `batched`: it leaves the first sentence of a batch intact. `left`: it
    shows only with padding on the left, so the rows are read with this many PADs there. A model
    without what it `needs` cannot have it.
    """

    id: str
    group: Group
    wrong: Callable[..., Any]
    right: Callable[..., Any]
    demonstrate: Callable[[Trace | None], Demonstration]
    plant: Plant | None = None
    cached: bool = False
    batched: bool = False
    left: int = 0
    needs: Needs = ""

    def fits(self, model: Subject, rows: Rows) -> bool:
        """Whether injecting it changes anything in a run of this model."""
        return self.plant is not None and bool(self.plant(model, rows).functions)

    @property
    def title_key(self) -> str:
        return f"clinic.{self.id}.title"

    @property
    def symptom_key(self) -> str:
        return f"clinic.{self.id}.symptom"

    @property
    def silent_key(self) -> str:
        """The text key of why no error is raised."""
        return f"clinic.{self.id}.silent"

    @property
    def right_key(self) -> str:
        """The text key of what to write instead."""
        return f"clinic.{self.id}.right"

    @property
    def wrong_source(self) -> str:
        """The wrong lines, as they run."""
        return lines_of(self.wrong)

    @property
    def right_source(self) -> str:
        """The right lines, as they run."""
        return lines_of(self.right)


def lines_of(function: Callable[..., Any]) -> str:
    """The source lines of a function, without its docstring."""
    source = textwrap.dedent(inspect.getsource(function))
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.FunctionDef)
    lines = source.splitlines()
    if ast.get_docstring(definition) is not None:
        said = definition.body[0]
        del lines[said.lineno - 1 : said.end_lineno]
    return "\n".join(lines).strip()


# Which sites a fault is shown at and planted into.


def decoder_self(site: AttentionSite) -> bool:
    """Causal self-attention."""
    return site.kind == "self" and site.stack == "decoder"


def padding_only(site: AttentionSite) -> bool:
    """Where padding is all that a mask hides: the encoder and cross-attention."""
    return not decoder_self(site)


def everywhere(site: AttentionSite) -> bool:
    """Every attention site."""
    return True


# Cases to show a fault on.


def fixed_scores(
    batch: int = 2, n_heads: int = 3, n_query: int = 5, n_key: int = 5, seed: int = 0
) -> Float[Tensor, "batch head query key"]:
    """Scores N(0, 1), the same in every run."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, n_heads, n_query, n_key, generator=generator)


def causal_keep(scores: Tensor) -> Bool[Tensor, "batch head query key"]:
    """The causal mask at the full shape of the scores."""
    return causal_mask(*scores.shape[-2:]).expand(scores.shape)


def padded_keep(scores: Tensor, n_pads: int = 2) -> Bool[Tensor, "batch head query key"]:
    """The mask that hides the last keys, as padding on the right, at the shape of the scores."""
    valid = torch.ones(scores.shape[0], scores.shape[-1], dtype=torch.bool)
    valid[:, scores.shape[-1] - n_pads :] = False
    return padding_mask(valid).expand(scores.shape)


def own_case(
    traced: Trace | None, where: Callable[[AttentionSite], bool]
) -> tuple[Tensor, Tensor] | None:
    """Scores and mask [1, head, query, key] of a Trace's first such site; None if it has none."""
    for site in traced.sites if traced else ():
        if where(site) and traced is not None:
            scores = torch.tensor(traced.activations[site.hook("scores")])[None]
            return scores, torch.tensor(traced.mask(site.name))[None]
    return None


def own_site(traced: Trace | None, where: Callable[[AttentionSite], bool]) -> str:
    """The name of the site that `own_case` takes; "" if there is none."""
    return next((site.name for site in traced.sites if where(site)), "") if traced else ""


def hidden_mass(pattern: Tensor, keep: Tensor) -> float:
    """The most weight that any row puts on keys that it must not see."""
    return float((pattern * ~keep).sum(-1).max())


def row_sum_error(pattern: Tensor, keep: Tensor) -> float:
    """How far the sum of a row that may see something is from 1, at most."""
    return float(((pattern.sum(-1) - 1).abs() * keep.any(-1)).max())


def compared(
    wrong: Pattern,
    right: Pattern,
    where: Callable[[AttentionSite], bool],
    fixed: Callable[[Tensor], Tensor],
) -> Callable[[Trace | None], Demonstration]:
    """A demonstration of two ways from scores to pattern, at the first site that is `where`.

    Without a Trace: on fixed scores, under the mask that `fixed` makes for them.
    """

    def demonstrate(traced: Trace | None = None) -> Demonstration:
        """Both patterns of one case, and how much weight is where it must not be."""
        own = own_case(traced, where)
        scores = fixed_scores()
        scores, keep = own or (scores, fixed(scores))
        bad, good = wrong(scores, keep), right(scores, keep)
        return Demonstration(
            figures=(
                Figure("hidden_mass", hidden_mass(bad, keep), hidden_mass(good, keep)),
                Figure("row_sum_error", row_sum_error(bad, keep), row_sum_error(good, keep)),
                Figure("largest_change", float((bad - good).abs().max()), 0.0),
            ),
            wrong=bad[0].numpy(),
            right=good[0].numpy(),
            own=own is not None,
            site=own_site(traced, where),
        )

    return demonstrate
