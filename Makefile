# What a person does here. Each sets up what it needs first; see scripts/setup.sh.

PORT ?= 8080
PREFIX ?= /usr/local
APP_PORT ?= 3000
UPLINK ?= auto
BENCH ?=
EXPERIMENT ?= experiments/queues/shaping.toml
QUICK ?= 0
TO ?= runs/reproduction$(if $(filter 1,$(QUICK)),-quick)
OUT ?= runs/vm-$(basename $(notdir $(EXPERIMENT)))

# Where rustup puts cargo and where Debian puts servers, for shells that do not look there.
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/sbin:/sbin
TARGET := $(or $(CARGO_TARGET_DIR),target)

.PHONY: help dist docs install run test test-all test-vm conformance recipes attack fuzz demo bench virtual vm-run reproduce python setup

help:
	@echo "make run     serve examples/site at http://127.0.0.1:$(PORT)/, shortest response first (PORT=, UPLINK=, TLS=1; PROXY=1: a program behind it)"
	@echo "make docs    a site of all pages, in target/docs/site"
	@echo "make demo    a page during downloads, with the order, without it and from nginx: open the address it prints"
	@echo "make test    every check, and the tests of the product; as root also those in network namespaces"
	@echo "make test-all  make test, with the laboratory's tests, then test-vm and conformance"
	@echo "make test-vm the kernel side's tests on a stock kernel in a virtual machine, as root"
	@echo "make conformance  the verdicts of sslyze, redbot, curl, browsers, h2spec, aioquic and quic-go on weir serve"
	@echo "make recipes  the recipes of docs/recipes.md with the programs that they are for, as root (ARGS='wordpress acme')"
	@echo "make dist    packages for Debian's and Red Hat's systems, an archive and an image for containers"
	@echo "make install the program, its manual pages and completions below PREFIX (/usr/local; DESTDIR= for packages)"
	@echo "make attack  a short form of the floods of cargo xtask attack, judged"
	@echo "make fuzz    the fuzz targets under libFuzzer, a minute each (ARGS='h3 --seconds 600')"
	@echo "make bench   Weir beside nginx on loopback (BENCH='--quick')"
	@echo "make vm-run  an experiment in a virtual machine with a stock kernel (EXPERIMENT=, OUT=, ARGS=)"
	@echo "make virtual EXPERIMENT=...  an experiment on a real kernel in virtual time (OUT=, ARGS=)"
	@echo "make reproduce  measure every figure of three papers again, as root (QUICK=1: 15 minutes; TO=, TRACE=, NASA=)"
	@echo "make python  the Python package weirlab as a wheel below dist, with its tests (PROFILE=dev: built sooner; ARGS='-k sweep')"
	@echo "make setup   install what the tests and the benchmark need"

run:
	@scripts/setup.sh run
	@scripts/build.sh
	@echo
ifdef PROXY
	@echo "passing http$(if $(TLS),s)://127.0.0.1:$(PORT)/ on to examples/app at port $(APP_PORT) (stop with ctrl-c)"
	@python3 examples/app/app.py $(APP_PORT) & app=$$!; trap "kill $$app" EXIT INT TERM; \
		$(TARGET)/release/weir proxy :$(APP_PORT) --listen 127.0.0.1:$(PORT) --uplink $(UPLINK) --policy srpt $(if $(TLS),--tls-self-signed)
else
	@echo "serving examples/site at http$(if $(TLS),s)://127.0.0.1:$(PORT)/ (stop with ctrl-c)"
	@$(TARGET)/release/weir serve examples/site --listen 127.0.0.1:$(PORT) --uplink $(UPLINK) --policy srpt $(if $(TLS),--tls-self-signed)
endif

# Without the kernel of virtual time the tests whose verdict depends on time go by the host's clock.
test:
	@scripts/setup.sh test
	cargo xtask ci

# In CI (CI=true) a check that cannot run is an error. Conformance judges the program that the tests were of.
test-all:
	@scripts/setup.sh test
	@scripts/setup.sh virtual || [ "$(CI)" != true ]
	cargo xtask ci --all
	@scripts/test-vm.sh
	@scripts/setup.sh conformance
	cargo xtask conformance --weir $(abspath $(TARGET))/debug/weir $(if $(filter true,$(CI)),--all)

test-vm:
	@scripts/setup.sh test
	@scripts/test-vm.sh

conformance:
	@scripts/setup.sh conformance
	cargo xtask conformance $(ARGS)

recipes:
	@scripts/setup.sh recipes
	cargo build -p weir
	@scripts/recipes.sh $(ARGS)

# Status 75 is VOID: the machine was too busy to tell, which is no failure.
attack:
	cargo xtask attack --judge || [ $$? = 75 ]

fuzz:
	@scripts/setup.sh run
	cargo xtask fuzz $(ARGS)

dist:
	@scripts/setup.sh dist
	cargo xtask dist $(ARGS)

# What `make run` or `cargo build --release` has built; `sudo make install` needs no Rust.
install:
	@[ -x $(TARGET)/release/weir ] || { echo "make install: no $(TARGET)/release/weir; run: scripts/build.sh" >&2; exit 1; }
	install -Dm 755 $(TARGET)/release/weir $(DESTDIR)$(PREFIX)/bin/weir
	pages=$$(mktemp -d) && trap "rm -r $$pages" EXIT && $(TARGET)/release/weir manual $$pages && \
		install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/man/man5 && \
		install -m 644 $$pages/*.1 $(DESTDIR)$(PREFIX)/share/man/man1/ && install -m 644 $$pages/*.5 $(DESTDIR)$(PREFIX)/share/man/man5/
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(TARGET)/release/weir completions bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/weir
	$(TARGET)/release/weir completions zsh >$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_weir
	$(TARGET)/release/weir completions fish >$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/weir.fish

docs:
	@scripts/setup.sh run
	cargo xtask docs

demo:
	@scripts/setup.sh run
	@scripts/build.sh
	@$(TARGET)/release/weir demo

bench:
	@scripts/setup.sh bench
	cargo xtask bench $(BENCH)

virtual:
	@scripts/setup.sh test
	@scripts/setup.sh virtual
	cargo build --release --locked
	@$(TARGET)/release/weirlab run --virtual $(EXPERIMENT) --out $(if $(filter file,$(origin OUT)),runs/virtual-$(basename $(notdir $(EXPERIMENT))),$(OUT)) $(ARGS)

vm-run:
	@scripts/setup.sh test
	cargo build --release --locked
	@scripts/vm-experiment.sh $(EXPERIMENT) $(OUT) $(ARGS)

reproduce:
	@scripts/setup.sh test
	@scripts/setup.sh virtual || true
	@scripts/setup.sh python
	@scripts/python.sh --install
	cargo build --release --locked
	@QUICK=$(QUICK) TRACE=$(TRACE) NASA=$(NASA) scripts/reproduce.sh $(TO) $(ARGS)

python:
	@scripts/setup.sh python
	@scripts/python.sh $(ARGS)

setup:
	@scripts/setup.sh test
	@scripts/setup.sh bench
