"""File formats of passages, questions and runs. Knows no model and no index."""
