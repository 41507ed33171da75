"""Makes each root complex that qemu plays for aarch64 a PCI domain of its own, as Grace has them: 0001 and on, and the last ffff,
beyond which none is: the kernel takes 16 bits of a _SEG (drivers/acpi/pci_root.c of 6.1, acpi_pci_root_add).

domains.py TABLES OUT ROOT-BUS...

TABLES has the ACPI tables DSDT, MCFG and IORT as a guest's kernel shows them: UEFI has filled in the windows.  Below OUT come
changed ones, where a kernel looks for them in its initramfs (CONFIG_ACPI_TABLE_UPGRADE).  Run with the tables of qemu 7.2.
"""

import os
import struct
import sys

tables, out, *buses = sys.argv[1:]


def table(name):
    with open(f"{tables}/{name}", "rb") as file:
        return bytearray(file.read())


dsdt, mcfg, iort = table("DSDT"), table("MCFG"), table("IORT")
if (len(mcfg), len(iort)) != (60, 128):
    sys.exit(f"domains.py: MCFG of {len(mcfg)} bytes and IORT of {len(iort)}: written for 60 and 128")
for segment, bus in zip([*range(1, len(buses)), 0xFFFF], map(int, buses)):
    # the root's _STR, 31 bytes of AML, becomes Name(_SEG, segment) and a buffer that nobody reads
    at = dsdt.index(b"_STR\x11", dsdt.index(b"PC%02X" % bus)) - 1
    new = b"\x08_SEG\x0b" + struct.pack("<H", segment) + b"\x08XPAD\x11\x11\x0a\x0e" + bytes(14)
    if dsdt[at + 6] != 31 - 6 or len(new) != 31:
        sys.exit(f"domains.py: an unknown _STR of bus {bus}: {dsdt[at:at + 31]}")
    dsdt[at:at + 31] = new
    # an allocation with the same base, and a root complex with the same mapping to the ITS
    mcfg += mcfg[44:52] + struct.pack("<HBBI", segment, bus, 255, 0)
    iort += iort[0x48:0x64] + struct.pack("<I", segment) + iort[0x68:0x80]
struct.pack_into("<I", iort, 36, 2 + len(buses))
folder = f"{out}/kernel/firmware/acpi"
os.makedirs(folder)
for name, data in ("dsdt", dsdt), ("mcfg", mcfg), ("iort", iort):
    # length, OEM revision (a higher one replaces the firmware's table), checksum
    struct.pack_into("<I", data, 4, len(data))
    struct.pack_into("<I", data, 24, 2)
    data[9] = 0
    data[9] = -sum(data) & 255
    with open(f"{folder}/{name}.aml", "wb") as file:
        file.write(data)
