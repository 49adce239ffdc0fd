"""The decoded outputs: the first one, and a second one with a prefix chosen by the user."""

from explorer.exhibits.view import View
from explorer.pages.decoding import cached
from explorer.pages.decoding.choices import DecodingChoices
from explorer.runs.generation import Generation
from explorer.ui import running


def line(view: View, forced: tuple[int, ...] = ()) -> Generation | None:
    """One output, complete or stopped by the user; None while decoding, with a progress bar.

    Raises InputProblem.
    """
    name = "decoding.second" if forced else "decoding.first"
    key = (
        view.loaded.name,
        view.text,
        view.choices(DecodingChoices).strategy,
        view.trace.edits,
        view.choices(DecodingChoices).limit,
        forced,
        view.choices(DecodingChoices).ruled,
    )
    job = running.job(name, key, lambda tell: cached.generate(*key, progress=tell))
    if not running.finished(
        job, name, view.t("decoding.working"), view.t("decoding.stop"), view.lang
    ):
        return None
    return job.result()
