"""Chapter 4 of the guided tour: norms, blocks and depth."""

import numpy as np

from explorer.analysis.blocks.norms import NORMS
from explorer.analysis.blocks.residual import PLACEMENTS
from explorer.exhibits import View, block as b
from explorer.exhibits.saying import quoted_at
from explorer.exhibits.tour import pictures
from explorer.exhibits.tour.asked import PosedStep, question, step
from explorer.exhibits.tour.found import blocks as finding
from explorer.figures import blocks as figures
from explorer.figures.blocks import WiringNumbers, by_block, wiring
from explorer.figures.curves import lines
from explorer.figures.measured import measured
from explorer.figures.order import moved
from explorer.figures.positions.sums import strips
from explorer.numbers import fixed, percent, share


def _back(names: dict[str, str]) -> dict[str, str]:
    """The inverse mapping, from words to names."""
    return {words: name for name, words in names.items()}


def _divides(view: View, found: finding.Scales) -> PosedStep:
    n, width = found.x.shape
    asks = question("divides", f"{n:,}", [f"{each:,}" for each in (width, 1, n * width)])

    def picture(answered: bool) -> b.Blocks:
        if not answered:
            yield pictures.strip(view, found.tokens, found.stream, "divides.strip", None)
            return
        title = view.t("blocks.rms" if found.norm == "rmsnorm" else "blocks.scale")
        yield pictures.chart(
            "divides",
            title,
            figures.by_token,
            found.scales[None],
            np.ones((1, n), bool),
            [found.tokens],
            [view.t("blocks.sentence", number=1)],
            title=title,
            top=float(found.scales.max()),
        )

    values = {
        "norm": view.t(f"blocks.{found.norm}"),
        "count": n,
        "width": f"{width:,}",
        "low": fixed(float(found.scales.min()), 2),
        "high": fixed(float(found.scales.max()), 2),
    }
    return PosedStep(asks, values, picture, {"part": "norms", "norm": found.norm})


def _tenfold(view: View, found: finding.Scales) -> PosedStep:
    asks = question("tenfold", _times(found.grown), [_times(each) for each in (10, 10**0.5, 0.1)])
    norm = view.t(f"blocks.{found.norm}")

    def picture(answered: bool) -> b.Blocks:
        rows = {view.t("tour.vector"): found.x[0], view.t("tour.vector_ten"): 10 * found.x[0]}
        if answered:
            rows = {
                view.t("tour.normed", norm=norm): found.after(1.0)[0],
                view.t("tour.normed_ten", norm=norm): found.after(10.0)[0],
            }
        yield pictures.chart(
            "tenfold",
            " · ".join(rows),
            strips,
            np.stack(list(rows.values())),
            list(rows),
            words=view.words("figures.positions"),
        )

    values = {"norm": norm, "token": quoted_at(view, found.tokens, 0), "grown": _times(found.grown)}
    return PosedStep(asks, values, picture, {"part": "norms", "norm": found.norm})


def _times(value: float) -> str:
    return f"{value:.1f} ×"


def _company(view: View, found: finding.Company) -> PosedStep:
    names: dict[str, str] = {norm: view.t(f"blocks.{norm}") for norm in NORMS}
    asks = question("company", names[found.most], list(names.values()), _back(names))

    def picture(answered: bool) -> b.Blocks:
        if not answered:
            yield pictures.strip(view, found.tokens, found.stream, "company.strip", None)
            return
        yield pictures.chart(
            "company",
            view.t("blocks.who_moves"),
            moved,
            found.tokens,
            found.shares,
            list(names.values()),
            y_title=view.t("blocks.moved"),
            x_title=view.t("blocks.sentence", number=1),
            stream=found.stream,
        )

    values = {
        "others": len(found.others),
        "norm": names[found.most],
        "moved": share(found.mean(found.most)),
    }
    return PosedStep(asks, values, picture, {"part": "norms", "norm": found.most})


def _added(view: View, found: finding.Added) -> PosedStep:
    layers, per = found.n_layers, found.per_layer
    right = layers * per
    wrong = [str(each) for each in (layers, 2 * layers, 3 * layers, per, right + 1)]
    asks = question("added", str(right), wrong)

    def picture(answered: bool) -> b.Blocks:
        if not answered:
            empty = WiringNumbers("", "", "", "")
            words = view.words("figures.residual")
            place = view.loaded.config.norm_placement
            alt = view.t("blocks.wiring")
            yield pictures.chart("added.wiring", alt, wiring, {place: empty}, words=words)
            return
        names = [f"{layer + 1} · {view.t(f'model.parts.{name}')}" for name, layer in found.names]
        yield pictures.chart(
            "added",
            view.t("tour.steps.added.title"),
            measured,
            names,
            found.sizes,
            title=view.t("tour.size"),
        )

    values = {"layers": layers, "per": per, "added": right}
    told = "told_cross" if per > 2 else "told"
    return PosedStep(asks, values, picture, {}, told)


