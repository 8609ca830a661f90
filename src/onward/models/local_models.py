"""Finds a local model by its folder or name, downloads it if that is allowed, and opens it."""

from __future__ import annotations

import fcntl
import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onward.models.local_embedder import LocalEmbedder
from onward.models.model_folder import LocalModelError, ModelFolder, describes_table, read_model_folder
from onward.models.protocol import Embedder
from onward.settings import MissingExtra, Settings, variable

PREFIX = "local:"
MODELS_FOLDER = "models"  # below the data folder
_NAME = re.compile(r"(?P<name>\w[\w.-]*(?:/\w[\w.-]*)?)(?:@(?P<revision>[\w.-]+))?")
_CONFIGURATION = ["*.json", "*/config.json"]


def open_local_embedder(settings: Settings, where: str, role: str = "embedder") -> Embedder:
    """Open the model that `where` names: a folder, an ONNX file, or a name as on Hugging Face.

    The folder of a name is below `models` in the data folder. The role is the setting that has this value.
    """
    files = read_model_folder(_find(settings, where.removeprefix(PREFIX), variable(role)))
    return _embedder_class(files)(
        files,
        batch=settings.embedder_batch,
        max_tokens=settings.embedder_max_tokens,
        threads=settings.embedder_threads,
        dependency=role,
    )


def _embedder_class(files: ModelFolder) -> type[LocalEmbedder[Any]]:  # Any: what each of them loads
    folder = files.folder
    if files.runs == "table":
        from onward.models.token_table_embedder import TokenTableEmbedder

        return TokenTableEmbedder
    if files.runs == "onnx":
        if importlib.util.find_spec("onnxruntime") is None:
            raise MissingExtra(f"the model in {folder}", "onnxruntime", "local-models")
        from onward.models.onnx_embedder import OnnxEmbedder

        return OnnxEmbedder
    if importlib.util.find_spec("sentence_transformers") is None:
        raise LocalModelError(
            f"{folder} has only weights for PyTorch. Put an ONNX graph there (most repositories of models have "
            f"onnx/model.onnx; or run: optimum-cli export onnx --model {folder} --task feature-extraction "
            f"{folder}/onnx), or run: pip install sentence-transformers"
        )
    from onward.models.torch_embedder import TorchEmbedder

    return TorchEmbedder


def _find(settings: Settings, where: str, setting: str) -> Path:
    path = Path(where).expanduser()
    if path.is_dir() or (path.suffix == ".onnx" and path.is_file()):
        return path
    named = _NAME.fullmatch(where)
    if named is None:
        raise LocalModelError(
            f"{setting}='{PREFIX}{where}': there is no folder {where!r}, and no model has this name. Give the "
            "folder of a model, or a name such as sentence-transformers/all-MiniLM-L6-v2"
        )
    folder = settings.home / MODELS_FOLDER / where
    if folder.is_dir():
        return folder
    if not settings.embedder_download:
        raise LocalModelError(
            f"{setting}='{PREFIX}{where}': the model is not here, and nothing is downloaded unless you say so. "
            f"Put its files (onnx/model.onnx, tokenizer.json and all other .json files) into the folder {folder}, "
            f"or set {variable('embedder_download')}=true to download them once from Hugging Face"
        )
    return _download(named["name"], named["revision"], folder)


def _download(name: str, revision: str | None, folder: Path) -> Path:
    """Download the files that are needed, into a folder that gets its name when it has all of them."""
    from huggingface_hub import HfApi, snapshot_download

    folder.parent.mkdir(parents=True, exist_ok=True)
    part = folder.with_name(f"{folder.name}.part")
    # Worker processes start together: one of them downloads.
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder
        try:
            # The configuration first: it says which weights are needed.
            snapshot_download(name, revision=revision, local_dir=part, allow_patterns=_CONFIGURATION)
            names = HfApi().list_repo_files(name, revision=revision)
            weights = weights_to_download(names, table=describes_table(part))
            snapshot_download(name, revision=revision, local_dir=part, allow_patterns=weights)
        except Exception as error:  # of the network, or of many kinds of its own
            raise LocalModelError(
                f"the model {name!r} cannot be downloaded: {error}. Check its name and the network, or put its "
                f"files into the folder {folder}"
            ) from error
        part.rename(folder)
    return folder


def weights_to_download(names: Sequence[str], *, table: bool) -> list[str]:
    """Return the files of a repository that have the weights: of a table, else of a graph, else for PyTorch."""
    graph = next((name for name in ("onnx/model.onnx", "model.onnx") if name in names), None)
    if graph is not None and not table:
        layers = [name for name in names if name.endswith("Dense/model.safetensors")]
        return [*layers, *(name for name in names if name.startswith(graph))]
    tensors = [name for name in names if name.endswith(".safetensors")]
    return tensors or [name for name in names if name.startswith("pytorch_model") and name.endswith(".bin")]
