# Thin: each target is a line or two of what one would type.  `make help` lists them.

CARGO  ?= cargo
target := $(or $(CARGO_TARGET_DIR),target)

prefix  ?= /usr/local
bindir  ?= $(prefix)/bin
libdir  ?= $(prefix)/lib
datadir ?= $(prefix)/share
mandir  ?= $(datadir)/man
docdir  ?= $(datadir)/doc/nic-placement
# where slurmd and srun find the plugin; plugstack.conf names it by its full path
plugindir ?= $(libdir)/slurm
# where systemd looks for the units that write the node file
unitdir ?= $(prefix)/lib/systemd/system

.DEFAULT_GOAL := help
.PHONY: help build demo lint test test-slurms test-libraries bench install clean

help:           ## this list
	@sed -n 's/^\([a-z-]*\): *##/  make \1\t/p' Makefile | expand -t 21
	@echo 'install takes prefix=, libdir=, plugindir=, unitdir= and DESTDIR='

build:          ## the plugin and the tool, in target/release
	$(CARGO) build --release --locked

demo:           ## a real Slurm on this machine: srun without and with the option (root, apt)
	tests/slurm/install.sh
	$(CARGO) build --release --locked
	tests/slurm/demo.sh

lint:           ## rustfmt and clippy, as .ci/run wants them
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --all-targets -- -D warnings

test:           ## every test, the end-to-end ones on a real Slurm included (root, apt)
	$(MAKE) test-libraries
	$(libraries) $(CARGO) test --locked --no-fail-fast

test-slurms:    ## the end-to-end tests on other releases of Slurm too, and README's table of them (root, apt, 1.2 GB)
	$(MAKE) test-libraries
	$(libraries) tests/slurm/releases.sh run
	BLESS=1 $(CARGO) test --locked --test docs

# what the end-to-end cases load: the library, one that panics on request, one for a Slurm that nobody has; and launchers
test-libraries:
	tests/slurm/install.sh
	tests/exec/install.sh
	$(CARGO) build --release --locked
	$(CARGO) build --release --locked -p nic-placement --features panic-in-hooks --target-dir target/panic
	NIC_PLACEMENT_SLURM_RELEASE=31.02 $(CARGO) build --locked -p nic-placement
	install -D $(target)/debug/libnic_placement.so target/stamped/libnic_placement.so

libraries = NIC_PLACEMENT_SO=$(abspath $(target)/release/libnic_placement.so) \
	NIC_PLACEMENT_STAMPED_SO=$(abspath target/stamped/libnic_placement.so)

bench:          ## microseconds of each hook, milliseconds of a step (root, apt)
	$(CARGO) bench --locked --bench hooks
	$(CARGO) build --release --locked
	benches/srun.sh

install:        ## copy what `make build` made
	@test -e $(target)/release/libnic_placement.so || { echo 'install: nothing is built: run `make build`' >&2; exit 1; }
	$(call put,755,$(target)/release/libnic_placement.so,$(plugindir)/libnic_placement.so)
	$(call put,755,$(target)/release/nic-placement,$(bindir)/nic-placement)
	$(call put,644,packaging/man/nic-placement.1,$(mandir)/man1/nic-placement.1)
	$(call put,644,packaging/man/nic-placement.8,$(mandir)/man8/nic-placement.8)
	$(call put,644,plugstack.conf.example,$(docdir)/plugstack.conf.example)
	$(call unit,nic-placement-refresh.service)
	$(call unit,nic-placement-refresh.timer)
	$(call unit,nic-placement-watch.service)
	$(call completions,bash,$(datadir)/bash-completion/completions/nic-placement)
	$(call completions,zsh,$(datadir)/zsh/site-functions/_nic-placement)
	$(call completions,fish,$(datadir)/fish/vendor_completions.d/nic-placement.fish)

# put MODE,FILE,PLACE: by rename, since slurmd keeps the plugin mapped and must not see it change under its feet
put = install -D -m $(1) $(2) $(DESTDIR)$(3).new && mv -f $(DESTDIR)$(3).new $(DESTDIR)$(3)

# unit FILE: with the place of the tool
unit = install -d $(DESTDIR)$(unitdir) && sed 's|/usr/local/bin|$(bindir)|' packaging/systemd/$(1) \
	> $(DESTDIR)$(unitdir)/$(1).new && chmod 644 $(DESTDIR)$(unitdir)/$(1).new && \
	mv -f $(DESTDIR)$(unitdir)/$(1).new $(DESTDIR)$(unitdir)/$(1)

# completions SHELL,PLACE: the tool's own, so that they know the options that it has
completions = install -d $(dir $(DESTDIR)$(2)) && \
	$(target)/release/nic-placement completions $(1) > $(DESTDIR)$(2).new && \
	chmod 644 $(DESTDIR)$(2).new && mv -f $(DESTDIR)$(2).new $(DESTDIR)$(2)

clean:          ## remove what was built
	$(CARGO) clean
