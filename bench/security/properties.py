"""Print a C program with one misuse of the heap for each combination of a bug's properties.

usage: properties.py

The method is that of MSET (Vintila, Zieris, Horsch: "Evaluating the Effectiveness of Memory Safety Sanitizers", IEEE
S&P 2025): a bug is its kind, the regions of the object it starts from and of the one it reaches, the direction, the
access, and whether code or the C library makes it. A case has variants, and is stopped only if every variant
is. Cases without an object of the heap are left out; MSET has one size of objects, here are three.
"""

from collections.abc import Iterator
from itertools import product

SIZES = {"small": 8, "medium": 1000, "large": 100000}
ACCESSES = [f"{action}_{by}" for action, by in product(("read", "write"), ("direct", "library"))]
PAIRS = ["heap_stack", "heap_global", "stack_heap", "global_heap"]
RELATIONS = [
    *product(("heap_heap", "intra", "outside"), SIZES),
    *product(PAIRS, ["small"]),
]
CONFUSED = "require(goal - origin < REACH_MAX);"


def objects(relation: str, size: int, over: bool) -> dict[str, str]:
    """Variant -> declarations of `origin` and `target`."""
    if relation == "outside":
        return {"one": f"char *origin = take({size}), *target = origin;"}
    if relation == "intra":
        first, second = ("origin", "target") if over else ("target", "origin")
        return {"one": f"char *{first} = take({2 * size}), *{second} = {first} + {size};"}
    kinds = dict(zip(("origin", "target"), relation.split("_"), strict=True))
    storage = {"stack": "char", "global": "static char"}
    lines = [
        f"char *{name} = take({size});"
        if kind == "heap"
        else f"{storage[kind]} {name}_object[{size}]; char *{name} = hidden({name}_object);"
        for name, kind in kinds.items()
    ]
    if relation != "heap_heap":
        return {"one": " ".join(lines)}
    near = f"char *origin, *target; nearest({size}, {str(over).lower()}, &origin, &target);"
    return {
        "after": " ".join(lines),
        "before": " ".join(reversed(lines)),
        "nearest": near,
    }


def releases(relation: str, variant: str) -> str:
    """What the program frees at its end."""
    if variant == "nearest":
        return ""
    if relation in ("intra", "outside"):
        return "give(origin < target ? origin : target);"
    pair = zip(("origin", "target"), relation.split("_"), strict=True)
    return " ".join(f"give({name});" for name, region in pair if region == "heap")


def spatial() -> Iterator[tuple[str, str, str]]:
    """Case, variant, body of its function."""
    for (relation, size_name), flow, access in product(RELATIONS, ("over", "under"), ACCESSES):
        size, over, width = (
            SIZES[size_name],
            flow == "over",
            1 if relation == "outside" else 8,
        )
        goal = "target" if over else f"target + {size - width}"
        if relation == "outside":
            goal = f"origin + {size}" if over else "origin - 1"
        upwards = f"{access}(origin + {size}, within((size_t)(goal - origin) - {size} + {width}));"
        ways = {"linear": {"": upwards if over else f"down({access}, origin, within((size_t)(origin - goal)));"}}
        if relation != "outside":
            ways["non_linear"] = {"": f"{access}(goal, {width});"}
        if over and access.endswith("direct"):
            wide = f"{access.partition('_')[0]}_wide(goal);"
            ways["confused"] = {" cast": f"{CONFUSED} {upwards}", " wide": wide}
        for variant, made in objects(relation, size, over).items():
            head = f"{made}\n  char *goal = {goal};\n  require(goal {'>' if over else '<'} origin);"
            tail = f"happened();\n  {releases(relation, variant)}\n  go_on({size});"
            for bug, forms in ways.items():
                for form, misuse in forms.items():
                    body = f"{head}\n  if (valid) {{ {access}(target, {width}); }} else {{ {misuse} }}\n  {tail}"
                    yield (
                        f"{bug}_{relation}_{flow}_{access}_{size_name}",
                        variant + form,
                        body,
                    )


def after_free() -> Iterator[tuple[str, str, str]]:
    for (size_name, size), access in product(SIZES.items(), ACCESSES):
        freed = f"""char *target = take({size});
  if (!valid) {{ give(target); }}
  {access}(target, 8);
  happened();
  if (valid) {{ give(target); }}
  go_on({size});"""
        yield f"after_free_{access}_{size_name}", "one", freed
        for variant, again in (("first", "false"), ("repeated", "true")):
            body = f"""char *target = take({size});
  give(target);
  char *next = reuse(target, {size}, {again} && !valid);
  {access}(valid ? next : target, 8);
  happened();
  give(next);
  go_on({size});"""
            yield f"after_reuse_{access}_{size_name}", variant, body


def double_free() -> Iterator[tuple[str, str, str]]:
    betweens = {"written": "memset(target + 8, 0, 8);", "other": "give(take_first);"}
    for size_name, access in product(SIZES, ACCESSES):
        size = max(SIZES[size_name], 16)
        for variant, between in betweens.items():
            body = f"""char *take_first = take({size}), *keep = take({size}), *target = take({size});
  give(target);
  if (!valid) {{ {between} give(target); }}
  char *next = take({size});
  {access}(next, 8);
  happened();
  give(keep);
  go_on({size});"""
            yield f"double_free_{access}_{size_name}", variant, body


def misused_free() -> Iterator[tuple[str, str, str]]:
    """Memory that looks like the inside of a heap is freed; the method's object has 160 bytes."""
    regions = [*product(["heap"], SIZES), ("stack", "small"), ("global", "small")]
    for (region, size_name), state, access, magic in product(regions, ("used", "freed"), ACCESSES, (0x20, 0x40, 0x60)):
        size = max(SIZES[size_name], 160)
        storage = {"stack": "char", "global": "static char"}.get(region, "")
        made = f"char *target = take({size});"
        if region != "heap":
            made = f"{storage} object[{size}] __attribute__((aligned(16))); char *target = hidden(object);"
        end = "give(target);" if region == "heap" else "memset(target, 0, 160);"
        body = f"""{made}
  memset(target, 0, 160);
  target[8] = {magic}; target[104] = 0x40;
  give(take(8));
  if (!valid) {{ give(target + 16); }}
  char *next = take(8);
  {end if state == "freed" else ""}
  {access}(next, 8);
  happened();
  {end if state == "used" else ""}
  go_on(8);"""
        if region != "global" or state == "used":
            yield f"free_of_{region}_{state}_{access}_{size_name}", f"{magic:#x}", body


def main() -> None:
    print('/* Made by properties.py. */\n#include "properties.h"\n')
    names = []
    for kind in (spatial, after_free, double_free, misused_free):
        for case, variant, body in kind():
            print(f"static void case_{len(names)}(void) {{\n  {body}\n}}\n")
            names.append(f"{case}/{variant.replace(' ', '-')}")
    rows = ",\n".join(f'  {{"{name}", case_{i}}}' for i, name in enumerate(names))
    print(f"static const struct {{ const char *name; void (*commit)(void); }} cases[] = {{\n{rows}\n}};\n")
    print("""int main(int count, char **words) {
  valid = count == 3 && strcmp(words[2], "valid") == 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (count < 2) {
      puts(cases[i].name);
    } else if (strcmp(words[1], cases[i].name) == 0) {
      cases[i].commit();
      return 0;
    }
  }
  return count < 2 ? 0 : 2;
}""")


if __name__ == "__main__":
    main()
