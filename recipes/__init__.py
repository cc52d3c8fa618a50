"""How each published number was made: scripts, run as `python -m recipes.NAME`."""
