"""Claims: common statements about Transformers, and the user's guess."""

import inspect
from collections.abc import Callable

from explorer.analysis.claims import BY_ID, CLAIMS, GROUPS, Claim
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.claims.choices import GUESSES, ClaimsChoices
from explorer.exhibits.picking import pick_group, pick_one

_SOFTMAX = r"p_j = \frac{e^{s_j}}{\sum_k e^{s_k}}"
_ATTENTION = r"\mathrm{softmax}\!\left(\frac{QK^\top}{\sqrt{d_\mathrm{head}}}\right) V"
_NORMS = (
    r"\mathrm{LayerNorm}(x) = \gamma\,\frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta,"
    r"\qquad \mathrm{RMSNorm}(x) = \gamma\,\frac{x}{\sqrt{\frac1d\sum_i x_i^2 + \varepsilon}}"
)
_SINES = (
    r"PE_{p,2i} = \sin(p\,\theta_i), \qquad PE_{p,2i+1} = \cos(p\,\theta_i), \qquad "
    r"\theta_i = 10000^{-2i/d}"
)
_LAYERS = (
    r"4d^2 + 2\,d\,d_\mathrm{ff}, \qquad 8d^2 + 2\,d\,d_\mathrm{ff}"
    r"\quad(+\,\mathrm{LN}, b)"
)
_PLACES = (
    r"\mathrm{LN}(x + f(x)) \quad\text{post}, \qquad x + f(\mathrm{LN}(x)) \quad\text{pre}, "
    r"\qquad x + \mathrm{LN}(f(x)) \quad\text{sublayer output}"
)
_LOSS = r"L = -\frac1n \sum_t \log p(y_t)"

FORMULAS: dict[str, str] = {
    "variance": r"\mathrm{Var}\Big(\sum_{i=1}^{d} q_i k_i\Big) = d, \qquad "
    r"\mathrm{Var}\Big(\frac{q\cdot k}{\sqrt d}\Big) = 1",
    "saturation": _SOFTMAX + r", \qquad \frac{\partial p_i}{\partial s_j} = p_i(\delta_{ij} - p_j)",
    "fills": _SOFTMAX + r", \qquad s_j \to -10^4,\ -10^9,\ -\infty",
    "reference": r"\mathrm{softmax}\!\left(\frac{QK^\top}{\sqrt{d_\mathrm{head}}} + B\right) V, "
    r"\qquad B_{ij} \in \{0, -\infty\}",
    "one_head": r"\mathrm{Concat}(z_1, \dots, z_H)\,W_O, \qquad d_\mathrm{head} = d / H",
    "mha_count": r"\text{attention} = 4d^2\,(+\,4d)",
    "ffn_table": r"\text{feed-forward} = 2\,d\,d_\mathrm{ff}, \qquad "
    r"\mathrm{SwiGLU} = 3\,d\,d_\mathrm{ff}",
    "tying": r"V d + V d \ \to\ V d",
    "shape_flow": r"[B, H, n, n]\cdot 2\,, \qquad [B, n, d_\mathrm{ff}]\cdot 2",
    "layer_shapes": r"d_\mathrm{head} = d / H, \qquad " + _LAYERS,
    "totals": r"L_1(4d^2 + 2\,d\,d_\mathrm{ff}) + L_2(8d^2 + 2\,d\,d_\mathrm{ff}) + V d"
    r"\quad(+\,\mathrm{LN}, b)",
    "tying_quality": r"\ell = x E^\top \quad\text{or}\quad \ell = x W_U^\top, \qquad " + _LOSS,
    "rms_speed": _NORMS,
    "fused_speed": _ATTENTION,
    "fused_qkv": r"X\,[\,W_Q\;W_K\;W_V\,] = [\,X W_Q\;\;X W_K\;\;X W_V\,]",
    "free_heads": r"H \cdot n^2 \cdot \frac{d}{H} = n^2 d, \qquad \text{pattern}: H\,n^2",
    "parallel": r"1 + 2 + \dots + n = \frac{n(n+1)}{2}",
    "quadratic": r"\text{pattern}: H\,n^2, \qquad \text{work} = 2\,n\,\text{weights} + "
    r"4\,n^2 d\,\text{per attention}",
    "offset_only": r"PE_p\cdot PE_{p+n} = \sum_i \cos(n\,\theta_i), \qquad "
    r"\theta_i = 10000^{-2i/d}",
    "frequencies": r"\theta_i = 10000^{-2i/d}, \qquad \lambda_i = 2\pi/\theta_i",
    "extrapolation": _SINES,
    "causal_order": r"z_i = \sum_{j \le i} p_{ij}\,v_j, \qquad \sum_{j \le i} p_{ij} = 1",
    "no_positions": r"x_i = E_{w_i} + PE_i \quad\text{or}\quad x_i = E_{w_i}, \qquad " + _LOSS,
    "learned_positions": r"x_i = E_{w_i} + P_i \quad\text{or}\quad x_i = E_{w_i} + PE_i, \qquad "
    + _LOSS,
    "warmup": r"\mathrm{LN}(x + f(x)) \quad\text{post}, \qquad x + f(\mathrm{LN}(x)) "
    r"\quad\text{pre}, \qquad \eta_t = \eta\,\min(1,\ t / t_0)",
    "deep_pre": r"x_L = x_0 + \sum_{\ell = 1}^{L} f_\ell(\mathrm{LN}(x_{\ell - 1}))",
    "norm_stabilises": _PLACES,
    "swiglu_equal": r"W_2\left(\mathrm{SiLU}(W_g x) \odot W_u x\right), \qquad "
    r"W_2\,\mathrm{GELU}(W_1 x), \qquad 3\,d\,d' = 2\,d\,d_\mathrm{ff}",
    "rms_quality": _NORMS,
    "original": _PLACES,
    "batch_norm": r"\mathrm{LayerNorm}:\ \mu, \sigma\ \text{over the features}, \qquad "
    r"\mathrm{BatchNorm}:\ \mu_i, \sigma_i\ \text{over all tokens}",
    "gelu_tanh": r"\mathrm{GELU}(x) = \frac{x}{2}\left(1 + \mathrm{erf}\frac{x}{\sqrt2}\right) "
    r"\approx \frac{x}{2}\left(1 + \tanh\left(\sqrt{2/\pi}\,(x + 0.044715\,x^3)\right)\right)",
}
"""The formula that each claim is about, as LaTeX."""


