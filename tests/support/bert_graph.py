"""An ONNX graph of a BERT encoder, made from its weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class BertGraph:
    """The graph of a BERT encoder, made from its weights."""

    def __init__(self, config: dict[str, Any], weights: dict[str, NDArray[Any]]) -> None:
        self.config, self.weights = config, weights
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: dict[str, onnx.TensorProto] = {}

    def build(self) -> onnx.ModelProto:
        size, heads = self.config["hidden_size"], self.config["num_attention_heads"]
        zero = self._constant("zero", np.array([0]))
        length = self._node("Shape", "input_ids", start=1, end=2)
        places = self._node("Slice", self._weight("embeddings.position_embeddings.weight"), zero, length, zero)
        kinds = self._node("Gather", self._weight("embeddings.token_type_embeddings.weight"), "token_type_ids")
        words = self._node("Gather", self._weight("embeddings.word_embeddings.weight"), "input_ids")
        state = self._normed(self._node("Add", self._node("Add", words, kinds), places), "embeddings.LayerNorm")
        self._split = self._constant("split", np.array([0, 0, heads, size // heads]))
        self._join = self._constant("join", np.array([0, 0, size]))
        self._scale = self._constant("scale", np.float32((size // heads) ** -0.5))
        seen = self._node("Unsqueeze", "attention_mask", self._constant("axes", np.array([1, 2])))
        unseen = self._node(
            "Sub", self._constant("one", np.float32(1)), self._node("Cast", seen, to=TensorProto.FLOAT)
        )
        self._mask = self._node("Mul", unseen, self._constant("far", np.float32(-10_000)))
        for number in range(self.config["num_hidden_layers"]):
            state = self._layer(state, f"encoder.layer.{number}")
        self.nodes.append(helper.make_node("Identity", [state], ["last_hidden_state"]))
        graph = helper.make_graph(
            self.nodes,
            "bert",
            [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in _INPUTS],
            [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "length", size])],
            list(self.tensors.values()),
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)

    def _layer(self, state: str, name: str) -> str:
        query, key, value = (
            self._node("Reshape", self._linear(state, f"{name}.attention.self.{part}"), self._split)
            for part in ("query", "key", "value")
        )
        query, key = (
            self._node("Transpose", part, perm=order)
            for part, order in ((query, [0, 2, 1, 3]), (key, [0, 2, 3, 1]))
        )
        scores = self._node("Mul", self._node("MatMul", query, key), self._scale)
        shares = self._node("Softmax", self._node("Add", scores, self._mask), axis=-1)
        found = self._node("MatMul", shares, self._node("Transpose", value, perm=[0, 2, 1, 3]))
        joined = self._node("Reshape", self._node("Transpose", found, perm=[0, 2, 1, 3]), self._join)
        attended = self._node("Add", self._linear(joined, f"{name}.attention.output.dense"), state)
        state = self._normed(attended, f"{name}.attention.output.LayerNorm")
        inner = self._node("Gelu", self._linear(state, f"{name}.intermediate.dense"))
        return self._normed(
            self._node("Add", self._linear(inner, f"{name}.output.dense"), state), f"{name}.output.LayerNorm"
        )

    def _node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        output = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def _constant(self, name: str, value: NDArray[Any] | np.float32) -> str:
        self.tensors[name] = numpy_helper.from_array(
            np.ascontiguousarray(value) if np.ndim(value) else np.array(value), name
        )
        return name

    def _weight(self, name: str) -> str:
        return self._constant(name, self.weights[name])

    def _linear(self, state: str, name: str) -> str:
        matrix = self._constant(f"{name}.weight", self.weights[f"{name}.weight"].T)
        return self._node("Add", self._node("MatMul", state, matrix), self._weight(f"{name}.bias"))

    def _normed(self, state: str, name: str) -> str:
        given = (state, self._weight(f"{name}.weight"), self._weight(f"{name}.bias"))
        return self._node("LayerNormalization", *given, axis=-1, epsilon=self.config["layer_norm_eps"])
