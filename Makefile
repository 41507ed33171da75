# Thin: each target is a line or two of what one would type.  `make help` lists them.

CARGO  ?= cargo
target := $(or $(CARGO_TARGET_DIR),target)

prefix  ?= /usr/local
bindir  ?= $(prefix)/bin
libdir  ?= $(prefix)/lib
includedir ?= $(prefix)/include
datadir ?= $(prefix)/share
# what is installed, and the tool that prints its completions: of another architecture it could not
built ?= $(target)/release
tool ?= $(built)/nic-placement
# makes a new library known to the loader
LDCONFIG ?= ldconfig
mandir  ?= $(datadir)/man
docdir  ?= $(datadir)/doc/nic-placement
pkgconfigdir ?= $(libdir)/pkgconfig
# where slurmd and srun find the plugin; plugstack.conf names it by its full path
plugindir ?= $(libdir)/slurm
# where a plugstack.conf may include the plugin's line from, or an admin copy it; nothing is put into Slurm's own folder, which is
# often one for all nodes
linedir ?= $(datadir)/nic-placement
# where systemd looks for the units that write the node file
unitdir ?= $(prefix)/lib/systemd/system

.DEFAULT_GOAL := help
.PHONY: help build demo lint test attack fuzz slow sanitize mutants test-slurms test-clients test-launchers test-packages test-arm test-libraries test-newest bench \
	first-hour pictures test-host soak deb rpm dist \
	wheel test-wheel install uninstall clean clean-cache

help:           ## this list
	@sed -n 's/^\([a-z -]*\): *##/  make \1\t/p' Makefile | expand -t 21
	@echo 'install and uninstall take prefix=, libdir=, includedir=, plugindir=, unitdir= and DESTDIR='
	@echo 'deb, rpm and dist take arch=aarch64, release=, slurm=25.05, MAINTAINER="NAME <ADDRESS>" and HOMEPAGE=URL'

build:          ## the plugin, the tool and the launchers' library, in target/release
	$(CARGO) build --release --locked

demo:           ## a real Slurm on this machine: srun without and with the option (root, apt)
	tests/slurm/install.sh
	$(CARGO) build --release --locked
	tests/slurm/demo.sh

lint:           ## rustfmt and clippy, as .ci/run wants them
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	# the fuzzers are a workspace of their own, whose lock file forgets what ours gained
	$(CARGO) fmt --check --manifest-path fuzz/Cargo.toml
	$(CARGO) metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml > /dev/null

test:           ## every test, the end-to-end ones on a real Slurm included (root, apt)
	$(MAKE) test-libraries
	$(libraries) $(CARGO) test --locked --no-run
	# guests under qemu, private Slurms, and the two slowest programs beside the other tests: each waits most of its time.  Their
	# processes are groups of their own, which end with this one: a shell lets what it starts with `&` ignore Ctrl-C.  `clients` starts
	# behind `attack`: at the load of both a third of a message's bytes was sent again once
	@export $(libraries); \
	$(call beside,attack clients vm,guests) $(call beside,vm_slurm,nodes) \
	$(call beside,end_to_end,even,HALF=0) $(call beside,end_to_end,odd,HALF=1) $(call beside,exec host,hosts) \
	trap 'kill -- -$$even -$$odd -$$guests -$$nodes -$$hosts; exit 130' INT TERM; \
	NIC_PLACEMENT_SKIP=vm,slurm $(CARGO) test --locked --no-fail-fast --lib --bins --test '[!ehv]*' --test verify; rest=$$?; \
	for each in $$even $$odd $$guests $$nodes $$hosts; do wait $$each || rest=1; done; \
	cat $(addprefix $(target)/,guests.log nodes.log even.log odd.log hosts.log); exit $$rest

beside = $(3) setsid $(CARGO) test --locked --no-fail-fast $(addprefix --test ,$(1)) > $(target)/$(2).log 2>&1 & $(2)=$$!;

