"""File formats of the field: corpora, questions with gold answers, runs, predictions, judgements.

It knows how they are spelled and turns them into `jpr.types`; it knows no model and no index.
"""
