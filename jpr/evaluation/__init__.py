"""Measures of runs and answers, with confidence intervals, paired tests and oracle scores.

Knows rankings, answers and judgements; nothing about models or how a run was made.
"""
