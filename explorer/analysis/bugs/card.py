"""The parts of a pitfall: wrong code that runs, the correct code, and what tells them apart."""

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

from explorer.analysis.mask_tests.probe import Subject
from explorer.labels import SpecialToken
from explorer.runs.trace import Trace
from models.hooks import AttentionSite, Edits
from models.masks import causal_mask, padding_mask
from models.rows import Rows

START, END, PAD = (SpecialToken(name) for name in ("<s>", "</s>", "<pad>"))
"""Labels in made-up rows."""

Group = Literal["masks", "shapes", "fills", "padding", "model", "training"]
"""In the order of the page; texts at `bugs.groups.*`."""
Needs = Literal["", "causal", "both_ways", "added", "end"]
"""What a model must have for a bug to be injected: nothing in particular, causal self-attention,
attention in which only padding is masked, positions added to the embeddings, an end token. Texts at
`bugs.absent.*`."""
Pattern = Callable[[Tensor, Tensor], Tensor]
"""(scores, keep), both [batch, head, query, key], keep Bool with True = may attend -> pattern."""
Plant = Callable[[Subject, Rows], Edits]
"""The injected bug: edits that replace our lines by the wrong ones in every run over these rows."""


@dataclass(frozen=True)
class Figure:
    """One number, with the wrong lines and with the right ones; its text is at `bugs.figures.*`.

    `of` fills {of} in this text: the item, head, layer or width, if there are several.
    """

    name: str
    wrong: float
    right: float
    of: str = ""

    @property
    def label_key(self) -> str:
        return f"bugs.figures.{self.name}"


@dataclass(frozen=True, eq=False)
class MatrixPair:
    """Two matrices [row, column] of equal shape, shown side by side.

    For a pattern, `head` is the head in which the two differ most, and `hidden` marks the cells
    that must not be visible; both are None otherwise.
    """

    wrong: np.ndarray
    right: np.ndarray
    head: int | None = None
    hidden: np.ndarray | None = None


@dataclass(frozen=True)
class Tried:
    """One test case for both versions: the error that each raised, "" for none."""

    of: str
    wrong: str
    right: str


@dataclass(frozen=True, eq=False)
class Demonstration:
    """The effect of a pitfall. `own`: measured on the user's sentence, else on a small fixed case;
    `fresh`: in small new modules, not in the user's model.

    `wrong` and `right` are shown side by side, with equal shape if both exist: a pattern [head,
    query, key], or a table [row, column], Bool if it shows visibility. `site` is the attention site
    of a pattern from the user's sentence; otherwise `columns` may name columns. `tried` lists the
    cases in which the lines raise an error and those in which they do not, if this varies.
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
    def picture(self) -> MatrixPair | None:
        """The two matrices to draw; None if numbers are enough."""
        if self.wrong is None or self.right is None:
            return None
        if self.right.ndim == 2 and not np.isfinite(self.wrong).all():
            return None
        if self.right.ndim == 2:
            return MatrixPair(self.wrong, self.right)
        apart = np.nan_to_num(np.abs(self.wrong - self.right), nan=2.0).sum((1, 2))
        head = int(apart.argmax())
        right = self.right[head]
        return MatrixPair(self.wrong[head], right, head, hidden=right == 0)


@dataclass(frozen=True)
class Pitfall:
    """A common mistake. Its texts are at `bugs.<id>.*` in the text files.

    `demonstrate(traced)` measures it on a Trace, or with None on a fixed case. `plant` injects it
    into a model's run; None if it is not in the forward pass. `cached`: it shows only when decoding
    with a cache. `batched`: it leaves the first sentence of a batch intact. `left`: it shows only
    with padding on the left, so rows are read with this many PADs there. A model without what it
    `needs` cannot have this bug.
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
        return f"bugs.{self.id}.title"

    @property
    def symptom_key(self) -> str:
        return f"bugs.{self.id}.symptom"

    @property
    def silent_key(self) -> str:
        """The text key of the reason why no error is raised."""
        return f"bugs.{self.id}.silent"

    @property
    def right_key(self) -> str:
        """The text key of the correct code's description."""
        return f"bugs.{self.id}.right"

    @property
    def wrong_source(self) -> str:
        """The wrong lines, as executed."""
        return lines_of(self.wrong)

    @property
    def right_source(self) -> str:
        """The right lines, as executed."""
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


# The sites at which a bug is shown and injected.


def decoder_self(site: AttentionSite) -> bool:
    """Causal self-attention."""
    return site.kind == "self" and site.stack == "decoder"


def padding_only(site: AttentionSite) -> bool:
    """Attention in which only padding is masked: the encoder and cross-attention."""
    return not decoder_self(site)


def everywhere(site: AttentionSite) -> bool:
    """Every attention site."""
    return True


# Cases for demonstrating a bug.


def fixed_scores(
    batch: int = 2, n_heads: int = 3, n_query: int = 5, n_key: int = 5, seed: int = 0
) -> Float[Tensor, "batch head query key"]:
    """Scores N(0, 1), the same in every run."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, n_heads, n_query, n_key, generator=generator)


def causal_keep(scores: Tensor) -> Bool[Tensor, "batch head query key"]:
    """The causal mask, expanded to the shape of the scores."""
    return causal_mask(*scores.shape[-2:]).expand(scores.shape)


def padded_keep(scores: Tensor, n_pads: int = 2) -> Bool[Tensor, "batch head query key"]:
    """A mask that hides the last keys, as for padding on the right, in the shape of the scores."""
    valid = torch.ones(scores.shape[0], scores.shape[-1], dtype=torch.bool)
    valid[:, scores.shape[-1] - n_pads :] = False
    return padding_mask(valid).expand(scores.shape)


def own_case(
    traced: Trace | None, where: Callable[[AttentionSite], bool]
) -> tuple[Tensor, Tensor] | None:
    """Scores and mask [1, head, query, key] of a Trace's first matching site; None without one."""
    for site in traced.sites if traced else ():
        if where(site) and traced is not None:
            scores = torch.tensor(traced.activations[site.hook("scores")])[None]
            return scores, torch.tensor(traced.mask(site.name))[None]
    return None


def own_site(traced: Trace | None, where: Callable[[AttentionSite], bool]) -> str:
    """The name of the site that `own_case` uses; "" if there is none."""
    return next((site.name for site in traced.sites if where(site)), "") if traced else ""


def hidden_mass(pattern: Tensor, keep: Tensor) -> float:
    """The largest weight that any row puts on hidden keys."""
    return float((pattern * ~keep).sum(-1).max())


def row_sum_error(pattern: Tensor, keep: Tensor) -> float:
    """The largest deviation of a row sum from 1, over rows with a visible key."""
    return float(((pattern.sum(-1) - 1).abs() * keep.any(-1)).max())


def demonstration(
    wrong: Pattern,
    right: Pattern,
    where: Callable[[AttentionSite], bool],
    fixed: Callable[[Tensor], Tensor],
) -> Callable[[Trace | None], Demonstration]:
    """A demonstration that compares two ways from scores to pattern, at the first `where` site.

    Without a Trace: on fixed scores, with the mask that `fixed` makes for them.
    """

    def demonstrate(traced: Trace | None = None) -> Demonstration:
        """Both patterns of one case, and the weight on hidden keys."""
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
