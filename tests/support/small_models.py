"""Small local models, written by tests: ONNX graphs and tables of token vectors, with a tokenizer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

WORDS = ("harbour", "ship", "crane", "query", "passage", "key", "door", ":")
VOCABULARY = {token: place for place, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
DIMENSIONS = 8


def token_vectors(seed: int = 1) -> NDArray[np.float32]:
    """Return a vector for each token of the vocabulary."""
    return np.random.default_rng(seed).normal(size=(len(VOCABULARY), DIMENSIONS)).astype(np.float32)


def tokens_of(text: str) -> list[int]:
    """Return the tokens of a text without those that begin and end it."""
    return [VOCABULARY.get(word, 1) for word in text.replace(":", " : ").split()]


def write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def write_tokenizer(folder: Path, *, marks: bool = True) -> None:
    """Write a tokenizer of whole words; with `marks`, a text is between `[CLS]` and `[SEP]`."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.WordLevel(VOCABULARY, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    if marks:
        special = [("[CLS]", VOCABULARY["[CLS]"]), ("[SEP]", VOCABULARY["[SEP]"])]
        tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=special)
    tokenizer.save(str(folder / "tokenizer.json"))


def write_onnx_model(
    folder: Path,
    *,
    seed: int = 1,
    modules: Sequence[Mapping[str, str]] | None = None,
    pooling: Mapping[str, Any] | None = None,
    max_tokens: int = 16,
    prompts: Mapping[str, str] | None = None,
    inputs: Sequence[str] = ("input_ids", "attention_mask", "token_type_ids"),
    scales_batches: bool = False,
    pools: bool = False,
) -> Path:
    """Write a model whose graph returns the vector of each token; `pools`: their mean, padding included."""
    write_tokenizer(folder)
    write_json(folder / "config.json", {"model_type": "bert", "hidden_size": DIMENSIONS, "pad_token_id": 0})
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": max_tokens, "do_lower_case": False})
    write_json(folder / "config_sentence_transformers.json", {"prompts": dict(prompts or {})})
    if modules is None:
        modules = [
            _module("Transformer", ""),
            _module("Pooling", "1_Pooling"),
            _module("Normalize", "2_Normalize"),
        ]
    write_json(folder / "modules.json", modules)
    write_json(folder / "1_Pooling" / "config.json", pooling or {"pooling_mode_mean_tokens": True})
    nodes = [helper.make_node("Gather", ["vectors", "input_ids"], ["tokens"])]
    last = "tokens"
    if scales_batches:  # by the largest value of the whole batch, as quantised models do
        nodes.append(helper.make_node("DynamicQuantizeLinear", [last], ["bytes", "scale", "zero"]))
        nodes.append(helper.make_node("DequantizeLinear", ["bytes", "scale", "zero"], ["about"]))
        last = "about"
    shape: list[str | int] = ["batch", "length", DIMENSIONS]
    output = "last_hidden_state"
    if pools:
        nodes.append(helper.make_node("ReduceMean", [last, "axes"], ["mean"], keepdims=0))
        last, shape, output = "mean", ["batch", DIMENSIONS], "sentence_embedding"
    # The other inputs must be used by a graph that names them.
    unused = [name for name in inputs if name != "input_ids"]
    nodes += [helper.make_node("Identity", [name], [f"{name}_unused"]) for name in unused]
    nodes.append(helper.make_node("Identity", [last], [output]))
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in inputs],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
        [
            numpy_helper.from_array(token_vectors(seed), "vectors"),
            *([numpy_helper.from_array(np.array([1]), "axes")] if pools else []),
        ],
    )
    (folder / "onnx").mkdir(exist_ok=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, folder / "onnx" / "model.onnx")
    return folder


def _module(kind: str, path: str) -> dict[str, str]:
    return {"type": f"sentence_transformers.models.{kind}", "path": path}


def write_dense(folder: Path, weight: NDArray[np.float32], bias: NDArray[np.float32], activation: str) -> None:
    write_json(folder / "config.json", {"activation_function": f"torch.nn.modules.activation.{activation}"})
    save_file({"linear.weight": weight, "linear.bias": bias}, folder / "model.safetensors")


def write_table_model(
    folder: Path, *, vectors: NDArray[Any] | None = None, name: str = "embeddings", **more: NDArray[Any]
) -> Path:
    """Write a model2vec model; with the name `embedding.weight`, one of sentence-transformers."""
    write_tokenizer(folder, marks=False)
    write_json(folder / "config.json", {"model_type": "model2vec", "normalize": True})
    save_file({name: token_vectors() if vectors is None else vectors, **more}, folder / "model.safetensors")
    return folder
