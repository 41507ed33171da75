#!/bin/sh
# Runs in the guest, in /out: one node with its own Slurm, on which commands are run before and after our packages are
# installed.
#
#   node.sh WITHOUT WITH
#
#   WITHOUT   lines `NAME COMMAND…` (each.sh) for a node that has nothing of ours
#   WITH      such lines for a node with the packages, whose plugin is in plugstack.conf as its own file says
set -eu
without=$1
with=$2
task=/guest/task
export task PATH=/usr/bin:/usr/sbin:/bin:/sbin

# these stay possible, in the masks and in /sys
for cpu in 4 5; do echo 0 > /sys/devices/system/cpu/cpu$cpu/online; done
cp /sys/devices/system/cpu/possible .
. /guest/each.sh
sh /guest/gpus.sh
nics
cat /sys/devices/system/cpu/cpu*/topology/physical_package_id | sort -nu > packages
ls -d /sys/devices/system/cpu/cpu0/cache/index3 > third-cache 2> /dev/null || :
ready 'the devices are there'
export THREADS=1 PLUGIN=''
node yes
each "$without"
echo 'dpkg' > doing
/usr/bin/dpkg --install /guest/*.deb > dpkg 2>&1 || { cat dpkg >&2 && exit 1; }
ready 'the packages are installed'
echo 'include /usr/share/nic-placement/*.conf' > /etc/slurm/plugstack.conf
each "$with"
