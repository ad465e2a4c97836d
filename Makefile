# make          builds build/drover and the tests; what is missing is named, and installed as root on Debian
# make run      the main job, from text to a trained model, eight minutes on two cores of Zen 3
# make test     the gate, which a change has to pass: three and a half minutes on two cores of Zen 5, with the build
# make quick    the part of it without ranks and plug-ins: half a minute once the build stands
# make full     all the rest, in parts that tools/run_full.py --list lists: PART=NAME one of them, CHANGED=COMMIT those that a change concerns
# make check    layers, sizes, names, formats, budgets of the tiers: what make test looks at first
# make sanitize the quick tests and fuzz targets with clang, AddressSanitizer and UBSan together
# make install  program, man page, bash completion: PREFIX (/usr/local), DESTDIR; make uninstall takes them away again
# make package  a .deb in build/ for Debian 12 and newer
# make deps     looks for what the build needs, and installs what is missing if you are root on Debian
# make bundle   one tarball in build/ that runs on a Debian 12 or newer without network: program, libraries, docs, hashes
# make wheel    the same for pip: a wheel in build/, with no line of Python in it
# make bench    speed against this machine's GEMM peak, and against oneDNN where its header is (Debian 12: libdnnl-dev)
# make arm64    cross-builds for arm64, runs the tests of its bits under qemu, makes a .deb and a wheel in build-arm64/
# make format   clang-format lays out the sources   make clean   removes the folders of builds
# make help     prints these lines
# make fuzz   T=60 SEED=0: each fuzz target for T seconds (clang); another seed than 0 repeats its mutations
BUILD ?= build
CC ?= cc
T ?= 60
SEED ?= 0
JOBS ?= $(shell n=$$(nproc); echo $$((n < 2 ? 2 : n)))
TEST_JOBS ?= $(shell echo $$((2 * $(JOBS) + 2))) # many tests wait for other processes

PREFIX ?= /usr/local
MAKEFLAGS += --no-print-directory

.PHONY: all configure program manual deps run test quick full sanitize install uninstall package bundle wheel arm64 bench fuzz check format clean help
all: configure
	@cmake --build $(BUILD) -j $(JOBS)

configure: deps
	@cmake -S . -B $(BUILD) -DCMAKE_C_COMPILER=$(CC) >$(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log

program: configure
	@cmake --build $(BUILD) -j $(JOBS) --target drover

manual: configure
	@cmake --build $(BUILD) -j $(JOBS) --target manual

install: manual
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)"
	@{ cat $(BUILD)/install_manifest.txt; echo; } >$(BUILD)/installed.txt # make package writes the other one anew

uninstall:
	@[ -e $(BUILD)/installed.txt ] || { echo "nothing was installed from $(BUILD)/" >&2; exit 1; }
	@while read -r f; do rm -fv "$(DESTDIR)$$f"; done <$(BUILD)/installed.txt
	@sed -n 's|/[^/]*$$||p' $(BUILD)/installed.txt | grep -E '/drover(/|$$)' | sort -ru | \
	  while read -r d; do rmdir "$(DESTDIR)$$d" 2>/dev/null; done; rm $(BUILD)/installed.txt

package: manual
	@tools/install_deps.sh dpkg-dev
	@cpack -G DEB --config $(BUILD)/CPackConfig.cmake -B $(BUILD)

bundle: manual
	@tools/install_deps.sh patchelf
	@tools/make_bundle.sh $(BUILD)

wheel: manual
	@tools/install_deps.sh patchelf python3-wheel
	@tools/make_wheel.sh $(BUILD)

deps:
	@tools/install_deps.sh

run: program
	@tools/run.sh $(BUILD)/drover

test: check all
	@ctest --test-dir $(BUILD) --output-on-failure -j $(TEST_JOBS) -L '^(quick|gate)$$'

quick: check all
	@ctest --test-dir $(BUILD) --output-on-failure -j $(TEST_JOBS) -L '^quick$$'

full: all
	@tools/run_full.py $(PART) $(if $(CHANGED),--changed $(CHANGED))

# Clang's warnings, both sanitizers and libFuzzer in one build. The fuzz targets take a fixed number of inputs there.
sanitize: deps
	@tools/build_sanitized.sh
	@ctest --test-dir build-sanitized --output-on-failure -j $(TEST_JOBS) -L '^quick$$'

# Side by side; all of them, so that each says what it has found.
check: deps
	@printf 'tools/%s\n' check_layers.py check_sizes.py check_headers.py check_names.py check_initialisers.py check_glossary.py check_pages.py \
	  check_tiers.py check_commits.py 'wrap_docs.py --check' check_format.sh | \
	  xargs -P $(JOBS) -I{} sh -c 'case "{}" in *.sh) {} ;; *) python3 {} ;; esac'

arm64: deps
	@JOBS=$(JOBS) tools/build_arm64.sh

fuzz: deps
	@tools/build_sanitized.sh fuzzers
	@ls build-sanitized/tests/fuzz_* | grep -v '\.' | xargs -P $(JOBS) -I{} sh -c 'n=$${1##*/fuzz_}; mkdir -p build-sanitized/corpus/$$n; \
	  $$1 -max_total_time=$(T) -seed=$(SEED) -rss_limit_mb=2048 -timeout=10 build-sanitized/corpus/$$n tests/corpus/$$n >build-sanitized/corpus/$$n.log 2>&1 || \
	  { tail -n 40 build-sanitized/corpus/$$n.log; exit 255; }; tail -n 1 build-sanitized/corpus/$$n.log | sed "s/^/$$n: /"' sh {}

bench: program
	$(BUILD)/drover bench gemm | tee $(BUILD)/bench_gemm.txt
	@! $(CC) -O2 bench/onednn_gemm.c -ldnnl -o $(BUILD)/onednn_gemm 2>/dev/null || $(BUILD)/onednn_gemm <$(BUILD)/bench_gemm.txt
	$(BUILD)/drover bench step
	$(BUILD)/drover bench step --set model.preset=llama-15m --set data.sequence_length=512

format:
	clang-format -i $$(git ls-files '*.c' '*.h')

clean:
	rm -rf build build-sanitized build-arm64

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile
