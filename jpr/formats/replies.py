"""Replies as JSON: `jpr ask --json`, the service, the files of `jpr rerank --trees` and `jpr read`.

docs/ask.md explains the keys. Passages are named by their ids; an infinite number is null.
"""

from collections.abc import Sequence
from math import exp, isfinite

from jpr.formats.gold import json_line
from jpr.types import Answer, Prefix, Ranking, Reply

Json = dict[str, object]


def reply_json(reply: Reply, independent: Reply | None = None) -> Json:
    """Return a reply, and if given the one with independently ranked passages beside it."""
    named = {node.passage for node in reply.nodes}
    named |= {other for node in reply.nodes for _, other, _ in node.instead_of}
    passages = [reply.candidates.hits[place].passage for place in sorted(named)]
    titles = {passage.id: passage.title for passage in passages}
    found: Json = {
        "question": reply.question,
        "answers": answers_json(reply),
        "passages": passages_json(reply),
        "tree": tree_json(reply) | {"titles": titles},
    }
    if independent is not None:
        chosen = {"answers": answers_json(independent), "passages": passages_json(independent)}
        found["independent"] = chosen
    return found


def answers_json(reply: Reply) -> list[Json]:
    """Return the answers with their probabilities and passages."""
    return [
        {
            "text": answer.text,
            "score": round(exp(answer.log_prob), 4) if isfinite(answer.log_prob) else None,
            "passages": [one.passage.id for one in answer.support],
        }
        for answer in reply.answers
    ]


def passages_json(reply: Reply) -> list[Json]:
    """Return the chosen passages with the spans of answers and the new answers of each."""
    spans: dict[str, list[dict[str, int]]] = {}
    for at, answer in enumerate(reply.answers):
        for one in answer.support:
            known = spans.setdefault(one.passage.id, [])
            known.extend({"answer": at, "start": start, "end": end} for start, end in one.spans)
    truncated = {reply.candidates.hits[place].passage.id for place in reply.truncated}
    return [
        {
            "id": hit.passage.id,
            "title": hit.passage.title,
            "text": hit.passage.text,
            "score": _finite(hit.score),
            "depth": depth,
            "spans": spans.get(hit.passage.id, []),
            "adds": list(new),
            **({"meta": dict(hit.passage.meta)} if hit.passage.meta else {}),
            **({"truncated": True} if hit.passage.id in truncated else {}),
        }
        for hit, depth, new in zip(reply.ranking.hits, reply.depths, reply.new_answers, strict=True)
    ]


def tree_json(reply: Reply) -> Json:
    """Return the search: decoder, β and nodes."""
    return {"decoder": reply.decoder, "beta": reply.beta, "nodes": _nodes(reply)}


def tree_line(reply: Reply) -> str:
    """Return the search as a line of a file of trees."""
    question = reply.ranking.question
    return json_line({"id": question.id, "question": question.text, "nodes": _nodes(reply)})


def _nodes(reply: Reply) -> list[Json]:
    ids = [hit.passage.id for hit in reply.candidates.hits]

    def expansion(prefix: Prefix, passage: int, score: float) -> Json:
        earlier = [ids[place] for place in prefix]
        return {"passage": ids[passage], "prefix": earlier, "score": _finite(score)}

    return [
        {
            **expansion(node.prefix, node.passage, node.score),
            "depth": len(node.prefix) + 1,
            "log_prob": _finite(node.log_prob),
            "is_new": node.is_new,
            "instead_of": [expansion(*other) for other in node.instead_of],
            "adds": [
                {
                    "answer": one.text,
                    "probability": round(one.probability, 4),
                    "overall": round(one.overall, 4),
                    "spans": one.spans,
                }
                for one in node.expected
            ],
        }
        for node in reply.nodes
    ]


def answers_line(ranking: Ranking, answers: Sequence[Answer]) -> str:
    """Return the answers to a question as a line that `jpr evaluate --answers` scores."""
    found = [
        {
            "text": answer.text,
            "log_prob": round(answer.log_prob, 4) if isfinite(answer.log_prob) else None,
            "support": [{"passage": one.passage.id, "spans": one.spans} for one in answer.support],
        }
        for answer in answers
    ]
    return json_line({"id": ranking.question.id, "answers": found})


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
