from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import T5Config as TheirConfig
from transformers import T5ForConditionalGeneration

from jpr.errors import DataError, FormatError
from jpr.rerank.pointwise import PointwiseReranker
from jpr.types import Question
from tests.rerank.tiny import NAMES, QUESTION, hits

TOKENS = ["<pad>", "</s>", "<unk>", "▁true", "▁false", "Query", "Document", "Relevant", ":"]
WORDS = {word: i for i, word in enumerate([*TOKENS, "which", "colour", "?", *NAMES])}


def write_monot5(folder: Path) -> Any:  # noqa: ANN401  the library's types are loose
    """A folder like castorini's, but tiny and random; returns the library's own model."""
    torch.manual_seed(0)
    config = TheirConfig(
        vocab_size=len(WORDS), d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2
    )
    config.decoder_start_token_id = 0
    model: Any = T5ForConditionalGeneration(config)
    model.eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    model.save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel(WORDS, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return model


def test_the_score_is_the_librarys_softmax_over_true_and_false(tmp_path: Path) -> None:
    theirs = write_monot5(tmp_path)
    found = PointwiseReranker.load(tmp_path).rank(QUESTION, hits(NAMES), len(NAMES))
    for hit in found.hits:
        name = hit.passage.id
        text = f"Query : which colour ? Document : {name} {name} which {name} Relevant :"
        ids = torch.tensor([[*(WORDS[word] for word in text.split()), 1]])
        with torch.inference_mode():
            logits = theirs(input_ids=ids, decoder_input_ids=torch.tensor([[0]])).logits[0, 0]
        expected = logits[[3, 4]].log_softmax(-1)[0].item()
        assert hit.score == pytest.approx(expected, abs=1e-5)
    scores = [hit.score for hit in found.hits]
    assert scores == sorted(scores, reverse=True)


def test_each_candidate_is_scored_by_itself(tmp_path: Path) -> None:
    write_monot5(tmp_path)
    reranker = PointwiseReranker.load(tmp_path)
    every = {h.passage.id: h.score for h in reranker.rank(QUESTION, hits(NAMES), 99).hits}
    (alone,) = reranker.rank(QUESTION, hits(["gold"]), 1).hits
    assert alone.score == pytest.approx(every["gold"], abs=1e-5)
    assert reranker.rank(QUESTION, [], 3).hits == ()


def test_long_texts_lose_their_end_and_wrong_folders_are_refused(tmp_path: Path) -> None:
    write_monot5(tmp_path)
    reranker = PointwiseReranker.load(tmp_path)
    long = Question("q", "which colour ? " * 5000)
    assert len(reranker.rank(long, hits(["red " * 3000, "blue"]), 2).hits) == 2
    assert len(reranker.rank(Question("q", "\ud800 which"), hits(["\ud800 red"]), 1).hits) == 1
    with pytest.raises(DataError, match="has no text"):
        reranker.rank(Question("q", ""), hits(["red"]), 1)
    broken = Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    broken.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(FormatError, match="no token for 'true'"):
        PointwiseReranker.load(tmp_path)
