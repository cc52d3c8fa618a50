"""Files on disk: atomic publishing, locks, checksums, resumable output; no format of the field."""
