"""The five designs of a comparison, and the engine that runs them: docs/lab/engine.md."""
