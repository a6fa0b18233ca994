# Two commands do everything on a fresh machine: `make demo` and `make test`.
CARGO ?= cargo
SENESCE = target/release/senesce
DEMO_OUT ?= senesce-runs/demo

.PHONY: mpi vm demo prose test test-long build requirements dist book fmt lint lint-long docs bench clean

# What tests need; `scripts/requirements demo|vm` asks for less.
requirements:
	@scripts/requirements test

build:
	@command -v $(firstword $(CARGO)) >/dev/null || { echo "cargo not found: install Rust (https://rustup.rs), or set CARGO" >&2; exit 1; }
	@scripts/requirements demo
	$(CARGO) build --release -p senesce-cli

# The program with `--mpi`, for many nodes; see docs/mpi.md. Any MPI that has mpicc will do instead of Open MPI.
mpi:
	@scripts/requirements mpi
	$(CARGO) build --release -p senesce-cli --features mpi

# The main job at its smallest: ages a file system and writes the report.
demo: build
	@scripts/demo $(SENESCE) $(DEMO_OUT)

# The guest's kernel, fetched once and not installed; without it, the tests that need it are ignored.
SET_UP_VM = { target/debug/senesce vm setup --engine qemu && target/debug/senesce vm setup; } || echo "no guest kernel: the tests that need it are ignored" >&2

# Everything that proves the program, under 20 minutes on 2 cores. A test that cannot run here is reported as ignored with its reason;
# `make test LISTED=tests/ignored` fails when more are ignored than that file lists (`scripts/test --write-list FILE` writes one).
# The first step also builds the program that sets up the guest kernel:
# built by itself, its dependencies would have fewer features, and all would be compiled twice.
test: requirements
	$(CARGO) test --workspace --no-run
	@$(SET_UP_VM)
	@scripts/test $(if $(LISTED),--listed $(LISTED)) --workspace

vm:
	@scripts/requirements vm
	$(CARGO) build -p senesce-cli
	@$(SET_UP_VM)

# The long runs: other people's suites, kill -9 at many points, paper-scale checks.
test-long: requirements build
	$(CARGO) test --workspace --no-run
	@$(SET_UP_VM)
	@scripts/requirements dist
	@target/debug/senesce vm build 6.12 || echo "no kernel with virtual time: the tests that need it are ignored" >&2
	@scripts/test --long --workspace
	@for script in tests/long/*; do echo "== $$script"; "$$script" || exit 1; done

# Static binary, .deb, wheel and their sums in target/dist; see docs/guide/packages.md.
dist:
	@scripts/requirements dist
	@scripts/dist

# The pages of `senesce help` and the guides as a book in target/book (needs mdbook).
book:
	@scripts/book

fmt:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	@scripts/check-musl

# That the fuzzers' lock is up to date, licences, sources and versions of what is used (deny.toml), what is named but not used, and
# that each crate can be published.
# Asks for its programs where they are missing: cargo install --locked cargo-deny cargo-machete
lint-long: lint
	$(CARGO) metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null
	$(CARGO) deny check bans licenses sources
	$(CARGO) machete --with-metadata crates benches fuzz
	@scripts/check-crates

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items
	@scripts/check-docs

# The English of docs, help, messages, comments and commit subjects; see scripts/check-prose.
prose:
	@scripts/check-prose --self-test
	@scripts/check-prose

# Ratios against other programs and bare system calls: every program runs and writes its table below benches/results/tables.
bench: requirements
	@scripts/bench

clean:
	$(CARGO) clean
