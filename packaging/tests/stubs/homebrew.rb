# What a formula calls, for a run without Homebrew: ruby homebrew.rb FORMULA PREFIX, in the unpacked sources.
require "pathname"
require "open3"

class Formula
  FACTS = {}
  class << self
    %i[desc homepage url version sha256 license depends_on].each { |name| define_method(name) { |value| (FACTS[name] ||= []) << value } }
    def test(&block) = FACTS[:test] = block
  end

  def prefix = Pathname.new(ARGV[1])
  def bin = prefix/"bin"
  def std_cmake_args = ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_INSTALL_PREFIX=#{prefix}", "-DCMAKE_INSTALL_LIBDIR=lib"]

  def system(*words)
    said, status = Open3.capture2e(*words.map(&:to_s))
    abort "#{words.join(" ")}:\n#{said}" unless status.success?
  end
end

load ARGV[0]
%i[desc homepage url version sha256 license depends_on test].each { |name| abort "no #{name}" unless Formula::FACTS[name] }
formula = Hakmem.new
formula.install
formula.instance_eval(&Formula::FACTS[:test])
puts Formula::FACTS[:url], Formula::FACTS[:sha256]
