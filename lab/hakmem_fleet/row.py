"""The kind `fleet`, as the laboratory registers it."""

from hakmem_lab.plan.kind import Kind

ROW = Kind("fleet", part="fleet", package="hakmem_fleet", pictures=("hosts",), flags=("engine", "workers", "scheduler"))
