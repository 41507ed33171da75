"""The wheel of one architecture, with its library: `make wheel` names both."""

import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Hook(BuildHookInterface):
    def initialize(self, version, build_data):
        library = os.environ["NIC_PLACEMENT_BUILT"] + "/libnic_placement_capi.so"
        build_data["force_include"][library] = "nic_placement/libnic_placement_core.so.0"
        for name in ("copyright", "licenses.txt"):
            build_data["force_include"]["../packaging/" + name] = "nic_placement/" + name
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-manylinux_2_28_" + os.environ["NIC_PLACEMENT_ARCH"]
