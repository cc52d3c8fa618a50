"""CuratedTREC's regular expressions into distinct answers: `python -m recipes.group_answers`."""
