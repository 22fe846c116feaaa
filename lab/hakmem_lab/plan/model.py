"""The base of every spec: its model, how values become a spec, and our own messages for mistakes."""

import tomllib
from pathlib import Path
from typing import Any, ClassVar, get_args

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, ValidationError, model_serializer
from pydantic_core import ErrorDetails

from hakmem_lab.errors import LabError, closest, decoded, nearest

BOTH = "hak compare --control glibc --treatment hakmem -- CMD"


class Model(BaseModel):
    """Keys are written with hyphens; unknown ones are refused."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        alias_generator=lambda name: name.replace("_", "-"),
        allow_inf_nan=False,
        defer_build=True,
    )

    @classmethod
    def place(cls, location: tuple, values: dict) -> tuple[str, tuple]:
        """(prefix of the message for a mistake at this location, the rest of the location)."""
        return "", location


class Sparse(Model):
    """ONLY_IF_GIVEN: keys that are stored only where they are given, so that the hash of a spec without them stays
    stable."""

    ONLY_IF_GIVEN: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _without_defaults(self, handler: SerializerFunctionWrapHandler) -> dict:
        found = handler(self)
        fields = type(self).model_fields
        unset = {key for key in self.ONLY_IF_GIVEN if getattr(self, key) == fields[key].default}
        return {key: value for key, value in found.items() if key not in unset}


HOWTO = "docs/lab/howto-suite.md"  # how a spec is written

# The validator's name of a mistake -> our message; the validator fills in the limits in braces.
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


def said(error: ErrorDetails) -> str:
    """The message for one mistake that the validator lists. Mistakes that our own checks raise have their message
    already."""
    limits = {name: _plain(value) for name, value in error.get("ctx", {}).items()}
    share = limits.get("lt") == "1" and not str(error["input"]).strip().endswith("%")
    percent = f": write {error['input']}%, if per cent are meant" if share else ""
    try:
        return WORDS[error["type"]].format_map(limits) + percent
    except KeyError:
        return error["msg"].removeprefix("Value error, ")


def _plain(value: Any) -> Any:
    """1,000,000 rather than 1e6 or 1000000.0; all digits of a whole number."""
    if isinstance(value, bool) or not isinstance(value, float | int):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.15g}"


def _key(location: tuple) -> str:
    validators = ("function-", "list[", "literal[", "constrained")
    return ".".join(str(part) for part in location if not str(part).startswith(validators))


def _known_keys(model: type[BaseModel], location: tuple) -> list[str]:
    """The keys that are valid at the place of the location's last part."""
    for part in location[:-1]:
        fields = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
        model = _model_within(fields.get(part)) or model
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_within(annotation: Any) -> type[BaseModel] | None:
    """The model that an annotation such as `list[Server]` or `Server | None` holds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in get_args(annotation) if (found := _model_within(inner))), None)


def _message(error: ErrorDetails, model: type[Model], values: dict) -> str:
    location = error["loc"]
    place, inner = model.place(location, values)
    key = _key(inner)
    if error["type"] == "extra_forbidden":
        return f"{place}unknown key '{key}': {nearest(str(location[-1]), _known_keys(model, location))}"
    if error["type"] == "missing":
        hints = {
            "command": "; it follows -- or stands in a spec",
            "control": f"; it is --control, or a key of a spec: {BOTH}",
            "treatment": f"; it is --treatment, or a key of a spec: {BOTH}",
            "workload": f"; a suite has a table [[workload]] for each of its programs: {HOWTO} shows one",
        }
        hint = "" if place else hints.get(key, "")
        return f"{place}'{key}' is missing{hint}"
    text = said(error)
    given = error["input"]
    shown = f" (given: {given!r})" if isinstance(given, str | int | float | bool) else ""
    return place + (f"{key}: {text}{shown}" if key else text)


def build(model: type[Model], values: dict, source: str) -> Any:
    """A model from its values. `source` is the spec's file or 'command line'. Raises LabError."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        # A misspelled key is both unknown and missing: the unknown key is reported first.
        first = sorted(error.errors(), key=lambda entry: entry["type"] != "extra_forbidden")[0]
        raise LabError(f"{source}: {_message(first, model, values)}") from None


def read_toml(path: Path) -> dict:
    """Reads a TOML file. Raises LabError, which names the file and the line."""
    try:
        return decoded(tomllib.loads, path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        near = closest(path.name, sorted(each.name for each in path.parent.glob("*.toml")))
        hint = f"did you mean '{path.with_name(near)}'?" if near else f"{HOWTO} shows how to write a spec"
        raise LabError(f"{path}: there is no such file; {hint}") from None
    except UnicodeDecodeError:
        raise LabError(f"{path}: it is no text in UTF-8, so it is no spec") from None
    except OSError as error:
        raise LabError(f"{path}: a spec cannot be read from it: {error.strerror}") from None
    except ValueError as error:
        raise LabError(f"{path}: {error}") from None