# 120 pairs of seed 1, ten for each target, are part of `make test`; NICP_ROOT= attacks another release of Slurm.
# 2026-11-28: 3,000 pairs of 22.05.8 and of 26.05.5, none worse off with the plugin
attack: N = 3000
attack:         ## srun lines by chance, each without and with the plugin, judged: N=3000 SEED=1 ONLY=index (root, apt)
	tests/slurm/install.sh
	$(CARGO) build --release --locked
	ATTACK=$(N) ATTACK_SEED=$(or $(SEED),1) $(addprefix ATTACK_ONLY=,$(ONLY)) \
		$(CARGO) test --locked --test attack

fuzz:           ## libFuzzer on each input from outside: TARGET=name SECONDS_EACH=600 RUNS=10000000 (a C++ compiler)
	fuzz/run.sh $(TARGET)

slow:           ## the input of each target that costs most: TARGET=name BLOCKS=1000000000
	fuzz/run.sh slow $(TARGET)

sanitize:       ## the libraries' tests and the fake Slurm under AddressSanitizer (a nightly toolchain)
	fuzz/sanitize.sh

# need PROGRAM,PACKAGE: said before anything is built
need = @command -v $(1) > /dev/null || { echo '$@: no `$(1)`: Debian has it in $(2)' >&2; exit 1; }

# 120 by name, the same while functions keep theirs.  2026-11-28: all of the 109 that compile were noticed
mutants: N = 120
mutants:        ## does a test of core notice each small change to what decides? N=120 SEED=46 IN='bind gpus' (cargo-mutants, tree-sitter of PyPI)
	$(PYTHON) tests/mutants.py -n $(N) --seed $(or $(SEED),46) $(IN)

test-slurms:    ## the end-to-end tests on other releases of Slurm too, and docs/releases.md's table of them (root, apt, 1.2 GB)
	$(MAKE) test-libraries
	$(libraries) tests/slurm/releases.sh run
	BLESS=1 $(CARGO) test --locked --test docs

# 2026-11-28: engines and torch passed
test-clients:   ## UCX of three releases, NIXL, Mooncake, Open MPI, MPICH, libfabric, torchrun between two guests, by bytes (root, apt, PyPI, 0.5 GB)
	tests/slurm/install.sh
	tests/exec/install.sh
	tests/clients/install.sh
	$(CARGO) build --release --locked
	CLIENTS=all $(CARGO) test --locked --test clients

test-launchers: ## are ranks of Open MPI 5, MPICH 5, Intel MPI, oneCCL, torchrun, Ray worse off? docs/launchers.md's table: LAUNCHERS=MPICH (root, apt, PyPI)
	tests/slurm/install.sh
	tests/exec/install.sh ray
	$(CARGO) build --release --locked
	LAUNCHERS=$(or $(LAUNCHERS),all) $(CARGO) test --locked --test launchers
	BLESS=1 $(CARGO) test --locked --test docs

test-newest:    ## do the newest libraries and engines what our rules rest on? RELEASES=pinned (gcc, g++, strace, PyPI, 1.1 GB)
	tests/libraries/newest.sh $(RELEASES)

nobody = MAINTAINER='Nobody <nobody@example.org>' HOMEPAGE=https://example.org
test-packages:  ## packages in clean roots of Debian 12 and 13, docs/admin.md's session, aarch64 (root, apt, PyPI, 1.5 GB)
	tests/packages/install.sh
	$(MAKE) deb rpm $(nobody)
	$(MAKE) deb rpm $(nobody) arch=aarch64
	$(MAKE) deb rpm $(nobody) release=2
	PACKAGES=all $(CARGO) test --locked -p nic-placement-cli --test packages --test clean_roots

# ARM=16k: Debian's kernel with pages of that size; ARM=64k: one built once from Debian's source, in 7 minutes of two CPUs
ARM ?= 4k
test-arm:       ## the arm64 packages on Debian's arm64 kernel and Slurm, in a guest, 3 min beside the build: ARM=16k, 64k (root, apt, PyPI, 0.7 GB)
	tests/vm_arm/install.sh
	$(CARGO) build --locked -p nic-placement-cli
	NICP_TOOL=$(target)/debug/nic-placement $(MAKE) deb $(nobody) arch=aarch64
	ARM=$(ARM) $(CARGO) test --locked --test vm_arm