def chosen(view: View) -> Claim:
    """The open claim."""
    return BY_ID.get(view.choices(ClaimsChoices).claim, CLAIMS[0])


def _open(claim: str) -> b.Change:
    return b.choose(claim=claim, guess="")


def show(answer: None, view: View) -> b.Blocks:
    """The claim, and the user's own verdict on it."""
    claim = chosen(view)
    groups: dict[str, list[str]] = {
        name: [each.id for each in CLAIMS if each.group == name] for name in GROUPS
    }
    yield pick_group(view, "claims.group", groups, claim.group, _open)
    group = groups[claim.group]
    names = [view.t(f"claims.{name}.claim") for name in group]
    more = b.More(change=lambda at: _open(group[at]), menu=True, quiet=True)
    at, said = group.index(claim.id), names.__getitem__
    yield pick_one(view, "claims.claim", range(len(group)), at, said=said, **more)
    guessed = view.choices(ClaimsChoices).guess or None
    guess = pick_one(view, "claims.guess", GUESSES, guessed, said="claims.verdicts.")
    waiting = () if guess.now else (b.Note(view.t("claims.waiting")),)
    yield b.Hero((b.Title(view.t(f"claims.{claim.id}.claim"), large=True), guess, *waiting))
    ids = [*BY_ID]
    following = ids[(ids.index(claim.id) + 1) % len(ids)]
    yield b.Button("claims.next", view.t("claims.next"), _open(following), "arrow_forward")
    yield b.Formula((FORMULAS[claim.id],), view.t("claims.formula"))
    yield b.Code((claim.test, *_filled_in(claim.test)))


def _filled_in(test: Callable[..., object]) -> list[object]:
    """The default arguments of an experiment that tests may replace: how a small model is trained,
    how time is measured, what entries are sampled from."""
    defaults = [parameter.default for parameter in inspect.signature(test).parameters.values()]
    return [
        each
        for each in defaults
        if inspect.isfunction(each) and each.__module__.startswith(("explorer.", "models."))
    ]


EXHIBIT = Exhibit(None, show)
