"""Spans of whole words by enumeration, to compare tries with."""

import torch

from jpr.models.tries import Tries

Text = list[tuple[int, bool]]
"""Tokens, each with whether it continues a word; -1 for one outside every span."""


def tries_of(questions: list[list[Text]], longest: int, device: str = "cpu") -> Tries:
    """Build the tries of questions' texts."""
    texts = [text for question in questions for text in question]
    flat = [token for text in texts for token in text]
    return Tries.of(
        torch.tensor([token for token, _ in flat], dtype=torch.long, device=device),
        torch.tensor([len(text) for text in texts], dtype=torch.long, device=device),
        torch.tensor([len(question) for question in questions], device=device),
        torch.tensor([continues for _, continues in flat], dtype=torch.bool, device=device),
        longest,
    )


def whole_spans(texts: list[Text], longest: int) -> set[tuple[int, ...]]:
    """Return all spans of whole words."""
    found = set()
    for text in texts:
        begins = [at == 0 or not text[at][1] for at in range(len(text))] + [True]
        for first in range(len(text)):
            for last in range(first + 1, min(first + longest, len(text)) + 1):
                span = tuple(token for token, _ in text[first:last])
                if begins[first] and begins[last] and -1 not in span:
                    found.add(span)
    return found
