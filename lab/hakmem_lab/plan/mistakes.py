"""Mistakes in a spec, in our own words instead of the validator's."""

from typing import Any

# The validator's name of a mistake -> what is wanted; the words in braces are what it says about the limits.
WORDS = {
    "int_parsing": "a whole number is wanted",
    "int_type": "a whole number is wanted",
    "int_from_float": "a whole number is wanted",
    "int_parsing_size": "this number is too large",
    "float_parsing": "a number is wanted",
    "float_type": "a number is wanted",
    "finite_number": "a finite number is wanted",
    "bool_parsing": "true or false is wanted",
    "bool_type": "true or false is wanted",
    "string_type": "text is wanted",
    "list_type": "a list is wanted",
    "dict_type": "a table is wanted",
    "model_type": "a table is wanted",
    "model_attributes_type": "a table is wanted",
    "literal_error": "only {expected} is possible",
    "greater_than": "it must be more than {gt}",
    "greater_than_equal": "it must be at least {ge}",
    "less_than": "it must be less than {lt}",
    "less_than_equal": "it must be at most {le}",
    "too_short": "at least {min_length} must be given, there are {actual_length}",
    "too_long": "at most {max_length} can be given, there are {actual_length}",
}


def said(error: dict[str, Any]) -> str:
    """One mistake of those that the validator lists; those that we raise ourselves say it already."""
    limits = {name: _plain(value) for name, value in error.get("ctx", {}).items()}
    try:
        return WORDS[error["type"]].format_map(limits)
    except KeyError:
        return error["msg"].removeprefix("Value error, ")


def _plain(value: Any) -> Any:
    """1000000 rather than 1e6 or 1000000.0."""
    return f"{value:,.15g}" if isinstance(value, float | int) and not isinstance(value, bool) else value
