"""An embedder for ONNX graphs of sentence-transformers models: pooling and layers as the model's files say."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onward.models.local_embedder import LocalEmbedder
from onward.models.model_folder import Dense, LocalModelError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

MAX_BATCH_TOKENS = 1024  # with padding. More texts at a time are not faster on processors, and need more memory
_TOKEN_OUTPUTS = ("token_embeddings", "last_hidden_state")
_ERRORS_ONLY = 3
# Operators that scale a whole batch by its largest value: then a vector would depend on the batch.
_BATCH_SCALING = (b"DynamicQuantize", b"MatMulInteger", b"QAttention")


class DenseLayer(NamedTuple):
    weight: NDArray[np.float32]
    bias: NDArray[np.float32] | float
    activation: str


class Graph(NamedTuple):
    """A loaded model."""

    session: InferenceSession
    tokenizer: Tokenizer
    inputs: dict[str, str]  # name to type
    output: str
    dense: list[DenseLayer]
    batch: int


class OnnxEmbedder(LocalEmbedder[Graph]):
    """Runs an ONNX graph with onnxruntime, the longest texts first.

    A vector is the same whatever texts are embedded with it: the padding of a batch is masked, and texts are not
    batched for a graph that scales whole batches.
    """

    def load(self) -> Graph:
        import onnxruntime as runtime

        options = runtime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = _ERRORS_ONLY
        # Threads that wait must not keep the cores of other worker processes busy.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        path = self.files.weights[0]
        try:
            session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its errors have no common class of their own
            raise LocalModelError(f"{path} cannot be run: {error}. Export or download it again") from error
        inputs = {one.name: one.type for one in session.get_inputs()}
        if unknown := sorted(set(inputs) - {"input_ids", "attention_mask", "token_type_ids"}):
            raise LocalModelError(
                f"{path} wants the inputs {', '.join(unknown)}, which no embedding model has. Export it again, "
                "with the task feature-extraction"
            )
        outputs = [one.name for one in session.get_outputs()]
        preferred = [name for name in (*_TOKEN_OUTPUTS, "sentence_embedding") if name in outputs]
        tokenizer = open_tokenizer(self.files.tokenizer, self.max_tokens)
        dense = [_read_layer(layer) for layer in self.files.dense]
        batch = 1 if _scales_batches(path) else self.batch
        return Graph(session, tokenizer, inputs, (preferred or outputs)[0], dense, batch)

    def compute(self, loaded: Graph, texts: Sequence[str], prompt: str) -> NDArray[np.float32]:
        # One by one: in batches, the tokenizer uses all cores.
        tokens = [loaded.tokenizer.encode(prompt + text).ids or [self.files.pad_token] for text in texts]
        rows: NDArray[np.float32] | None = None
        for places in _batches([len(ids) for ids in tokens], loaded.batch):
            vectors = self._run(loaded, [tokens[place] for place in places])
            if rows is None:
                rows = np.empty((len(texts), vectors.shape[1]), np.float32)
            rows[places] = vectors
        assert rows is not None, "there is at least one text"
        return rows

    def _run(self, loaded: Graph, tokens: Sequence[list[int]]) -> NDArray[np.float32]:
        size = (len(tokens), max(len(some) for some in tokens))
        ids, mask = np.full(size, self.files.pad_token, np.int64), np.zeros(size, np.int64)
        for row, some in enumerate(tokens):
            ids[row, : len(some)], mask[row, : len(some)] = some, 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros(size, np.int64)}
        feed = {name: given[name].astype(_dtype(kind), copy=False) for name, kind in loaded.inputs.items()}
        found: NDArray[Any] = loaded.session.run([loaded.output], feed)[0]
        if found.ndim == 2:  # the graph pools by itself, and has all layers
            return found.astype(np.float32, copy=False)
        vectors = pool(found.astype(np.float32, copy=False), mask, self.files.pooling)
        for layer in loaded.dense:
            vectors = vectors @ layer.weight.T + layer.bias
            vectors = np.tanh(vectors) if layer.activation == "Tanh" else vectors
        return vectors


def open_tokenizer(path: Path, max_tokens: int) -> Tokenizer:
    """Open the tokenizer of a model, without padding; what is longer is cut off."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # its errors have no class of their own
        raise LocalModelError(f"{path} cannot be read: {error}. Copy or download it again") from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    tokenizer.encode_special_tokens = True  # "[SEP]" in a text is text
    return tokenizer


def pool(tokens: NDArray[np.float32], mask: NDArray[np.int64], modes: Sequence[str]) -> NDArray[np.float32]:
    """Make one vector of the vectors of each text's tokens; those of several modes are joined."""
    weights = mask[:, :, None].astype(np.float32)
    lengths = weights.sum(axis=1)
    parts: list[NDArray[np.float32]] = []
    for mode in modes:
        if mode == "cls":
            parts.append(tokens[:, 0])
        elif mode == "lasttoken":
            parts.append(tokens[np.arange(len(tokens)), np.maximum(mask.sum(axis=1) - 1, 0)])
        elif mode == "max":
            parts.append(np.where(weights > 0, tokens, -np.inf).max(axis=1))
        elif mode == "weightedmean":
            places = weights * np.arange(1, tokens.shape[1] + 1, dtype=np.float32)[None, :, None]
            parts.append((tokens * places).sum(axis=1) / places.sum(axis=1))
        else:
            parts.append((tokens * weights).sum(axis=1) / (lengths if mode == "mean" else np.sqrt(lengths)))
    return np.concatenate(parts, axis=1)


def _batches(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Yield the places of texts that are embedded together: of similar length, and `MAX_BATCH_TOKENS` at most."""
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    start = 0
    while start < len(order):
        end = start + max(1, min(most, MAX_BATCH_TOKENS // lengths[order[start]]))
        yield order[start:end]
        start = end


def _read_layer(layer: Dense) -> DenseLayer:
    from safetensors.numpy import load_file

    try:
        tensors = load_file(layer.weights)
        weight, bias = tensors["linear.weight"].astype(np.float32), tensors.get("linear.bias")
    except Exception as error:  # its errors have no common class
        raise LocalModelError(f"{layer.weights} cannot be read: {error}. Copy or download it again") from error
    return DenseLayer(weight, 0.0 if bias is None else bias.astype(np.float32), layer.activation)


def _scales_batches(path: Path) -> bool:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return any(data.find(name) >= 0 for name in _BATCH_SCALING)


def _dtype(kind: str) -> type[np.int64] | type[np.int32]:
    return np.int32 if kind == "tensor(int32)" else np.int64