first-hour:     ## target/first-hour.tar.gz, which asks a machine with a GPU all that we have never asked one (root, apt, PyPI)
	tests/gpu/pack.sh

# the others need Debian's Slurm or guests.  A test says what it lacks: those lines are the last
of_host = abi host capi captured exec refresh tool transcripts
test-host:      ## what needs no package of Debian's, on EL, SLES or Cray OS as they are; NIC_PLACEMENT_SO= tests an installed library
	$(CARGO) test --locked --no-fail-fast -p nic-placement-topology -p nic-placement-node -p nic-placement-core -p nic-placement-sys -p nic-placement-process --lib
	@$(CARGO) test --locked --no-fail-fast -p nic-placement -p nic-placement-cli -p nic-placement-capi \
		$(addprefix --test ,$(of_host)) -- --nocapture \
		> $(target)/host.log 2>&1; ended=$$?; cat $(target)/host.log; echo; sed -n 's/^skipped/not tested/p' $(target)/host.log | sort -u; \
	exit $$ended

# what the end-to-end cases load: the library, one that panics on request, one for a Slurm that nobody has; and launchers
test-libraries:
	tests/slurm/install.sh
	tests/exec/install.sh
	tests/clients/install.sh
	$(CARGO) build --release --locked
	$(as_tests) --features nic-placement/panic-in-hooks
	install -D $(target)/debug/libnic_placement.so target/panic/debug/libnic_placement.so
	NIC_PLACEMENT_SLURM_RELEASE=31.02 $(as_tests)
	install -D $(target)/debug/libnic_placement.so target/stamped/libnic_placement.so

# with one of the tests, for which cargo chooses the features of serde, syn and others as for all: what they share is built once
as_tests = $(CARGO) build --locked --lib --test architecture

libraries = NIC_PLACEMENT_SO=$(abspath $(target)/release/libnic_placement.so) \
	NIC_PLACEMENT_STAMPED_SO=$(abspath target/stamped/libnic_placement.so)

bench:          ## microseconds of each hook, milliseconds of a step (root, apt)
	$(CARGO) bench --locked --bench hooks
	$(CARGO) build --release --locked
	benches/srun.sh

# goes on where an earlier one was cut off, in target/soak; N= names another number of steps
N ?= 10000
soak:           ## 10,000 steps (N=) with faults on a real Slurm, then slurmstepd under valgrind (root, apt; hours)
	$(MAKE) test-libraries
	$(libraries) tests/slurm/soak.sh $(N)
	$(libraries) tests/slurm/valgrind.sh

pictures:       ## README's picture, from the tool's own output
	$(CARGO) run --locked -p nic-placement-cli -- \
		plan --machine dgx-h100 --gpus-per-task 1 -o docs/plan-dgx-h100.svg

PYTHON ?= python3
arch ?= $(shell uname -m)
release ?= 1
packed = MAINTAINER='$(MAINTAINER)' HOMEPAGE='$(HOMEPAGE)' $(addprefix NIC_PLACEMENT_SLURM_RELEASE=,$(slurm))
deb rpm:        ## packages for glibc 2.28 and newer, in target/packages (pip; see packaging/portable.sh)
	$(packed) packaging/package.sh $@ $(arch) $(version) $(release)

