"""Files on disk: atomic writes, locks, checksums, resumable output; no format of the field.

Importing it needs the standard library alone, so that it serves where models are trained:
zstandard and Dask are loaded when they are used.
"""