def _placement(view: View, found: finding.NormPlacements) -> PosedStep:
    names: dict[str, str] = {place: view.t(f"tour.place_{place}") for place in PLACEMENTS}
    steady = min(PLACEMENTS, key=lambda place: abs(found.growth(place) - 1))
    asks = question("placement", names[steady], list(names.values()), _back(names))

    def picture(answered: bool) -> b.Blocks:
        if not answered:
            empty = WiringNumbers("", "", "", "")
            words = view.words("figures.residual")
            yield pictures.chart(
                "placement.wiring",
                view.t("blocks.wiring"),
                wiring,
                {place: empty for place in PLACEMENTS},
                words=words,
            )
            return
        yield pictures.chart(
            "placement",
            view.t("blocks.stream"),
            by_block,
            {place: flow.stream for place, flow in found.flows.items()},
            [view.t(f"figures.residual.{place}") for place in found.flows],
            x_title=view.t("blocks.block"),
            y_title=view.t("blocks.stream_axis"),
        )

    growths: dict[str, str] = {place: _times(found.growth(place)) for place in PLACEMENTS}
    values = {"depth": found.depth, "name": names[steady], **growths}
    own = names[view.loaded.config.norm_placement]
    place = {"part": "residual", "depth": found.depth}
    return PosedStep(asks, {**values, "own": own}, picture, place)


def _summed(view: View, found: finding.Spreads) -> PosedStep:
    on, off = float(found.on[-1]), float(found.off[-1])
    wrong = [percent(on), percent(min(0.99, 1.5 * on)), percent(on / 2)]
    asks = question("summed", percent(off), wrong)
    names = [view.t("blocks.sum_on"), view.t("blocks.sum_off")]

    def picture(answered: bool) -> b.Blocks:
        yield pictures.chart(
            "summed",
            view.t("blocks.spread"),
            lines,
            np.arange(found.depth + 1),
            100 * np.stack([found.on, found.off] if answered else [found.on]),
            names if answered else names[:1],
            x_title=view.t("blocks.block"),
            y_title=view.t("blocks.spread_axis"),
        )

    values = {"depth": found.depth, "on": percent(on), "off": percent(off)}
    return PosedStep(asks, values, picture, {"part": "residual", "depth": found.depth})


def _parts(view: View, found: finding.BlockSizes) -> PosedStep:
    whole = found.attention + found.ffn + found.norms
    wrong = (found.attention / whole, 2 / 3, 1 / 2, 1 / 3, found.norms / whole)
    asks = question("parts", percent(found.share), [percent(each) for each in wrong])

    def picture(answered: bool) -> b.Blocks:
        shown = list(found.matrices)
        if answered:
            shown = [
                (view.t("model.kinds.attention"), found.attention),
                (view.t("model.kinds.ffn"), found.ffn),
                (view.t("model.kinds.norms"), found.norms),
            ]
        yield pictures.chart(
            "parts",
            view.t("tour.steps.parts.title"),
            measured,
            [name for name, _ in shown],
            np.array([count for _, count in shown], float),
            title=view.t("tour.numbers_held"),
        )

    values = {
        "ffn": f"{found.ffn:,}",
        "attention": f"{found.attention:,}",
        "norms": f"{found.norms:,}",
        "share": percent(found.share),
    }
    return PosedStep(asks, values, picture, {})


STEPS = (
    step(
        *("divides", "blocks", finding.scales, _divides),
        r"\mathrm{LayerNorm}(x) = \gamma\,\frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta",
    ),
    step(
        *("tenfold", "blocks", finding.tenfold, _tenfold),
        r"\frac{10x - 10\mu}{10\,\sigma} = \frac{x - \mu}{\sigma}",
    ),
    step(
        *("company", "blocks", finding.company, _company),
        r"\mathrm{BatchNorm}(x)_i = \gamma_i\,\frac{x_i - \mu_i}{\sqrt{\sigma_i^2 + \varepsilon}}"
        r" + \beta_i,\qquad \mu_i, \sigma_i^2\ \text{over all tokens}",
    ),
    step(
        *("added", "model", finding.added, _added),
        r"x_{\ell + 1} = x_\ell + f_\ell(x_\ell)",
        told=("told", "told_cross"),
    ),
    step(
        *("placement", "blocks", finding.placement, _placement),
        r"\text{post}:\ \mathrm{Norm}(x + f(x)),\qquad \text{pre}:\ x + f(\mathrm{Norm}(x))"
        r",\qquad \text{sublayer output}:\ x + \mathrm{Norm}(f(x))",
    ),
    step(
        *("summed", "blocks", finding.summed, _summed),
        r"\text{spread}(X) = \frac{\lVert X - \mathbf{1}\,\bar{x}^{\top} \rVert}{\lVert X \rVert}",
    ),
    step(
        *("parts", "model", finding.parts, _parts),
        r"4\,d_\mathrm{model}^2,\qquad 2\,d_\mathrm{model}\,d_\mathrm{ff}",
    ),
)
