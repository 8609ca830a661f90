"""Local models are found by folder or name, downloaded only if a setting says so, and say what is missing."""

from __future__ import annotations

import shutil
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
from huggingface_hub.utils._paths import filter_repo_objects

from onward import OnwardError, Settings
from onward.backend_urls import open_embedder
from onward.models.local_models import weights_to_download
from onward.models.model_folder import LocalModelError, read_model_folder
from onward.models.onnx_embedder import OnnxEmbedder
from tests.support.small_models import DIMENSIONS, write_json, write_onnx_model, write_table_model

NAME = "makers/small-model"


def settings(home: Path, embedder: str, **more: Any) -> Settings:
    return Settings(home=home, embedder=embedder, **more)


def refused(home: Path, embedder: str, **more: Any) -> str:
    with pytest.raises(OnwardError) as caught:
        open_embedder(settings(home, embedder, **more))
    return str(caught.value)


def test_a_name_is_a_folder_below_the_data_folder(tmp_path: Path) -> None:
    write_onnx_model(tmp_path / "models" / NAME)
    embedder = open_embedder(settings(tmp_path, f"local:{NAME}"))
    assert embedder.where == str(tmp_path / "models" / NAME)
    assert embedder.embed(["ship"]).shape == (1, DIMENSIONS)


def test_one_of_several_graphs_is_named_by_its_file(tmp_path: Path) -> None:
    folder = write_onnx_model(tmp_path / "model")
    (folder / "onnx" / "model.onnx").rename(folder / "onnx" / "model_a.onnx")
    shutil.copy(folder / "onnx" / "model_a.onnx", folder / "onnx" / "model_b.onnx")
    assert "several ONNX files (model_a.onnx, model_b.onnx)" in refused(tmp_path, f"local:{folder}")
    embedder = open_embedder(settings(tmp_path, f"local:{folder}/onnx/model_b.onnx"))
    assert isinstance(embedder, OnnxEmbedder)
    assert embedder.files.folder == folder


def test_nothing_is_downloaded_unless_a_setting_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: pytest.fail("it was downloaded"))
    error = refused(tmp_path, f"local:{NAME}")
    assert f"ONWARD_EMBEDDER='local:{NAME}'" in error
    assert f"into the folder {tmp_path}/models/{NAME}" in error
    assert "set ONWARD_EMBEDDER_DOWNLOAD=true" in error
    assert not (tmp_path / "models").exists()


