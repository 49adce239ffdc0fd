"""The self-check: every property of the certificate in a quick form, on a few tokens.

The full certificate uses the user's sentence and a float64 copy of the model, one attention site
after another. The self-check uses at most N_TOKENS tokens, the shared model's own precision and all
sites at once: about forty short passes, whatever the number of layers. Bugs that show only on
longer texts (such as a window) or below float32 rounding are left to the certificate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from explorer.analysis.mask_tests.certify import edited, examine
from explorer.analysis.mask_tests.probe import Interference, Probe, Subject
from explorer.library import LoadedModel
from explorer.runs.edits import Edit
from explorer.text import examples
from models.config import ModelConfig
from models.hooks import AttentionSite
from models.rows import Rows, Stream

N_TOKENS = 4
"""Tokens besides the special ones: enough for a future of several tokens and a row between two."""


@dataclass(frozen=True)
class SelfCheck:
    """How many properties were tested, and the names of those that fail."""

    tested: int
    broken: tuple[str, ...]

    @property
    def kept(self) -> int:
        """How many properties hold."""
        return self.tested - len(self.broken)


class QuickProbe(Probe):
    """A probe of the shared model itself that recovers the weights of all sites in one run.

    Values are replaced at every site and add nothing to the stream, so later sites read a stream
    that no sentence produces. The certificate's requirements for weights hold for any stream.
    """

    def __init__(
        self, model: Subject, config: ModelConfig, interference: Interference | None = None
    ) -> None:
        super().__init__(model, config, interference, exact=False)
        if isinstance(model, nn.Module):
            self.precision = next(model.parameters()).dtype
        self._of_all: dict[float | None, dict[str, Tensor]] = {}

    def weights(self, site: AttentionSite, rows: Rows, level: float | None = None) -> Tensor:
        if level not in self._of_all:
            self._of_all[level] = self.weights_of(self.sites, rows, level)
        return self._of_all[level][site.name]


def self_check(
    loaded: LoadedModel,
    interference: Interference | None = None,
    step: Callable[[], None] = lambda: None,
    edits: Sequence[Edit] = (),
) -> SelfCheck:
    """Test every property of a model quickly. `interference` or `edits` change each run; with
    `edits`, the cache property is left out, as in `certify.examine_text`.

    The model is not changed, and others may use it at the same time. `step` is called before each
    property.
    """
    model = loaded.model
    src = model.with_marks("src", _tokens(loaded, "src")) if model.config.reads_source else ()
    tgt = model.with_marks("tgt", _tokens(loaded, "tgt"))

    interference = edited(loaded, edits) or interference
    examination = examine(model, loaded.config, src, tgt, interference, not edits, QuickProbe)
    for name in examination.names:
        step()
        examination.finding(name)
    certificate = examination.certificate()
    broken = tuple(finding.name for finding in certificate.broken)
    return SelfCheck(len(certificate.findings), broken)


def _tokens(loaded: LoadedModel, stream: Stream) -> list[int]:
    """The first tokens of the model's own example; if it has none, the first ordinary tokens."""
    like = loaded.like if loaded.config.picture else ""
    sentence = next(iter(examples(loaded.name, like=like).values()))[0]
    tokenizer, marks = loaded.tokenizer.of(stream), loaded.marks.of(stream)
    tokens = [
        token_id for token_id in tokenizer.encoded(sentence) if not tokenizer.is_special(token_id)
    ]
    every = (token for token in range(loaded.config.n_tokens(stream)) if token not in marks)
    return tokens[:N_TOKENS] or [token for token, _ in zip(every, range(N_TOKENS), strict=False)]
