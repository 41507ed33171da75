# Copyright Spack Project Developers. See COPYRIGHT file for details.
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)
"""Put this folder into a repository of your own (`spack repo create`), and run `spack install nic-placement`.

plugstack.conf then names PREFIX/lib/slurm/libnic_placement.so; PREFIX is what `spack location -i nic-placement` prints."""

from spack_repo.builtin.build_systems.makefile import MakefilePackage

from spack.package import *


class NicPlacement(MakefilePackage):
    """Slurm plugin that gives each GPU task its nearest RDMA NIC, CPUs and memory, with a tool and a library."""

    # the source lies where you have it: `spack develop nic-placement@1.0.0`, or a mirror of your own
    manual_download = True

    license("Apache-2.0 OR MIT")

    version("1.0.0")

    # neither Slurm's headers nor libclang are needed: the plugin finds Slurm's functions in the program that loads it
    depends_on("c", type="build")
    depends_on("rust@1.85:", type="build")

    def build(self, spec, prefix):
        make("build")

    def install(self, spec, prefix):
        make("install", f"prefix={prefix}", f"unitdir={prefix.lib}/systemd/system")
