# Thin: each target is a line or two of what one would type.  `make help` lists them.

CARGO  ?= cargo
target := $(or $(CARGO_TARGET_DIR),target)

prefix  ?= /usr/local
bindir  ?= $(prefix)/bin
libdir  ?= $(prefix)/lib
mandir  ?= $(prefix)/share/man
docdir  ?= $(prefix)/share/doc/nic-placement
# where slurmd and srun find the plugin; plugstack.conf names it by its full path
plugindir ?= $(libdir)/slurm

.DEFAULT_GOAL := help
.PHONY: help build demo test bench install clean

help:           ## this list
	@sed -n 's/^\([a-z]*\): *##/  make \1\t/p' Makefile | expand -t 18
	@echo 'install takes prefix=, libdir=, plugindir= and DESTDIR='

build:          ## the plugin and the tool, in target/release
	$(CARGO) build --release --locked

demo:           ## a real Slurm on this machine: srun without and with the option (root, apt)
	tests/slurm/install.sh
	$(CARGO) build --release --locked
	tests/slurm/demo.sh

test:           ## every test, the end-to-end ones on a real Slurm included (root, apt)
	tests/slurm/install.sh
	$(CARGO) build --release --locked
	$(CARGO) build --release --locked --lib --features panic-in-hooks --target-dir target/panic
	NIC_PLACEMENT_SO=$(abspath $(target)/release/libnic_placement.so) $(CARGO) test --locked --no-fail-fast

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

# put MODE,FILE,PLACE: by rename, since slurmd keeps the plugin mapped and must not see it change under its feet
put = install -D -m $(1) $(2) $(DESTDIR)$(3).new && mv -f $(DESTDIR)$(3).new $(DESTDIR)$(3)

clean:          ## remove what was built
	$(CARGO) clean
