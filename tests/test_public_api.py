"""The public names; a change here is a change for users and belongs in CHANGELOG.md."""

import subprocess
import sys
from importlib.metadata import version

import pytest

import jpr

NAMES = """
Answer AnswerF1 Bm25Retriever ConfigError Coverage DataError Decoding DenseRetriever
DistinctRetriever DiverseReranker EM ERR_IA FirstStageOrder FormatError FunctionRetriever
FusionReader Hit HybridRetriever Index JointReranker JprError LlmReader MRecall MRecall_clusters
MRecall_superset MissingExtraError Mmr OracleReranker Node Passage Pipeline PointwiseReranker
Prediction Pyversity Question Ranking Recall ReciprocalRanks Reply RunRetriever ScoreMix SpanReader
StRecall Support add_to_index alpha_nDCG ask ask_async build_index compare cover evaluate
evaluate_answers load_encoder load_predictions load_qrels load_questions load_rankings load_reader
open_pipeline open_retriever read_passages remove_from_index write_passages write_questions
write_rankings
""".split()  # noqa: SIM905  it reads better so


def test_the_public_names_are_these() -> None:
    assert sorted(NAMES) == jpr.__all__


def test_every_name_loads() -> None:
    broken = [name for name in NAMES if getattr(jpr, name, None) is None or name not in dir(jpr)]
    assert broken == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = jpr.nonsense  # type: ignore[attr-defined]  # the point of the test


def test_importing_the_package_loads_nothing() -> None:
    code = "import sys, jpr; print(*[m for m in sys.modules if m.startswith('jpr.')])"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == []


def test_the_version_is_the_installed_one() -> None:
    assert jpr.__version__ == version("jpr")
