"""The words of tiny models, and their tokenizer: without torch, for programs that start often."""

from tokenizers import Tokenizer, models, pre_tokenizers

NAMES = ["red", "green", "blue", "black", "white", "brown", "pink", "grey", "gold", "lime"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "</s>", "."]
PROMPT = ["question", "index", "title", "context", ":", "which", "colour", "?"]
NUMBERS = [f"<{i}>" for i in range(12)]
WORDS = {word: i for i, word in enumerate([*SPECIAL, *PROMPT, *NAMES, *NUMBERS])}
NUMBER_TOKENS = tuple(WORDS[number] for number in NUMBERS)


def tokenizer() -> Tokenizer:
    made = Tokenizer(models.WordLevel(WORDS, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens(["[CLS]", "[SEP]", "</s>", *NUMBERS])
    return made
