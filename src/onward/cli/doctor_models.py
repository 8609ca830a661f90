"""Checks of `onward doctor` of the models: embedders, summarizer and reranker."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from onward.cli.doctor import Check, Checks, ok, wrong
from onward.retry.errors import OnwardError

if TYPE_CHECKING:
    from onward.models.protocol import Embedder, Summarizer
    from onward.settings import Settings

_INSTALL_MODELS = 'pip install "onward[pipeline]"'


def check_models(settings: Settings) -> Checks:
    """Check that the embedders, the summarizer and the reranker can be used."""
    from onward.backend_urls import open_embedder, open_summarizer
    from onward.models.protocol import BUILT_IN

    upgrade = partial(open_embedder, role="embedder_upgrade")
    for name, where, opens in (
        ("embedder", settings.embedder, open_embedder),
        *((("embedder_upgrade", settings.embedder_upgrade, upgrade),) if settings.embedder_upgrade else ()),
        ("summarizer", settings.summarizer, open_summarizer),
    ):
        try:
            model = opens(settings)
        except (OnwardError, ImportError) as error:
            remedy = f"set ONWARD_{name.upper()}" if isinstance(error, OnwardError) else _INSTALL_MODELS
            yield wrong(name, str(error), remedy)
            continue
        try:
            yield (
                _check_built_in_model(name, where, model) if model.where == BUILT_IN else _check_model(name, model)
            )
        finally:
            model.close()
    if settings.reranker is not None:
        yield _check_reranker(settings.reranker)


def _check_reranker(reference: str) -> Check:
    """Check that the reranker can be loaded and scores a passage."""
    from onward.app import load_reranker

    try:
        scores = load_reranker(reference)("harbour", ["The harbour is frozen."])
        if len(scores) != 1:
            return wrong(
                "reranker", f"{reference} returned {len(scores)} scores for 1 passage", "return one for each"
            )
    except Exception as error:  # of any kind: it is not ours
        return wrong("reranker", f"{type(error).__name__}: {error}", "check ONWARD_RERANKER, or unset it")
    return ok("reranker", f"{reference} scores passages")


def _check_model(name: str, model: Embedder | Summarizer) -> Check:
    setting = f"ONWARD_{name.upper()}"
    try:
        model.healthy()
    except Exception as error:  # whatever a server does, the other checks go on
        remedy = getattr(error, "remedy", None)
        if getattr(error, "status_code", None) in (401, 403):
            remedy = f"its server refuses the key: check {setting}_KEY"
        return wrong(name, str(error), remedy or f"start it, or check {setting}")
    return ok(name, f"{model.model} answers" if model.remote else f"{model.model} in {model.where}")


def _check_built_in_model(name: str, where: str, model: Embedder | Summarizer) -> Check:
    if where == "static":
        from onward.models.static_embedder import WEIGHTS
        from onward.models.tokenizer import TOKENIZER, ModelMissing, model_folder

        try:
            missing = [one for one in (WEIGHTS, TOKENIZER) if not (model_folder() / one).is_file()]
        except ModelMissing as error:
            return wrong(name, str(error), _INSTALL_MODELS)
        if missing:
            return wrong(name, f"the file {missing[0]} of the built-in model is missing", _INSTALL_MODELS)
    return ok(name, f"{model.model}, built in")
