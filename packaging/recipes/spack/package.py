# ruff: noqa: F403, F405
from spack.package import *


class Hakmem(CMakePackage):
    """A general-purpose malloc for Linux: fast on one thread and on many, gives memory back, and stops misuse."""

    homepage = "@URL@"
    url = "@URL@/@FILE@"

    license("MIT")

    version("@VERSION@", sha256="@SHA256@")

    variant("lto", default=True, description="Optimise the shared library across files")

    depends_on("c", type="build")
    depends_on("cmake@3.25:", type="build")

    conflicts("platform=darwin", msg="hakmem is for Linux")
    conflicts("platform=windows", msg="hakmem is for Linux")

    def cmake_args(self):
        return [
            self.define_from_variant("HAKMEM_LTO", "lto"),
            self.define("HAKMEM_TESTS", False),
            self.define("HAKMEM_BENCH", False),
        ]