# NICP_BUILT names a folder with the library, which is then not built
wheel:          ## the Python package with the launchers' library, in target/wheel; arch=aarch64 (pip, PyPI)
	built=$${NICP_BUILT:-$$(packaging/portable.sh $(arch))} && rm -f $(target)/wheel/*_$(arch).whl && \
	NIC_PLACEMENT_BUILT=$$(realpath "$$built") NIC_PLACEMENT_ARCH=$(arch) \
		SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} \
		$(PYTHON) -m pip -q --disable-pip-version-check wheel --no-deps -w $(target)/wheel ./python

test-wheel:     ## that wheel in a clean virtual environment, with Ray of PyPI; torchrun too where PYTHON has torch (root)
	$(MAKE) wheel
	$(PYTHON) -m venv --clear --system-site-packages $(target)/wheel/venv
	$(target)/wheel/venv/bin/pip -q --disable-pip-version-check install pytest==9.2.0 $(target)/wheel/*_$(arch).whl
	$(target)/wheel/venv/bin/pip -q --disable-pip-version-check install ray==2.60.0 || echo 'no Ray for this Python'
	NIC_PLACEMENT_TOOL=$$(realpath "$${NICP_BUILT:-target/portable/$(arch)-unknown-linux-gnu/release}/nic-placement") \
		$(target)/wheel/venv/bin/python -m pytest -q -rs -p no:cacheprovider python/tests

dist:           ## what a release consists of, in target/dist: source archive, packages (arch='x86_64 aarch64'), sums
	$(packed) packaging/dist.sh $(arch)

install:        ## copy what `make build` made
	@test -e $(built)/libnic_placement.so || { echo 'install: nothing is built: run `make build`' >&2; exit 1; }
	$(call put,755,$(built)/libnic_placement.so,$(plugindir)/libnic_placement.so)
	$(call put,755,$(built)/nic-placement,$(bindir)/nic-placement)
	$(call put,755,$(built)/libnic_placement_capi.so,$(libdir)/$(soname))
	ln -sfn $(soname) $(DESTDIR)$(libdir)/libnic_placement_core.so
	$(call put,644,include/nic_placement.h,$(includedir)/nic_placement.h)
	$(call filled,packaging/pkgconfig/nic-placement-core.pc.in,$(pkgconfigdir)/nic-placement-core.pc)
	$(call put,644,packaging/man/nic-placement.1,$(mandir)/man1/nic-placement.1)
	$(call put,644,packaging/man/nic-placement.8,$(mandir)/man8/nic-placement.8)
	$(call filled,packaging/plugstack/share.conf,$(linedir)/90-nic-placement.conf)
	$(call put,755,packaging/trial/trial.sbatch,$(linedir)/trial.sbatch)
	$(call put,644,packaging/prometheus/nic-placement.rules.yml,$(linedir)/nic-placement.rules.yml)
	$(call filled,plugstack.conf.example,$(docdir)/plugstack.conf.example)
	$(call put,644,nic-placement.conf.example,$(docdir)/nic-placement.conf.example)
	$(call put,644,README.md,$(docdir)/README.md) && $(call linked,$(docdir)/README.md)
	$(call put,644,CHANGELOG.md,$(docdir)/CHANGELOG.md)
	$(call put,644,SECURITY.md,$(docdir)/SECURITY.md) && $(call linked,$(docdir)/SECURITY.md)
	$(foreach page,$(wildcard docs/*.md),$(call filled,$(page),$(docdir)/$(page)) && $(call linked,$(docdir)/$(page)) &&) true
	$(foreach example,$(wildcard examples/*/*),$(call put,644,$(example),$(docdir)/$(example)) &&) true
	install -D -m 644 -t $(DESTDIR)$(docdir)/docs docs/*.svg
	$(call put,644,packaging/copyright,$(docdir)/copyright)
	$(call put,644,packaging/licenses.txt,$(docdir)/licenses.txt)
	$(call put,644,packaging/sbom/libnic_placement.cdx.json,$(docdir)/libnic_placement.cdx.json)
	$(call put,644,packaging/sbom/libnic_placement_core.cdx.json,$(docdir)/libnic_placement_core.cdx.json)
	$(call put,644,packaging/sbom/nic-placement.cdx.json,$(docdir)/nic-placement.cdx.json)
	$(call filled,packaging/systemd/nic-placement-refresh.service,$(unitdir)/nic-placement-refresh.service)
	$(call filled,packaging/systemd/nic-placement-refresh.timer,$(unitdir)/nic-placement-refresh.timer)
	$(call filled,packaging/systemd/nic-placement-watch.service,$(unitdir)/nic-placement-watch.service)
	$(call completions,bash,$(datadir)/bash-completion/completions/nic-placement)
	$(call completions,zsh,$(datadir)/zsh/site-functions/_nic-placement)
	$(call completions,fish,$(datadir)/fish/vendor_completions.d/nic-placement.fish)
	@$(if $(DESTDIR),,$(LDCONFIG) 2> /dev/null; $(LDCONFIG) -p 2> /dev/null | grep -qF '$(libdir)/$(soname)' || \
		echo 'install: programs do not find $(libdir)/$(soname): put `$(libdir)` into a file below /etc/ld.so.conf.d and run' \
		'`ldconfig` as root, or set LD_LIBRARY_PATH=$(libdir)' >&2)

# the list is `install`'s: it is carried out into an empty folder, and what then lies there is removed
uninstall:      ## remove what `make install` copies, and the node file
	@list=$$(mktemp -d) && trap 'rm -rf "$$list"' EXIT && $(MAKE) --silent install DESTDIR="$$list" && \
	(cd "$$list" && find . ! -type d) | while read -r file; do rm -fv "$(DESTDIR)/$$file"; done
	find $(DESTDIR)$(docdir) $(DESTDIR)$(linedir) -depth -type d -empty -delete 2> /dev/null || true
	rm -rf $(DESTDIR)/run/nic-placement

# put MODE,FILE,PLACE: by rename, since slurmd keeps the plugin mapped and must not see it change under its feet
put = install -D -m $(1) $(2) $(DESTDIR)$(3).new && mv -f $(DESTDIR)$(3).new $(DESTDIR)$(3)

version ?= $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
soname := $(shell sed -n 's/^const SONAME: &str = "\(.*\)";/\1/p' crates/capi/build.rs)

# filled FILE,PLACE: with the places that were chosen
filled = install -d $(dir $(DESTDIR)$(2)) && sed -e 's|@prefix@|$(prefix)|' -e 's|@libdir@|$(libdir)|' \
	-e 's|@includedir@|$(includedir)|' -e 's|@version@|$(version)|' -e 's|/usr/local/bin/nic-pl|$(bindir)/nic-pl|' \
	-e 's|@linedir@|$(linedir)|' -e 's|@plugin@|$(plugindir)/libnic_placement.so|' \
	-e 's|/usr/local/lib/slurm/libnic_placement.so|$(plugindir)/libnic_placement.so|' $(1) > $(DESTDIR)$(2).new && \
	chmod 644 $(DESTDIR)$(2).new && mv -f $(DESTDIR)$(2).new $(DESTDIR)$(2)

# linked PLACE: in this page a link to a file that is not installed becomes words, and it says so
linked = sed -i -E \
	-e 's~\[([^]]*)\]\((\.\./)?(packaging/[^)]*|(ARCHITECTURE|CONTRIBUTING)\.md[^)]*)\)~\1 (in the source)~g' \
	-e 's~\]\((\.\./)?include/~]($(includedir)/~g' -e 's~\]\(LICENSE-[A-Z]*\)~](copyright)~g' \
	-e 's~(cc -o launch |python3 )examples/~\1$(docdir)/examples/~' $(DESTDIR)$(1) && \
	if grep -qE '(`| )(tests|crates|benches|packaging)/|`(make|cargo) |\(in the source\)' $(DESTDIR)$(1); then \
	sed -i -e '1a\\n$(of_source)' $(DESTDIR)$(1); fi
of_source = Files below `tests/`, `crates/`, `benches/` and `packaging/`, and what `make` and `cargo` do, belong to the \
	source$(if $(HOMEPAGE), <$(HOMEPAGE)>), which is not installed.

# completions SHELL,PLACE: the tool's own, so that they know the options that it has
completions = install -d $(dir $(DESTDIR)$(2)) && \
	$(tool) completions $(1) > $(DESTDIR)$(2).new && \
	chmod 644 $(DESTDIR)$(2).new && mv -f $(DESTDIR)$(2).new $(DESTDIR)$(2)

clean:          ## remove what was built
	$(CARGO) clean

clean-cache:    ## remove what the tests keep outside of the checkout: other releases of Slurm, guests, compilers
	rm -rf $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/nic-placement $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/nic-placement-vm
