"""Make the bundled encoder: the student of `recipes/dpr_plus.py`, in 8 bits.

Needs: the student's folder (config.json, model.safetensors, tokenizer.json), the passages as a TSV
and some training questions, from which the scales are found; a minute.

    python -m recipes.export_encoder STUDENT passages.tsv.xz ambignq_train.jsonl jpr/assets/encoder
"""

from itertools import islice

from jpr import load_questions, read_passages
from jpr.encode.encoder_folder import export_encoder
from jpr.encode.encoder_settings import EncoderSettings
from recipes.command_line import parser_of

SAMPLE = 400
EVERY = 3000


def main() -> None:
    """Take a sample and export."""
    parser = parser_of(__doc__, "student", "passages", "questions", "out")
    options = parser.parse_args()
    passages = list(islice(read_passages(options.passages), 0, SAMPLE * EVERY, EVERY))
    questions = [question.text for question in load_questions(options.questions)[:SAMPLE]]
    export_encoder(options.student, options.out, passages, questions, EncoderSettings())
    size = sum(path.stat().st_size for path in options.out.iterdir())
    print(f"{size / 1e6:.1f} MB in {options.out}")


if __name__ == "__main__":
    main()
