"""The mutants of a Python source, for scripts/mutate-lab.

Each is one node of the syntax tree that another takes the place of. Left alone: annotations, decorators, imports,
docstrings and what an exception says.
"""

import ast
import dataclasses

KEYS = {"file", "function", "was", "now", "why", "within", "times"}
COMPARED = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.MatMult: ast.Mult,
}
PAIRS = [
    ("min", "max"), ("minimum", "maximum"), ("any", "all"), ("floor", "ceil"), ("low", "high"), ("log", "log1p"),
    ("exp", "expm1"), ("ci_low", "ci_high"), ("GO", "NO_GO"), ("HELD", "FAILED"), ("mean", "median"), ("left", "right"),
    ("better", "worse"), ("faster", "slower"), ("held", "failed"), ("argmin", "argmax"), ("control", "treatment"),
    ("as_log", "as_ratio"), ("interval", "equivalence"),
]  # fmt: skip
OTHER = {one: other for pair in PAIRS for one, other in (pair, pair[::-1])}
TRANSPARENT = {"abs", "sqrt", "sort", "sorted", "round"}
BUILTINS = {"min", "max", "any", "all"}
UNTOUCHED = {"annotation", "returns", "decorator_list", "format_spec", "type_params"}


@dataclasses.dataclass(frozen=True, order=True)
class Mutant:
    """`place`: the how-manieth change of this file's tree; `lines`: of the function around it, none outside of one."""

    file: str
    place: int
    line: int
    function: str
    was: str
    now: str
    text: str
    lines: tuple
    source: str = dataclasses.field(repr=False, compare=False)

    def __str__(self):
        return f"{self.file}:{self.line} {self.function}: {self.was}  ->  {self.now}"

    def is_meant(self, row):
        same = (self.function, self.was, self.now) == (row["function"], row["was"], row["now"])
        return same and row.get("within", "") in self.text

    def is_reached_by(self, reached):
        mine = [line for file, line in reached if file == self.file]
        return any(self.lines[0] <= line <= self.lines[1] for line in mine) if self.lines else bool(mine)

    def planted(self):
        """The tree with the mistake in it."""
        tree = ast.parse(self.source)
        for place, change in enumerate(changes(tree)):
            if place == self.place:
                change.plant()
                return ast.fix_missing_locations(tree)
        raise AssertionError(f"{self.file} has no change {self.place}")


@dataclasses.dataclass
class Change:
    """`parent.field`, or its item `index`, becomes `new`; `shown` is what is worth reading of both."""

    parent: ast.AST
    field: str
    index: int | None
    new: object
    shown: ast.AST
    functions: tuple

    def plant(self):
        if self.index is None:
            old = getattr(self.parent, self.field)
            setattr(self.parent, self.field, self.new)
        else:
            row = getattr(self.parent, self.field)
            old, row[self.index] = row[self.index], self.new
        return old

    def texts(self):
        was = ast.unparse(self.shown)
        old = self.plant()
        now = ast.unparse(self.new if self.shown is old else self.shown)
        self.new, fresh = old, self.new
        self.plant()
        self.new = fresh
        return was, now


def find(file, source):
    """Every mutant of a source, in its order."""
    tree, lines, found = ast.parse(source), source.splitlines(), []
    for place, change in enumerate(changes(tree)):
        was, now = change.texts()
        line, inner = change.shown.lineno, change.functions[-1] if change.functions else None
        name = ".".join(function.name for function in change.functions) or "-"
        first = min([inner.lineno, *(d.lineno for d in inner.decorator_list)]) if inner else 0
        around = (first, inner.end_lineno) if isinstance(inner, ast.FunctionDef) else ()
        found.append(Mutant(file, place, line, name, was, now, lines[line - 1], around, source))
    return found


def changes(node, functions=(), known=None):
    """Every change below a node."""
    known = known or names_in(node)
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        functions = (*functions, node)
    for field, value in ast.iter_fields(node):
        if field in UNTOUCHED:
            continue
        row = value if isinstance(value, list) else [value]
        for index, child in enumerate(row):
            if not isinstance(child, ast.AST) or is_docstring(node, field, index, child) or is_left_alone(child):
                continue
            place = index if isinstance(value, list) else None
            for parent, name, at, new, shown in replacements(node, field, place, child, known):
                yield Change(parent, name, at, new, shown, functions)
            if not isinstance(child, ast.Raise):
                yield from changes(child, functions, known)


def names_in(tree):
    """What the source calls something: another name would only be an error."""
    return {getattr(node, field, None) for node in ast.walk(tree) for field in ("id", "attr", "arg")} - {None}


def is_docstring(node, field, index, child):
    if field != "body" or not isinstance(child, ast.Expr) or not isinstance(child.value, ast.Constant):
        return False
    return isinstance(child.value.value, str)


def is_left_alone(child):
    """`__all__`; and `strict`, which only guards against what the code around it excludes."""
    if isinstance(child, ast.keyword):
        return child.arg == "strict"
    return isinstance(child, ast.Assign) and any(getattr(target, "id", "") == "__all__" for target in child.targets)


def replacements(parent, field, index, node, known):
    """(parent, field, index, new, shown) of every change of one node."""
    match node:
        case ast.Compare():
            for place, operator in enumerate(node.ops):
                for new in COMPARED[type(operator)]:
                    yield node, "ops", place, new(), node
        case ast.BinOp() | ast.AugAssign():
            yield node, "op", None, OPERATORS[type(node.op)](), node
        case ast.BoolOp():
            yield node, "op", None, ast.Or() if isinstance(node.op, ast.And) else ast.And(), node
        case ast.If() | ast.While() | ast.IfExp() if isinstance(node.test, (ast.Name, ast.Attribute, ast.Call)):
            yield node, "test", None, ast.UnaryOp(ast.Not(), node.test), node.test
        case ast.comprehension():
            for place, test in enumerate(node.ifs):
                yield node, "ifs", place, ast.Constant(True), test
        case ast.match_case() if node.guard is not None:
            yield node, "guard", None, ast.UnaryOp(ast.Not(), node.guard), node.guard
    new = [*values(node, known), *statements(node)]
    yield from ((parent, field, index, one, node) for one in new)


def values(node, known):
    """What an expression may become; `known`: the names that the source uses."""
    match node:
        case ast.BoolOp(values=parts) | ast.UnaryOp(operand=ast.expr() as parts):
            return parts if isinstance(parts, list) else [parts]
        case ast.Constant():
            return [ast.Constant(value) for value in constants(node.value)]
        case ast.Name(ctx=ast.Load()) if OTHER.get(node.id) in known | BUILTINS:
            return [ast.Name(OTHER[node.id], node.ctx)]
        case ast.Attribute(ctx=ast.Load()) if OTHER.get(node.attr) in known or (
            node.attr in OTHER and getattr(node.value, "id", "") in ("np", "math")
        ):
            return [ast.Attribute(node.value, OTHER[node.attr], node.ctx)]
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in TRANSPARENT and node.args:
            return [node.args[0]]
        case _:
            return []


def constants(value):
    match value:
        case bool():
            return [not value]
        case int():
            return [value + 1, value - 1] if value else [1]
        case float():
            return [value * 2, value / 2] if value else [1.0]
        case str() if any(letter.isalpha() for letter in value):
            return [OTHER.get(value, "mutant")]
        case _:
            return []


def statements(node):
    match node:
        case ast.Raise() | ast.Continue() | ast.Break() | ast.AugAssign() | ast.Expr(value=ast.Call()):
            return [ast.Pass()]
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
            return [ast.Pass()]
        case _:
            return []
