"""Tells setuptools that the wheel holds programs of one machine; everything else is in pyproject.toml."""

from setuptools import Distribution, setup


class Binary(Distribution):
    def has_ext_modules(self) -> bool:
        return True


setup(distclass=Binary)
