"""The pipeline as a service: HTTP (`app`) with a web page, and the Model Context Protocol (`mcp`).

`engine` runs the models and knows nothing of HTTP, in threads (`batching`) where clients take
`turns`. `middleware` guards every request, by its `access` and `tokens`; `schemas` checks what is
in it against the limits, and `responses` has every error.
"""
