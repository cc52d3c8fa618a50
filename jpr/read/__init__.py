"""Answers from chosen passages: the third stage."""
