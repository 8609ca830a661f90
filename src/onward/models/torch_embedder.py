"""An embedder for models that have PyTorch weights only: sentence-transformers runs them, if it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onward.models.local_embedder import LocalEmbedder
from onward.models.model_folder import LocalModelError


class TorchEmbedder(LocalEmbedder[Any]):  # Any: the package has no types
    """Runs a model with sentence-transformers on the processor."""

    def load(self) -> Any:
        import torch
        from sentence_transformers import SentenceTransformer

        torch.set_num_threads(self.threads)
        try:
            model = SentenceTransformer(str(self.files.folder), device="cpu", local_files_only=True)
        except Exception as error:  # whatever its many parts raise
            raise LocalModelError(f"sentence-transformers cannot open {self.files.folder}: {error}") from error
        model.max_seq_length = self.max_tokens
        return model

    def compute(self, loaded: Any, texts: Sequence[str], prompt: str) -> NDArray[np.float32]:
        options = {"batch_size": self.batch, "convert_to_numpy": True, "show_progress_bar": False}
        vectors: NDArray[np.float32] = loaded.encode(list(texts), prompt=prompt, **options)
        return vectors.astype(np.float32, copy=False)
