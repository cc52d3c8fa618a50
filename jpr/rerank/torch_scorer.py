"""A joint model in torch: on a GPU in 16 bits, or on the CPU if it was not exported.

If a folder has only ONNX files, their weights are converted back to torch.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from jpr.encode.encoder_folder import weight_files, weights_digest
from jpr.errors import ConfigError
from jpr.models.candidates import PackedCandidates
from jpr.models.decoder_cache import CachePool, PrefixScorer
from jpr.models.heads import IndexHead, tokens_left
from jpr.models.joint import JointModel
from jpr.models.joint_checkpoint import read_joint
from jpr.models.joint_config import exported_files
from jpr.rerank.evidence import PassageTokens
from jpr.rerank.scorer import ModelInput, Opened, rank_prior


class TorchScorer:
    """A `JointModel` on its device."""

    batch = 8
    stays_open = False  # the next questions reuse its buffers

    def __init__(self, model: JointModel, key: str = "") -> None:
        """Take a model on its device; `key` names its weights."""
        self._model, self._caches, self.key = model, CachePool(model), key
        self.ahead = 12 if next(model.parameters()).is_cuda else 4
        self.reads_answers = model.answers is not None
        self.index_tokens = len(model.head.tokens) if isinstance(model.head, IndexHead) else 0

    @classmethod
    def load(cls, folder: Path, sums: Mapping[Path, str], device: str) -> "TorchScorer":
        """Read a folder's weights for a device, `cuda` or `cpu`; `sums` are their known hashes."""
        if device == "cuda" and not torch.cuda.is_available():
            raise ConfigError("device cuda: torch sees no GPU here; use cpu or auto")
        if files := weight_files(folder):
            model = read_joint(folder)
        else:
            from jpr.models.onnx_weights import joint_from_onnx  # needs onnx

            model, files = joint_from_onnx(folder), exported_files(folder)
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        return cls(model.to(device, dtype), weights_digest(files, sums))

    def open(self, inputs: Sequence[ModelInput]) -> Opened:
        """Read the candidates of several questions at once."""
        device = next(self._model.parameters()).device
        flat = [one for question in inputs for one in question]
        prior = torch.cat([torch.from_numpy(rank_prior(question)) for question in inputs])
        candidates = PackedCandidates(
            ids=torch.tensor([token for one in flat for token in one.ids], device=device),
            lengths=torch.tensor([len(one.ids) for one in flat], device=device),
            counts=tuple(len(question) for question in inputs),
            marks=torch.tensor([one.mark for one in flat], device=device),
            passage_starts=torch.tensor([one.text for one in flat], device=device),
            index_ids=torch.tensor([one.number for one in flat], device=device),
            prior=prior.to(device),
        )
        return self.open_packed(candidates)

    @torch.inference_mode()
    def open_packed(self, candidates: PackedCandidates) -> Opened:
        """Do the same with candidates on the model's device."""
        encoded = self._caches.encode(candidates)
        ask = PrefixScorer(self._model, encoded, self._caches)
        if encoded.answers is None:
            return Opened(ask)
        lengths, texts = candidates.lengths, candidates.passage_starts
        row = torch.repeat_interleave(lengths, output_size=len(candidates.ids))
        kept = tokens_left(row, lengths, texts) > 0
        sizes = torch.split((lengths - 1 - texts).clamp(min=0).cpu(), list(candidates.counts))
        tokens = [int(of_question.sum()) for of_question in sizes]
        ids, spans = (
            torch.split(all_[kept].cpu(), tokens) for all_ in (candidates.ids, encoded.answers)
        )
        passages = [
            PassageTokens(own.numpy(), of_each.numpy(), where.numpy())
            for own, of_each, where in zip(ids, sizes, spans, strict=True)
        ]
        return Opened(ask, passages)
