"""How far a run without the causal mask looks ahead, and why its newest row cannot tell."""

from dataclasses import dataclass

import numpy as np

from explorer.runs.trace import Trace
from models.hooks import Role


@dataclass(frozen=True)
class Ahead:
    """What one kind of self-attention gives to later tokens.

    `share` is the mean weight, 0 to 1, that a real token gives to the real tokens after it, over
    all layers and heads and all tokens but the last, which has none after it; `layer` and `head`
    (from 0) do so most, with `most`. `real` is the number of real tokens, `seen` how many of them
    the last one may attend to: a causal mask leaves it all of them.
    """

    share: float
    layer: int
    head: int
    most: float
    real: int
    seen: int


def ahead(trace: Trace, role: Role) -> Ahead | None:
    """Measure a run in its self-attention of this role.

    None where there are fewer than two real tokens, so that none can be later.
    """
    sites = trace.sites_of(role)
    real = int((trace.tgt_valid if sites[0].query_stream == "tgt" else trace.src_valid).sum())
    if real < 2:
        return None
    later = np.triu(np.ones((real, real), bool), 1)
    per_head = np.stack(
        [
            (trace.pattern(site.name)[:, :real, :real] * later).sum(-1)[:, :-1].mean(-1)
            for site in sites
        ]
    )  # [layer, head]
    layer, head = (int(at) for at in np.unravel_index(per_head.argmax(), per_head.shape))
    return Ahead(
        share=float(per_head.mean()),
        layer=layer,
        head=head,
        most=float(per_head[layer, head]),
        real=real,
        seen=int(trace.mask(sites[0].name)[0, real - 1, :real].sum()),
    )
