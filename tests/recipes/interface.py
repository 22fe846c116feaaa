"""Compiles and runs the examples of a page: interface.py PAGE INCLUDE LIBRARY CC CXX.

Each block is the body of a function. The blocks of one language are one program, linked with the shared library.
The examples of docs/interface.md call every function of hakmem.h.
A block with a main() is a complete program, and prints what the page's block of text has.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HEADS = {
    "c": "#include <hakmem.h>\n#include <assert.h>\n#include <errno.h>\n#include <stdlib.h>\n#include <string.h>\n",
    "cpp": "#include <hakmem.hpp>\n#include <cassert>\n#include <vector>\n",
}


def program(text: str, language: str) -> str:
    bodies = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    if not bodies:
        raise SystemExit(f"the page has no block of {language}")
    if " main(" in bodies[0]:
        return bodies[0]
    functions = [f"static void example_{i}(void) {{\n{body}}}\n" for i, body in enumerate(bodies)]
    calls = "".join(f"  example_{i}();\n" for i in range(len(bodies)))
    return HEADS[language] + "".join(functions) + f"int main() {{\n{calls}}}\n"


def uncalled(text: str, header: str) -> set[str]:
    """Functions that the header declares and no example calls."""
    declared = set(re.findall(r"\b(hak_\w+)\(", re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)))
    examples = "".join(re.findall(r"^```c\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    return declared - set(re.findall(r"\b(hak_\w+)\(", examples))


def main() -> None:
    page, include, library = (Path(word).resolve() for word in sys.argv[1:4])
    text = page.read_text(encoding="utf-8")
    printed = re.search(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    if not printed and (left := uncalled(text, (include / "hakmem.h").read_text(encoding="utf-8"))):
        raise SystemExit(f"no example calls {', '.join(sorted(left))}")
    compilers = {"c": [sys.argv[4], "-std=c17"], "cpp": [sys.argv[5], "-std=c++17"]}
    with tempfile.TemporaryDirectory() as folder:
        for language, compiler in compilers.items():
            source = Path(folder, f"examples.{language}")
            source.write_text(program(text, language))
            words = ["-UNDEBUG", "-Wall", "-Werror", f"-I{include}", "-o", "examples", source.name, library]
            subprocess.run([*compiler, *words, f"-Wl,-rpath,{library.parent}"], cwd=folder, check=True)
            environment = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
            ran = subprocess.run(
                ["./examples"], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True
            )
            if printed and ran.stdout != printed[1]:
                raise SystemExit(f"the program in {language} prints:\n{ran.stdout}")


main()
