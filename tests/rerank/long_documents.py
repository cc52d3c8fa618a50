"""A question whose answers are in short documents, and far into long ones; invented."""

ASKED = "Who was treasurer of the rowing club?"
_OTHER = """
The river rises in the hills and runs past meadows, mills and small villages to the sea. In spring
its banks are covered with reeds and iris, and herons nest on the islands. Boats carried timber and
stone on it until the railway came. Anglers know it for trout and grayling.
"""


def document(n: int, sentence: str = "", at: int = 0) -> str:
    """A text of n words about something else, and a sentence after the first `at` of them."""
    others = (_OTHER * n).split()[:n]
    return " ".join([*others[:at], *sentence.split(), *others[at:]])


DOCUMENTS = [
    "The rowing club has forty members and a boathouse by the old mill.",
    "Margaret Doyle was treasurer of the rowing club in 1974.",
    document(600),
    "In 1974 the treasurer of the rowing club was Margaret Doyle, a teacher.",
    document(600, "Ingrid Solheim was treasurer of the rowing club in 2019.", 400),
    document(1200, "Paul Ferris was treasurer of the rowing club in 1990.", 1000),
]
ANSWERS = {1: "Margaret Doyle", 4: "Ingrid Solheim", 5: "Paul Ferris"}
"""The documents with the answers, and these; one of two may stand for Doyle."""
TOO_LONG = document(4000)
