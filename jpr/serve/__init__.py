"""The pipeline as a service: HTTP (`app`) with a web page, and the Model Context Protocol (`mcp`).

`engine` runs the models and knows nothing of HTTP. `middleware` guards every request, `schemas`
checks what is in it against the limits, and `responses` has every error.
"""
