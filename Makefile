# Every command that a person or the integration machine types. `make` alone lists them.

CARGO ?= cargo
PREFIX ?= $(HOME)/.local
BUILD := $(or $(CARGO_TARGET_DIR),target)
# rustup's place, for shells that have not read its profile yet, and the place of servers, which an
# ordinary user's PATH leaves out.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin:/usr/sbin:/sbin

.DEFAULT_GOAL := help
# The steps share two caches (cargo's and the processor's): side by side they only wait for each other.
.NOTPARALLEL:
.PHONY: help evaluate test check fmt deny lint doc cargo-test truth-test truth-quick plans-quick build install bench truth plans dist stack-long proofs-long dpdk-test dpdk-build bless bpf fuzz

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

evaluate: ## set up, build, run the built-in evaluation; prints the verdict and where the report lies
	@scripts/setup.sh evaluate
	@$(MAKE) --no-print-directory build
	$(BUILD)/release/prony run

test: ## set up, then everything that `make check` does
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory check

# The tests come last, so that their summaries are what remains on the screen. The servers are diagnosed by the binary
# that the tests have built, in which what runs during a measurement is optimised: a release takes minutes more.
check: fmt deny lint doc cargo-test truth-test ## format, dependencies, lints, docs and tests: what CI runs
	@$(MAKE) --no-print-directory truth-quick plans-quick QUICK=$(BUILD)/debug/prony

fmt:
	$(CARGO) fmt --all -- --check

deny:
	scripts/deny.sh

lint:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

cargo-test:
	$(CARGO) test --workspace --locked --no-fail-fast

# How answers are compared, on documents made by hand: no server, no load.
truth-test:
	python3 -m unittest discover -q -s truth

# Optimised, as a person would run it, unless they name another binary.
QUICK ?= $(BUILD)/release/prony
truth-quick plans-quick: $(if $(filter-out $(BUILD)/release/prony,$(QUICK)),,build)
# One of the nine may be what the machine did meanwhile.
truth-quick:
	truth/run.py --quick --threshold 0.88 --prony $(QUICK)

# A program of each runtime: that they run and account for themselves, and what the ledger says of them.
plans-quick:
	truth/plans.py --plans 3 --quick --prony $(QUICK)

build: ## build the release binary, its debug information beside it
	@echo "building prony: about 6 minutes on 2 idle cores the first time, 3 after a change, none without one;"
	@echo "half of it is the last step, which optimises across all crates"
	$(CARGO) build --release --locked --bin prony
	@scripts/strip.sh $(BUILD)/release/prony

install: build ## copy the binary to PREFIX/bin (PREFIX is ~/.local)
	install -D -m 755 $(BUILD)/release/prony $(DESTDIR)$(PREFIX)/bin/prony
	@# Where gdb and the backtraces of a panic look for it.
	test ! -e $(BUILD)/release/prony.debug || \
		install -D -m 644 $(BUILD)/release/prony.debug $(DESTDIR)$(PREFIX)/bin/.debug/prony.debug

dist: ## build the package, the static binary and the image into dist/, and test each in a root of its own
	@scripts/setup.sh dist
	packaging/build.sh dist
	packaging/test.sh dist

bench: build ## measure prony beside wrk, and a frozen server against its analytic latency
	bench/peers.py --prony $(BUILD)/release/prony
	bench/freeze.py --prony $(BUILD)/release/prony

truth: ## diagnose servers with a planted cause, the same fixed, and healthy ones; prints the confusion table
	@scripts/setup.sh truth
	@$(MAKE) --no-print-directory build
	truth/run.py --prony $(BUILD)/release/prony

plans: ## hold the ledger against 60 random programs that account for themselves; PLANS=300 takes two hours
	@scripts/setup.sh truth
	@$(MAKE) --no-print-directory build
	truth/plans.py --plans $(or $(PLANS),60) --prony $(BUILD)/release/prony

# Minutes each; what of them is bounded runs with all other tests. Root, for the kernel's TCP at the other end.
stack-long: ## 20 GB through loss, ten million connections, a flood and a million idle ones of a program through prony's own TCP
	$(CARGO) test --release --locked -p stack --test long --test fuzz -- --ignored --nocapture --test-threads 1
	$(CARGO) test --release --locked -p traffic --test memory -- --ignored --nocapture

proofs-long: ## remedies of Apache, lighttpd and gunicorn measured on copies of them: two minutes
	@scripts/setup.sh test
	$(CARGO) test --locked -p prony --test diagnose -- --ignored --test-threads 1

# Root, for network namespaces. Not a part of `make check`: whoever builds without the feature needs no libdpdk.
dpdk-test: ## install libdpdk, build with the feature dpdk and test its virtual devices against the kernel
	@scripts/setup.sh dpdk
	$(CARGO) clippy --locked -p stack -p traffic -p prony --features prony/dpdk --all-targets -- -D warnings
	$(CARGO) test --locked -p stack --features dpdk --lib --test dpdk
	$(CARGO) test --locked -p prony --features dpdk --test dpdk

dpdk-build: ## build the release binary with `--transport dpdk`
	@scripts/setup.sh dpdk
	$(CARGO) build --release --locked --bin prony --features dpdk
	@scripts/strip.sh $(BUILD)/release/prony

# What of it is bounded runs with all other tests (crates/prony/tests/fuzz.rs). Needs `cargo install cargo-fuzz`.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS := response request chunked results har curl openapi workload access_log frames websocket event_stream
fuzz: ## fuzz every parser of foreign text by coverage, FUZZ_SECONDS=60 each (nightly compiler, cargo-fuzz)
	for target in $(FUZZ_TARGETS); do \
		mkdir -p fuzz/found/$$target fuzz/corpus/$$target && \
		$(CARGO) +nightly fuzz run $$target fuzz/found/$$target fuzz/corpus/$$target crates/import/tests/tools \
			crates/import/tests/workload -- -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=512 -timeout=10 || exit 1; \
	done

bless: ## rewrite the golden files from the present output; read the diff before you commit it
	BLESS=1 $(CARGO) test --workspace --locked

# The built object is checked in with its hashes, so that only whoever changes its source needs clang, llvm and libbpf-dev.
BPF := crates/monitor/bpf
bpf: ## compile the probes' kernel side anew (clang, llvm, libbpf-dev)
	cd $(BPF) && for name in prony turns; do \
		clang -O2 -g -target bpf -mcpu=v3 -Wall -Wextra -Werror -fdebug-prefix-map=$(CURDIR)=. \
			-I/usr/include/$(shell uname -m)-linux-gnu -c $$name.bpf.c -o $$name.bpf.o && \
		llvm-strip -g $$name.bpf.o && sha256sum $$name.bpf.c $$name.bpf.o > $$name.bpf.sha256 || exit 1; \
	done
