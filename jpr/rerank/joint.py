"""Joint passage ranking: of the candidates, the k that cover most together (paper, section 3)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from jpr.decode import (
    Decoded,
    Limits,
    Search,
    beam,
    decode_many,
    independent,
    sequence,
    tree,
)
from jpr.encode.folder import digest_of, wants_gpu, weight_files
from jpr.encode.tokens import read_tokenizer
from jpr.errors import ConfigError, FormatError, MissingExtraError
from jpr.rerank.order import checked, ranked
from jpr.rerank.prompt import Prompts, PromptSettings
from jpr.types import Hit, Question, Ranking

if TYPE_CHECKING:
    from jpr.models.joint import Candidates, JointModel

DECODERS = ("tree", "seq", "beam", "independent")
_BATCH = 8
"""Questions encoded and decoded together."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """How passages are chosen, given the model."""

    decoder: str = "tree"
    beta: float = 2.0
    """tree: the larger, the wider and less diverse."""
    width: int = 4
    """beam: sequences kept."""
    threshold: float = float("-inf")
    """Stop before an expansion that scores less: `k` is then the most."""
    budget: int | None = None
    """Tokens that the chosen passages may have together."""

    def __post_init__(self) -> None:
        if self.decoder not in DECODERS:
            raise ConfigError(f"decoder {self.decoder!r}; choose of {', '.join(DECODERS)}")

    def search(self, n: int, limits: Limits) -> Search:
        """Return the search for one question with n candidates."""
        searches: dict[str, Callable[[], Search]] = {
            "tree": lambda: tree(n, limits, self.beta),
            "seq": lambda: sequence(n, limits),
            "beam": lambda: beam(n, limits, self.width),
            "independent": lambda: independent(n, limits),
        }
        return searches[self.decoder]()


class JointReranker:
    """A joint model with a way to decode; with the decoder `independent` it is IndepPR."""

    def __init__(
        self, model: "JointModel", prompts: Prompts, decoding: Decoding, key: str = ""
    ) -> None:
        """Put the parts together; `key` names the weights."""
        self._model, self._prompts, self._decoding = model, prompts, decoding
        self.key = f"joint {key} {prompts.settings} {decoding}"

    @classmethod
    def load(
        cls, folder: Path | None, decoder: str = "tree", beta: float = 2.0, device: str = "auto"
    ) -> "JointReranker":
        """Open a model's folder; on a GPU where there is one."""
        if folder is None:
            raise ConfigError("this version has no joint model of its own yet; name one: --model")
        if not find_spec("torch"):
            raise MissingExtraError(f"{folder}: a joint model", "train")
        from jpr.models.joint_folder import read_joint

        model, about = read_joint(folder)
        prompts = Prompts(read_tokenizer(folder / "tokenizer.json"), _settings(folder, about))
        placed = model.to("cuda" if wants_gpu(device) else "cpu")
        return cls(placed, prompts, Decoding(decoder, beta), digest_of(weight_files(folder)))

    def rank(self, question: Question, candidates: Sequence[Hit], k: int) -> Ranking:
        """Choose k of the candidates, best first; all where there are fewer."""
        return next(self.rank_many([Ranking(question, tuple(candidates))], k))

    def rank_many(self, rankings: Iterable[Ranking], k: int) -> Iterator[Ranking]:
        """Do the same for the candidates of many questions, some at a time."""
        return (ranking for ranking, _ in self.decode_many(rankings, k))

    def decode_many(self, rankings: Iterable[Ranking], k: int) -> Iterator[tuple[Ranking, Decoded]]:
        """Do as `rank_many` does, and say how; nodes number a question's candidates from 0."""
        rest = iter(rankings)
        while batch := list(islice(rest, _BATCH)):
            for given, found in zip(batch, self._decoded(batch, checked(k)), strict=True):
                chosen = [(node.passage, node.score) for node in found.nodes if node.is_new]
                yield ranked(given.question, given.hits, chosen), found

    def _decoded(self, batch: Sequence[Ranking], k: int) -> list[Decoded]:
        """Decode a batch; questions without candidates have nothing to choose from."""
        import torch

        from jpr.models.steps import Steps

        full = [ranking for ranking in batch if ranking.hits]
        found: Iterator[Decoded] = iter(())
        if full:
            candidates, costs = self._candidates(full)
            limits = [
                Limits(k, self._decoding.threshold, self._decoding.budget, cost) for cost in costs
            ]
            searches = [
                self._decoding.search(len(ranking.hits), limit)
                for ranking, limit in zip(full, limits, strict=True)
            ]
            cuda = candidates.ids.device.type == "cuda"
            with (
                torch.inference_mode(),
                torch.autocast(candidates.ids.device.type, torch.bfloat16, enabled=cuda),
            ):
                steps = Steps(self._model, self._model.encode(candidates))
                found = iter(decode_many(searches, steps))
        return [next(found) if ranking.hits else Decoded(()) for ranking in batch]

    def _candidates(self, batch: Sequence[Ranking]) -> "tuple[Candidates, list[list[int]]]":
        """Return all candidates as the model takes them, and how many tokens each has."""
        import torch

        from jpr.models.joint import Candidates

        device = next(self._model.parameters()).device
        prompted = [
            self._prompts.of(
                ranking.question.text,
                [hit.passage for hit in ranking.hits],
                range(len(ranking.hits)),
            )
            for ranking in batch
        ]
        flat = [one for of_question in prompted for one in of_question]
        ids = torch.tensor([token for one in flat for token in one.ids], device=device)
        lengths = torch.tensor([len(one.ids) for one in flat], device=device)
        marks = torch.tensor([one.mark for one in flat], device=device)
        numbers = torch.cat([torch.arange(len(r.hits)) for r in batch]).to(device)
        prior = -torch.log1p(numbers.float())
        counts = tuple(len(ranking.hits) for ranking in batch)
        made = Candidates(ids, lengths, counts, marks, numbers, prior)
        return made, [[len(one.ids) for one in of_question] for of_question in prompted]


def _settings(folder: Path, about: dict[str, object]) -> PromptSettings:
    known = {name: tuple(v) if isinstance(v, list) else v for name, v in about.items()}
    try:
        return PromptSettings(**known)  # type: ignore[arg-type]  # checked by use
    except TypeError as error:
        raise FormatError(folder / "joint.json", 0, f"its prompt is not known: {error}") from error
