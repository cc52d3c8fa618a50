"""The second stage: which of the candidates to choose, and in which order.

Knows models, prompts and the text of passages; knows no index, and reads no files of passages.
"""
