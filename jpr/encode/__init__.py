"""Texts to vectors: encoders of questions and passages, and corpora of vectors on disk."""
