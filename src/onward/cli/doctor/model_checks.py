"""The checks of the models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from onward.cli.doctor.checks import Check, ok, wrong
from onward.retry.errors import OnwardError

if TYPE_CHECKING:
    from onward.models.protocol import Embedder, Summarizer
    from onward.settings import Settings

_REFUSED = (401, 403)
_INSTALL = 'pip install "onward[pipeline]"'


def check_models(settings: Settings) -> Iterator[Check]:
    """Check that the embedder and the summarizer can be used."""
    from onward.backend_urls import open_embedder, open_summarizer

    for name, where, opens in (
        ("embedder", settings.embedder, open_embedder),
        ("summarizer", settings.summarizer, open_summarizer),
    ):
        try:
            model = opens(settings)
        except (OnwardError, ImportError) as error:
            remedy = f"set ONWARD_{name.upper()}" if isinstance(error, OnwardError) else _INSTALL
            yield wrong(name, str(error), remedy)
            continue
        try:
            yield _asked(name, model) if model.remote else _built_in(name, where, model)
        finally:
            model.close()


def _asked(name: str, model: Embedder | Summarizer) -> Check:
    setting = f"ONWARD_{name.upper()}"
    try:
        model.healthy()
    except Exception as error:  # whatever a server does, the other checks go on
        remedy = getattr(error, "remedy", None)
        if getattr(error, "status_code", None) in _REFUSED:
            remedy = f"its server refuses the key: check {setting}_KEY"
        return wrong(name, str(error), remedy or f"start it, or check {setting}")
    return ok(name, f"{model.model} answers")


def _built_in(name: str, where: str, model: Embedder | Summarizer) -> Check:
    if where == "static":
        from onward.models.static_embedder import WEIGHTS
        from onward.models.tokenizer import TOKENIZER, ModelMissing, model_folder

        try:
            missing = [one for one in (WEIGHTS, TOKENIZER) if not (model_folder() / one).is_file()]
        except ModelMissing as error:
            return wrong(name, str(error), _INSTALL)
        if missing:
            return wrong(name, f"the file {missing[0]} of the built-in model is missing", _INSTALL)
    return ok(name, f"{model.model}, built in")
