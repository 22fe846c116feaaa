# The names people type. Everything is done by CMake (CMakePresets.json) and by scripts/.

PREFIX ?= /usr/local
export JOBS
RELEASE = cmake --preset release $(QUIET) && cmake --build build/release --target
QUIET = >/dev/null
RANDOM_MIXED = bench_random_mixed_hakmem bench_random_mixed_hakmem_minimal bench_random_mixed_system bench_random_mixed_mi

.PHONY: all library lab musl peers programs security demo test test-long test-musl lint format install uninstall dist site bench $(RANDOM_MIXED) perf_fast perf_observe coverage fuzz clean tools

# The library and the laboratory, and build/bin with their two commands alone: .venv/bin has another python3 as well.
all: library lab
	@mkdir -p build/bin
	@ln -sfn ../release/hakmem build/bin/hakmem
	@ln -sfn ../../.venv/bin/hak build/bin/hak
	@echo 'make: done. Now type: export PATH=$(CURDIR)/build/bin:$$PATH, then: hakmem ./program args, or: hak'

library: tools
	$(RELEASE) hakmem hakmem_static hakmem_command

lab: tools
	@scripts/venv

# The same for programs on musl (Alpine), beside the one for glibc, where the command `hakmem` finds it.
musl:
	@scripts/bootstrap build musl
	cmake --preset musl $(QUIET) && cmake --build build/musl --target hakmem hakmem_static

# Current releases of the other allocators, built from pinned sources.
peers:
	@scripts/bootstrap build peers
	@bench/peers/build
	@bench/peers/check

# What building takes: installed where it is missing, or named where that cannot be done.
tools:
	@scripts/bootstrap build

# The benchmark programs, and what the suites of experiments/ need besides.
programs:
	@scripts/bootstrap build demo
	@$(MAKE) --no-print-directory all
	@$(RELEASE) bench_programs

demo: programs
	@.venv/bin/hak bench demo

test:
	@scripts/bootstrap build test
	@scripts/test

# What takes more: CONTRIBUTING.md lists it. Before a release, and once a week.
test-long:
	@scripts/bootstrap build test long
	@scripts/test --long

# The whole suite there; `make test` runs what is quick of it.
test-musl:
	@scripts/bootstrap build musl
	@scripts/test --long musl

# Which misuse hakmem stops, in both profiles, beside glibc and the peers that are built.
security: library
	@$(RELEASE) hardened_crimes hardened_properties hardened_techniques
	@for suite in crimes properties techniques; do \
	  scripts/security build/release/tests/hardened/hardened_$$suite build/release/libhakmem.so $(foreach peer,$(wildcard build/peers/lib*.so build/peers/hardened/lib*.so),$(patsubst lib%.so,%,$(notdir $(peer)))=$(peer)); \
	done

lint:
	@scripts/bootstrap build test
	@scripts/lint

format:
	@scripts/bootstrap build test
	@scripts/format

install: library
	DESTDIR="$(DESTDIR)" cmake --install build/release --prefix "$(PREFIX)"

# What `make install` put there, and nothing else.
uninstall: tools
	@DESTDIR="$(DESTDIR)" scripts/uninstall "$(PREFIX)"

# build/dist/hakmem-VERSION-linux-ARCH.tar.gz, which works from any folder.
dist: tools
	@scripts/dist

# build/deb/*.deb, build/wheel/*.whl, and everything of a release, checked, in build/dist.
.PHONY: deb wheel release
deb wheel release: tools
	@scripts/$@

# build/site/index.html, which needs no network.
site: all
	@scripts/site

bench: programs
	@.venv/bin/hak bench

$(RANDOM_MIXED):
	@scripts/bootstrap build demo
	$(RELEASE) $@

perf_fast: tools
	scripts/pgo
	build/pgo/bench/bench_random_mixed_hakmem

perf_observe: tools
	$(RELEASE) bench_random_mixed_hakmem
	HAKMEM_STATS=1 build/bench/bench_random_mixed_hakmem

coverage:
	@scripts/bootstrap build test
	@scripts/coverage

fuzz:
	@scripts/bootstrap build test
	@scripts/fuzz $(SECONDS)

clean:
	rm -rf build
