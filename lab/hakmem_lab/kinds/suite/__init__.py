"""`hak suite`: workloads of a user's choice on several arms: ratios, bars, guardrails."""

from hakmem_lab.kinds.suite.result import analyse
from hakmem_lab.kinds.suite.run import Suite
from hakmem_lab.kinds.suite.spec import SuiteSpec
from hakmem_lab.store.results import Result

__all__ = ["Spec", "analyse", "run"]

Spec = SuiteSpec


def run(spec: SuiteSpec, context) -> Result:
    with Suite(spec, context) as suite:
        if context.resume:
            suite.resume(context.resume)
        else:
            suite.begin()
        suite.measure()
        result = analyse(suite.file.header(), suite.records())
        return result if result["incomplete"] else suite.finish(result)
