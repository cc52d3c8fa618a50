"""Texts to vectors: encoders in folders (ONNX or torch), and the vectors of a corpus on disk.

Nothing here knows indexes or rankings.
"""