class Hub:
    """A repository of models, in place of the one on the network."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.revisions: list[str | None] = []
        self.patterns: list[list[str]] = []

    def list_repo_files(self, name: str, *, revision: str | None = None) -> list[str]:
        assert name == NAME
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())

    def snapshot_download(
        self, name: str, *, revision: str | None, local_dir: Path, allow_patterns: list[str]
    ) -> None:
        self.revisions.append(revision)
        self.patterns.append(allow_patterns)
        for file in filter_repo_objects(self.list_repo_files(name), allow_patterns=allow_patterns):
            (local_dir / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.folder / file, local_dir / file)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Hub]:
    def serve(folder: Path) -> Hub:
        hub = Hub(folder)
        monkeypatch.setattr(huggingface_hub, "HfApi", lambda: hub)
        monkeypatch.setattr(huggingface_hub, "snapshot_download", hub.snapshot_download)
        return hub

    return serve


def test_a_model_is_downloaded_once_without_what_is_not_needed(tmp_path: Path, hub: Callable[[Path], Hub]) -> None:
    there = write_onnx_model(tmp_path / "there")
    for name in ("model.safetensors", "onnx/model_O4.onnx", "tf_model.h5"):
        (there / name).write_bytes(b"large")
    serving = hub(there)
    allowed = settings(tmp_path / "home", f"local:{NAME}@v1.5", embedder_download=True)
    assert open_embedder(allowed).embed(["ship"]).any()
    assert serving.revisions == ["v1.5", "v1.5"]
    folder = tmp_path / "home" / "models" / f"{NAME}@v1.5"
    assert (folder / "onnx" / "model.onnx").is_file()
    assert not list(folder.rglob("*O4*")), "other forms of the weights"
    assert not list(folder.glob("*.safetensors"))
    assert open_embedder(allowed).embed(["ship"]).any()
    assert len(serving.revisions) == 2, "it is here now"


def test_of_model2vec_the_table_is_downloaded(tmp_path: Path, hub: Callable[[Path], Hub]) -> None:
    there = write_table_model(tmp_path / "there")
    (there / "onnx").mkdir()
    (there / "onnx" / "model.onnx").write_bytes(b"with other inputs")
    hub(there)
    embedder = open_embedder(settings(tmp_path / "home", f"local:{NAME}", embedder_download=True))
    assert embedder.model.startswith("local:model2vec-")


def test_a_download_that_fails_leaves_no_model_behind(
    tmp_path: Path, hub: Callable[[Path], Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = hub(write_onnx_model(tmp_path / "there"))
    home, allowed = tmp_path / "home", {"embedder_download": True}

    def fail(name: str, *, revision: str | None = None) -> list[str]:
        raise ConnectionError("the network is gone")

    monkeypatch.setattr(serving, "list_repo_files", fail)
    error = refused(home, f"local:{NAME}", **allowed)
    assert "cannot be downloaded: the network is gone" in error
    assert not (home / "models" / NAME).exists(), "half a model would be taken for a whole one"
    hub(tmp_path / "there")
    assert open_embedder(settings(home, f"local:{NAME}", **allowed)).embed(["ship"]).any()


def test_the_weights_of_a_repository() -> None:
    names = ["2_Dense/model.safetensors", "model.safetensors", "onnx/model.onnx", "onnx/model.onnx_data"]
    assert weights_to_download(names, table=False) == [
        "2_Dense/model.safetensors", "onnx/model.onnx", "onnx/model.onnx_data"
    ]  # fmt: skip
    assert weights_to_download(["model.safetensors", "README.md"], table=False) == ["model.safetensors"]
    assert weights_to_download(["pytorch_model.bin", "training_args.bin"], table=False) == ["pytorch_model.bin"]


def test_what_is_neither_a_folder_nor_a_name_is_refused(tmp_path: Path) -> None:
    for where in ("/nowhere/at/all", "../up", "three/part/name", "name with spaces"):
        assert "Give the folder of a model, or a name such as" in refused(tmp_path, f"local:{where}")


def test_an_empty_folder_says_what_belongs_into_it(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "neither onnx/model.onnx nor model.safetensors" in refused(tmp_path, f"local:{tmp_path}/empty")


def test_a_model_needs_its_tokenizer(tmp_path: Path) -> None:
    folder = write_onnx_model(tmp_path / "model")
    (folder / "tokenizer.json").unlink()
    assert "has no tokenizer.json" in refused(tmp_path, f"local:{folder}")


@pytest.mark.parametrize(
    ("file", "content", "error"),
    (
        ("modules.json", [{"type": "sentence_transformers.models.LSTM", "path": "1"}], "names the part 'LSTM'"),
        ("modules.json", [{"path": "1"}], "are not those of a model"),
        ("modules.json", "text", "are not those of a model"),
        ("1_Pooling/config.json", {"pooling_mode": "median"}, "wants the pooling 'median'"),
        ("1_Pooling/config.json", {"include_prompt": False}, "leaves prompts out of pooling"),
    ),
)
def test_what_cannot_be_run_is_named(tmp_path: Path, file: str, content: object, error: str) -> None:
    folder = write_onnx_model(tmp_path / "model")
    write_json(folder / file, content)
    with pytest.raises(LocalModelError, match=error):
        read_model_folder(folder)


def test_a_json_file_that_is_damaged_is_named(tmp_path: Path) -> None:
    folder = write_onnx_model(tmp_path / "model")
    (folder / "modules.json").write_text("[")
    with pytest.raises(LocalModelError, match=r"modules\.json cannot be read"):
        read_model_folder(folder)


@pytest.mark.parametrize(
    ("own", "tokenizer", "config", "expected"),
    (
        ({"max_seq_length": 256}, {"model_max_length": 512}, {"max_position_embeddings": 512}, 256),
        ({}, {"model_max_length": 128}, {"max_position_embeddings": 512}, 128),
        ({}, {"model_max_length": 10**30}, {"max_position_embeddings": 514, "model_type": "xlm-roberta"}, 512),
        ({}, {}, {}, 512),
    ),
)
def test_the_maximum_length_is_found_as_sentence_transformers_finds_it(
    tmp_path: Path, own: object, tokenizer: object, config: object, expected: int
) -> None:
    folder = write_onnx_model(tmp_path / "model")
    for name, content in (("sentence_bert_", own), ("tokenizer_", tokenizer), ("", config)):
        write_json(folder / f"{name}config.json", content)
    assert read_model_folder(folder).max_tokens == expected


@pytest.fixture
def torch_model(tmp_path: Path) -> Path:
    """A model that has weights for PyTorch only."""
    folder = write_onnx_model(tmp_path / "model", prompts={"query": "query: "})
    shutil.rmtree(folder / "onnx")
    (folder / "pytorch_model.bin").write_bytes(b"weights")
    return folder


def test_weights_for_pytorch_alone_need_sentence_transformers_or_a_graph(
    torch_model: Path, tmp_path: Path
) -> None:
    error = refused(tmp_path, f"local:{torch_model}")
    assert "has only weights for PyTorch" in error
    assert "optimum-cli export onnx" in error
    assert "pip install sentence-transformers" in error


def test_sentence_transformers_runs_them_if_it_is_installed(
    torch_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[Any, ...]] = []

    class SentenceTransformer:
        max_seq_length = 0

        def __init__(self, folder: str, *, device: str, local_files_only: bool) -> None:
            calls.append((folder, device, local_files_only))

        def encode(self, texts: list[str], *, prompt: str, **_: object) -> np.ndarray[Any, Any]:
            calls.append((texts, prompt, self.max_seq_length))
            return np.full((len(texts), 4), 3.0)

    torch = types.ModuleType("torch")
    torch.set_num_threads = lambda number: calls.append((number,))  # type: ignore[attr-defined]
    package = types.ModuleType("sentence_transformers")
    package.SentenceTransformer = SentenceTransformer  # type: ignore[attr-defined]
    package.__spec__ = types.SimpleNamespace()  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    embedder = open_embedder(settings(tmp_path, f"local:{torch_model}", embedder_threads=2))
    rows = embedder.embed(["ship", ""], query=True)
    assert rows.tolist() == [[0.5] * 4, [0.0] * 4]
    assert calls == [(2,), (str(torch_model), "cpu", True), (["ship"], "query: ", 16)]
