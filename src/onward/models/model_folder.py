"""The folder of a local model: which files it has, what they say about pooling and prompts, and their digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from onward.retry import OnwardError

POOLING_MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
_POOLING_KEYS = {  # the older form of the configuration, in the order in which several are joined
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
ACTIVATIONS = ("Identity", "Tanh")
DOCUMENT_PROMPTS = ("document", "passage", "corpus")  # the first that a model has is used
TABLE_TENSORS = ("embeddings", "embedding.weight")  # the token vectors: of model2vec, of sentence-transformers
DEFAULT_MAX_TOKENS = 512
_UNLIMITED_TOKENS = 1_000_000  # a tokenizer without a maximum says 10^30
DIGEST_CHARACTERS = 12


class LocalModelError(OnwardError):
    """A local model cannot be used; the message names the file and the remedy."""


@dataclass(frozen=True, slots=True)
class Dense:
    """A layer that follows pooling: weights of a linear map, and the function that is applied to its result."""

    weights: Path
    activation: str


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """What a folder says about its model, as sentence-transformers and model2vec write it."""

    folder: Path
    runs: Literal["onnx", "table", "torch"]  # a graph, a table of token vectors, or only weights for PyTorch
    weights: tuple[Path, ...]
    tokenizer: Path
    architecture: str  # such as "bert" or "model2vec"
    max_tokens: int
    pooling: tuple[str, ...]  # several are joined
    dense: tuple[Dense, ...]
    lower_case: bool
    pad_token: int
    query_prompt: str
    document_prompt: str

    def digest(self) -> str:
        """Return a digest of all that a document's vector depends on; the folder's name is no part of it."""
        whole = hashlib.sha256()
        for path in (*self.weights, self.tokenizer, *(layer.weights for layer in self.dense)):
            try:
                with path.open("rb") as file:
                    whole.update(hashlib.file_digest(file, "sha256").digest())
            except OSError as error:
                raise LocalModelError(f"{path} cannot be read: {error.strerror}") from error
        rest = (self.pooling, [layer.activation for layer in self.dense], self.lower_case, self.document_prompt)
        whole.update(json.dumps(rest).encode())
        return whole.hexdigest()[:DIGEST_CHARACTERS]


def read_model_folder(path: Path) -> ModelFolder:
    """Read what a folder, or an ONNX file in it, says about its model."""
    graph = path if path.suffix == ".onnx" else None
    folder = path if graph is None else path.parent.parent if path.parent.name == "onnx" else path.parent
    try:
        return _read(folder, graph)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise LocalModelError(
            f"the JSON files of {folder} are not those of a model ({type(error).__name__}: {error}). "
            "Copy or download them again"
        ) from error


def describes_table(folder: Path) -> bool:
    """Return whether the configuration in a folder, which may have no weights yet, is that of a token table."""
    return (
        any(kind == "StaticEmbedding" for kind, _ in _modules(folder))
        or _read_json(folder / "config.json").get("model_type") == "model2vec"
    )


def _read(folder: Path, graph: Path | None) -> ModelFolder:
    modules = _modules(folder)
    start = folder / next((path for kind, path in modules if kind in ("Transformer", "StaticEmbedding")), "")
    config = _read_json(start / "config.json") | _read_json(folder / "config_sentence_transformers.json")
    own = _read_json(start / "sentence_bert_config.json")
    prompts = config.get("prompts") or {}
    default = prompts.get(config.get("default_prompt_name"), "")
    tokenizer = next((at / "tokenizer.json" for at in (start, folder) if (at / "tokenizer.json").is_file()), None)
    runs, weights = _weights(start, folder, graph)
    if tokenizer is None and runs != "torch":
        raise LocalModelError(
            f"{folder} has no tokenizer.json. It is in the model's repository, or "
            "`transformers.AutoTokenizer.from_pretrained(…).save_pretrained(…)` writes it"
        )
    table = runs == "table"
    return ModelFolder(
        folder,
        runs,
        weights,
        tokenizer or start / "config.json",
        architecture="model2vec" if table else str(config.get("model_type") or runs).lower(),
        max_tokens=int(config.get("max_length") or DEFAULT_MAX_TOKENS)
        if table
        else _max_tokens(own, _read_json(start / "tokenizer_config.json"), config),
        pooling=("mean",) if table else _pooling(folder, modules),
        dense=tuple(_dense(folder / path) for kind, path in modules if kind == "Dense"),
        lower_case=bool(own.get("do_lower_case")),
        pad_token=int(config.get("pad_token_id") or 0),
        query_prompt=str(prompts.get("query", default)),
        document_prompt=str(next((prompts[name] for name in DOCUMENT_PROMPTS if name in prompts), default)),
    )


def _weights(
    start: Path, folder: Path, graph: Path | None
) -> tuple[Literal["onnx", "table", "torch"], tuple[Path, ...]]:
    """Return how the model is run, and the files of its weights."""
    # First: model2vec also writes a graph, with inputs that no other model has.
    if graph is None and (table := _table(start, folder)) is not None:
        return "table", (table,)
    if graph := graph or _graph(start, folder):
        # A large graph has its tensors in files beside it.
        return "onnx", (graph, *sorted(path for path in graph.parent.glob(f"{graph.name}?*") if path.is_file()))
    for pattern in ("*.safetensors", "pytorch_model*.bin"):
        if found := sorted(start.glob(pattern)):
            return "torch", tuple(found)
    raise LocalModelError(
        f"{folder} has no model: neither onnx/model.onnx nor model.safetensors. Put the files of a model there, "
        "as they are in its repository"
    )


def _modules(folder: Path) -> list[tuple[str, str]]:
    """Return kind and path of the parts that sentence-transformers runs one after the other."""
    found = []
    for module in _read_json(folder / "modules.json", []):
        kind = str(module["type"]).rpartition(".")[2]
        if kind not in ("Transformer", "StaticEmbedding", "Pooling", "Dense", "Normalize", "Dropout"):
            raise LocalModelError(
                f"{folder / 'modules.json'} names the part {kind!r}, which cannot be run here. Choose a model of "
                "Transformer, Pooling, Dense and Normalize"
            )
        found.append((kind, str(module["path"])))
    return found


def _table(*folders: Path) -> Path | None:
    """Return the file of a model that is a table of token vectors."""
    from safetensors import SafetensorError, safe_open

    for path in dict.fromkeys(folder / "model.safetensors" for folder in folders):
        if path.is_file():
            try:
                with safe_open(path, "numpy") as tensors:
                    if any(name in tensors.keys() for name in TABLE_TENSORS):  # noqa: SIM118 - it is no mapping
                        return path
            except (SafetensorError, OSError) as error:
                raise LocalModelError(f"{path} cannot be read: {error}. Copy or download it again") from error
    return None


def _graph(*folders: Path) -> Path | None:
    """Return the ONNX file, if there is one; of several, `model.onnx`."""
    for folder in dict.fromkeys(folders):
        for path in (folder / "onnx" / "model.onnx", folder / "model.onnx"):
            if path.is_file():
                return path
    found = sorted({path for folder in folders for path in (*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx"))})
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise LocalModelError(
            f"{folders[-1]} has several ONNX files ({names}); name one of them, as in local:{found[0]}"
        )
    return found[0] if found else None


def _pooling(folder: Path, modules: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    path = folder / next((path for kind, path in modules if kind == "Pooling"), "1_Pooling") / "config.json"
    config = _read_json(path)
    given = config.get("pooling_mode") or [mode for key, mode in _POOLING_KEYS.items() if config.get(key)]
    modes = (given,) if isinstance(given, str) else tuple(given)
    if unknown := [mode for mode in modes if mode not in POOLING_MODES]:
        allowed = ", ".join(POOLING_MODES)
        raise LocalModelError(f"{path} wants the pooling {unknown[0]!r}, not one of {allowed}")
    if not config.get("include_prompt", True):
        raise LocalModelError(f"{path} leaves prompts out of pooling, which is not supported")
    return modes or ("mean",)  # sentence-transformers assumes the mean, too


def _dense(folder: Path) -> Dense:
    config = _read_json(folder / "config.json")
    activation = str(config.get("activation_function") or "Identity").rpartition(".")[2]
    if activation not in ACTIVATIONS or config.get("use_residual"):
        raise LocalModelError(
            f"{folder / 'config.json'} wants {activation!r} or a residual; only {ACTIVATIONS} can be run"
        )
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise LocalModelError(f"{weights} is missing: the model has a Dense layer. Download that file, too")
    return Dense(weights, activation)


def _max_tokens(own: Mapping[str, Any], tokenizer: Mapping[str, Any], config: Mapping[str, Any]) -> int:
    """Return the maximum length of a text, as sentence-transformers finds it."""
    if own.get("max_seq_length"):
        return int(own["max_seq_length"])
    positions = int(config.get("max_position_embeddings") or 0)
    if positions and "roberta" in str(config.get("model_type")):
        positions -= 2  # the first positions are those of padding
    found = [positions, int(tokenizer.get("model_max_length") or 0)]
    return min((limit for limit in found if 0 < limit < _UNLIMITED_TOKENS), default=DEFAULT_MAX_TOKENS)


# Any: the JSON of a model's author, whose fields are checked where they are used.
def _read_json(path: Path, missing: Any = None) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {} if missing is None else missing
    except (OSError, ValueError) as error:
        raise LocalModelError(f"{path} cannot be read: {error}. Copy or download it again") from error
