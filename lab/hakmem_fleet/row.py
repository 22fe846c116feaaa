"""What the laboratory has to know of the kind."""

from hakmem_lab.plan.kind import Kind

ROW = Kind("fleet", part="fleet", package="hakmem_fleet", pictures=("hosts",), flags=("engine", "workers", "scheduler"))
