# The public names and where they live: read by type checkers and, at run time, by __init__.py.
from jpr.corpus import read_passages as read_passages
from jpr.corpus import write_passages as write_passages
from jpr.coverage import Coverage as Coverage
from jpr.coverage import cover as cover
from jpr.errors import ConfigError as ConfigError
from jpr.errors import DataError as DataError
from jpr.errors import FormatError as FormatError
from jpr.errors import JprError as JprError
from jpr.errors import MissingExtraError as MissingExtraError
from jpr.judge.answers import EM as EM
from jpr.judge.answers import AnswerF1 as AnswerF1
from jpr.judge.compare import compare as compare
from jpr.judge.evaluation import evaluate as evaluate
from jpr.judge.evaluation import evaluate_answers as evaluate_answers
from jpr.judge.measures import ERR_IA as ERR_IA
from jpr.judge.measures import MRecall as MRecall
from jpr.judge.measures import MRecall_clusters as MRecall_clusters
from jpr.judge.measures import MRecall_superset as MRecall_superset
from jpr.judge.measures import Recall as Recall
from jpr.judge.measures import StRecall as StRecall
from jpr.judge.measures import alpha_nDCG as alpha_nDCG
from jpr.questions import load_questions as load_questions
from jpr.questions import write_questions as write_questions
from jpr.retrieve.index import Bm25Retriever as Bm25Retriever
from jpr.retrieve.index import build_index as build_index
from jpr.runs import load_rankings as load_rankings
from jpr.runs import write_rankings as write_rankings
from jpr.runs.predictions import load_predictions as load_predictions
from jpr.runs.qrels import load_qrels as load_qrels
from jpr.types import Hit as Hit
from jpr.types import Passage as Passage
from jpr.types import Prediction as Prediction
from jpr.types import Question as Question
from jpr.types import Ranking as Ranking

__version__: str
__all__: list[str]
