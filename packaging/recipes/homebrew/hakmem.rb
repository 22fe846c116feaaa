class Hakmem < Formula
  desc "General-purpose malloc for Linux: fast, lean, and it stops misuse"
  homepage "@URL@"
  url "@URL@/@FILE@"
  version "@VERSION@"
  sha256 "@SHA256@"
  license "MIT"

  depends_on "cmake" => :build
  depends_on "ninja" => :build
  depends_on :linux

  def install
    system "cmake", "-S", ".", "-B", "build", "-G", "Ninja",
           "-DHAKMEM_TESTS=OFF", "-DHAKMEM_BENCH=OFF", "-DHAKMEM_LTO=ON", *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
  end

  test do
    system bin/"hakmem", "true"
  end
end
