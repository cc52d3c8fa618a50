"""The second stage: which of the candidates, and in which order."""
