"""Random expressions and texts of few letters, the odd cases of s, k and i among them."""

from hypothesis import strategies as st

_ITEMS = [
    "a",
    "k",
    "S",
    "i",
    "I",
    "19",
    "é",
    "ı",
    ".",
    " ",
    "^",
    "$",
    r"\s",
    r"\s*",
    r"\b",
    r"\d",
    r"\.",
]
_SETS = ["[ab]", "[^a]", "[k-s]", "[0-9]", "[-a]", r"[\s,]", "[éa]"]
_REPEATS = ["", "?", "*", "+", "{2}", "{0,1}", "{,2}", "*?", "?+"]

patterns = st.recursive(
    st.sampled_from(_ITEMS + _SETS),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=4).map("".join),
        st.tuples(inner, inner).map("|".join),
        st.builds("({}){}".format, inner, st.sampled_from(_REPEATS)),
        st.builds("(?:{}){}".format, inner, st.sampled_from(_REPEATS)),
    ),
    max_leaves=8,
)
texts = st.text("aAbkKsSiI19é ſıİK\n\t\xa0\u2028.,-Σ", max_size=12)
