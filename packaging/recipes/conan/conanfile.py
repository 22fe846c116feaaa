from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, get, rm, rmdir

required_conan_version = ">=2.0"


class HakmemConan(ConanFile):
    name = "hakmem"
    version = "@VERSION@"
    description = "A general-purpose malloc for Linux: fast, lean, and it stops misuse"
    license = "MIT"
    topics = ("malloc", "allocator", "memory")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": False}
    languages = "C"

    def validate(self):
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("hakmem is for Linux on x86-64 and aarch64")

    def layout(self):
        cmake_layout(self, src_folder="src")

    def source(self):
        get(self, "@URL@/@FILE@", sha256="@SHA256@", strip_root=True)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for name in ("HAKMEM_TESTS", "HAKMEM_BENCH"):
            toolchain.cache_variables[name] = False
        toolchain.cache_variables["CMAKE_INSTALL_LIBDIR"] = "lib"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, f"{self.package_folder}/licenses")
        for folder in ("lib/cmake", "lib/pkgconfig", "share"):
            rmdir(self, f"{self.package_folder}/{folder}")
        # Both libraries are built; the one asked for stays, and with the shared one the command, which preloads it.
        if self.options.shared:
            rm(self, "libhakmem.a", f"{self.package_folder}/lib")
        else:
            rm(self, "libhakmem.so*", f"{self.package_folder}/lib")
            rmdir(self, f"{self.package_folder}/bin")

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "hakmem")
        self.cpp_info.set_property("pkg_config_name", "hakmem")
        target = "hakmem" if self.options.shared else "hakmem_static"
        self.cpp_info.set_property("cmake_target_name", f"hakmem::{target}")
        self.cpp_info.libs = ["hakmem"]
        self.cpp_info.system_libs = ["pthread"]
