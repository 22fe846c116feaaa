"""Results for people and for other tools: the terminal, the HTML page, formats, frames for Python."""
