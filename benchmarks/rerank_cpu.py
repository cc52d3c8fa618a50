"""Speed of the joint reranker on one core, and how often 8 bits choose the same as 32.

python benchmarks/rerank_cpu.py RUN FOLDER… [--questions 10] [--agreement 100] [--out FILE.json]

RUN holds questions with candidates and their texts. Each FOLDER is a joint model, as `jpr train`
writes it, a Hugging Face BERT, which gets a random decoder of two layers, or a Hugging Face T5,
which gets a random pointer. Each is measured in torch (32 bits), in ONNX (32 bits) and in ONNX (8
bits, scaled by questions that are not measured), k = 5 by the decoder that its folder names, else
TreeDecode, one thread, from texts to choices, in CPU time; a T5 also implemented directly with
transformers: encoder over the padded candidates, vectors concatenated, `generate` of 5 tokens.

Agreement, for trained models only, as random ones find all candidates alike: the share of questions
for which the first passage, and the set of five, are the same in 8 bits as in 32.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from shutil import copyfile
from statistics import median
from typing import Any

import torch
import transformers
from transformers.modeling_outputs import BaseModelOutput

from jpr.decode.search import chosen_passages
from jpr.encode.tokenizer import read_tokenizer
from jpr.formats.runs import load_rankings
from jpr.io.atomic import publish
from jpr.io.manifest import manifest
from jpr.models.joint_checkpoint import joint_over_bert, joint_over_t5, write_joint
from jpr.rerank.joint import JointReranker, model_input
from jpr.rerank.prompt import Prompts, PromptSettings
from jpr.rerank.save import export_joint
from jpr.types import Ranking

K = 5
SAMPLE = 32
PACKAGES = ("onnxruntime", "torch", "transformers")
LONGEST = 360
Row = dict[str, object]


def t5_prompt(source: Path) -> PromptSettings:
    """Return how a T5 with a pointer reads texts."""
    token = read_tokenizer(source / "tokenizer.json").token_to_id("<extra_id_0>")
    assert token is not None
    return PromptSettings("t5", max_tokens=LONGEST, number_tokens=(token,))


def joint_folder(source: Path, work: Path) -> tuple[Path, bool]:
    """Return a folder with a joint model, and whether it was trained."""
    if (source / "joint.json").exists():
        return source, True
    kind = json.loads((source / "config.json").read_text(encoding="utf-8"))["model_type"]
    torch.manual_seed(0)
    made = work / source.name
    if kind == "t5":
        settings = t5_prompt(source)
        model = joint_over_t5(source, "pointer", settings.number_tokens)
    else:
        settings = PromptSettings("bert", max_tokens=LONGEST)
        model = joint_over_bert(source)
    write_joint(made, model, asdict(settings))
    copyfile(source / "tokenizer.json", made / "tokenizer.json")
    return made, False


def systems(folder: Path, sample: Sequence[Ranking], work: Path) -> dict[str, JointReranker]:
    """Return the same model three times."""
    found = {"torch, 32 bits": JointReranker.load(folder, device="cpu")}
    for name, given in (("ONNX, 32 bits", ()), ("ONNX, 8 bits", tuple(sample))):
        home = work / f"{folder.name}-{len(given)}"
        home.mkdir()
        export_joint(folder, home, given)
        found[name] = JointReranker.load(home, device="cpu", threads=1)
    return found


def seconds(work: Callable[[Ranking], object], rankings: Sequence[Ranking]) -> float:
    """Return the median CPU time for a question, after one that is not counted."""
    work(rankings[0])
    taken = []
    for ranking in rankings:
        start = time.process_time()
        work(ranking)
        taken.append(time.process_time() - start)
    return median(taken)


def direct(source: Path) -> Callable[[Ranking], object]:
    """Return Fusion in Decoder, implemented directly with transformers."""
    model: Any = transformers.T5ForConditionalGeneration.from_pretrained(source)
    prompts = Prompts(read_tokenizer(source / "tokenizer.json"), t5_prompt(source))

    @torch.inference_mode()
    def run(ranking: Ranking) -> None:
        rows = [torch.tensor(one.ids) for one in model_input(prompts, 0, ranking)]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        mask = (ids != 0).long()
        hidden = model.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        model.generate(
            encoder_outputs=BaseModelOutput(last_hidden_state=hidden.flatten(0, 1)[None]),
            attention_mask=mask.flatten()[None],
            max_new_tokens=K,
            min_new_tokens=K,
            do_sample=False,
        )

    return run


def agreement(one: JointReranker, other: JointReranker, rankings: Sequence[Ranking]) -> Row:
    """Return how often the first passage and the five passages are the same."""
    first = five = 0
    for a, b in zip(one.decode_many(rankings, K), other.decode_many(rankings, K), strict=True):
        first += chosen_passages(a.nodes)[:1] == chosen_passages(b.nodes)[:1]
        five += set(chosen_passages(a.nodes)) == set(chosen_passages(b.nodes))
    n = len(rankings)
    return {"questions": n, "same first passage": first / n, "same five passages": five / n}


def measure(source: Path, rankings: Sequence[Ranking], options: argparse.Namespace) -> Row:
    """Measure one model in all its forms."""
    with tempfile.TemporaryDirectory() as name:
        folder, trained = joint_folder(source, Path(name))
        forms = systems(folder, rankings[-SAMPLE:], Path(name))
        some = rankings[: options.questions]
        taken = {form: seconds(lambda r, f=found: f.rank(r.question, r.hits, K), some)  # type: ignore[misc]
                 for form, found in forms.items()}  # fmt: skip
        if not trained and json.loads((source / "config.json").read_text())["model_type"] == "t5":
            taken["transformers, fusion and generate"] = seconds(direct(source), some)
        found: Row = {"model": source.name, "CPU seconds per question": taken}
        found["8 bits against torch"] = taken["torch, 32 bits"] / taken["ONNX, 8 bits"]
        if trained:
            asked = rankings[: options.agreement]
            found["agreement"] = agreement(forms["torch, 32 bits"], forms["ONNX, 8 bits"], asked)
    return found


def main() -> None:
    """Measure, print, and save the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--questions", type=int, default=10)
    parser.add_argument("--agreement", type=int, default=100)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    start = time.perf_counter()
    most = max(options.questions, options.agreement) + SAMPLE
    rankings = list(islice(load_rankings(options.run), most))
    rows = []
    for source in options.models:
        rows.append(measure(source, rankings, options))
        print(json.dumps(rows[-1], indent=1), flush=True)
    about = manifest(
        "benchmarks/rerank_cpu.py",
        {"run": options.run},
        time.perf_counter() - start,
        packages=PACKAGES,
    )
    if options.out:
        with publish(options.out) as stream:
            json.dump({"k": K, "rows": rows, "manifest": about}, stream, indent=1)
            stream.write("\n")


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    main()
