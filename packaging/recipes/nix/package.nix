{ lib, stdenv, fetchurl, cmake, ninja }:

stdenv.mkDerivation rec {
  pname = "hakmem";
  version = "@VERSION@";

  src = fetchurl {
    url = "@URL@/@FILE@";
    sha256 = "@SHA256@";
  };

  nativeBuildInputs = [ cmake ninja ];

  cmakeFlags = [ "-DHAKMEM_TESTS=OFF" "-DHAKMEM_BENCH=OFF" "-DHAKMEM_LTO=ON" ];

  meta = {
    description = "A general-purpose malloc for Linux: fast, lean, and it stops misuse";
    license = lib.licenses.mit;
    mainProgram = "hakmem";
    platforms = [ "x86_64-linux" "aarch64-linux" ];
  };
}
