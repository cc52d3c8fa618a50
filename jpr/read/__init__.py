"""The third stage: answers from chosen passages.

Knows how answers are located or generated; knows nothing of how passages were chosen.
"""
