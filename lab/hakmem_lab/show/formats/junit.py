"""A test report: a suite a run, a case for everything that is judged. NO-GO fails, what is undecided is skipped."""

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from hakmem_lab.errors import one_line
from hakmem_lab.show.formats.judgements import INCONCLUSIVE, NO_GO, judgements


def text(results: Sequence[dict]) -> str:
    root = ET.Element("testsuites", name="hak")
    for result in results:
        _suite(root, result)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(root: ET.Element, result: dict) -> None:
    found = judgements(result)
    count = {verdict: sum(case.verdict == verdict for case in found) for verdict in (NO_GO, INCONCLUSIVE)}
    suite = ET.SubElement(
        root, "testsuite", name=f"hak {result['kind']}", tests=str(len(found)), errors="0",
        failures=str(count[NO_GO]), skipped=str(count[INCONCLUSIVE]),
    )  # fmt: skip
    properties = ET.SubElement(suite, "properties")
    for name in ("id", "question", "blocks"):
        ET.SubElement(properties, "property", name=name, value=one_line(str(result[name])))
    for case in found:
        words = one_line(case.text)
        element = ET.SubElement(suite, "testcase", classname=f"hak.{result['kind']}", name=one_line(case.name))
        if case.verdict == NO_GO:
            ET.SubElement(element, "failure", type=NO_GO, message=words).text = words
        elif case.verdict == INCONCLUSIVE:
            ET.SubElement(element, "skipped", message=words)
        ET.SubElement(element, "system-out").text = f"{case.verdict}: {words}"
