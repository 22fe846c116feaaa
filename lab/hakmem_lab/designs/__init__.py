"""The six designs of a measurement, and the engine that runs them: docs/lab/engine.md."""
