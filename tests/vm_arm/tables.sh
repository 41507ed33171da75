#!/bin/sh
# Leaves the firmware's ACPI tables that domains.py changes.
set -eu
cp /sys/firmware/acpi/tables/DSDT /sys/firmware/acpi/tables/MCFG .
cp /sys/firmware/acpi/tables/IORT .
