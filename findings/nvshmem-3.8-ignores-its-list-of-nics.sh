#!/bin/bash
# NVSHMEM 3.8 takes no notice of NVSHMEM_HCA_LIST unless NVSHMEM_ENABLE_NIC_PE_MAPPING=1; 3.7 needs no switch.
#
# nvshmem_transport_ibrc.so of PyPI's nvidia-nvshmem-cu12, 2026-11-27, over a stand-in for libibverbs with four active ports;
# which of them it takes with NVSHMEM_HCA_LIST=mlx5_0:1,mlx5_3:1:
#
#   3.7.2                 mlx5_0 mlx5_3
#   3.8.0                 mlx5_0 mlx5_1 mlx5_2 mlx5_3
#   3.8.0 and the switch  mlx5_0 mlx5_3
#
# A list that left out a storage or a broken NIC leaves it in after the update, without a word: the 3.8 wheel's own notes
# (share/skills/nvshmem-configure-nic-pe-mapping) ask for the switch.  Needs gcc; downloads 0.5 GB.
# Ends with 1 if that changed.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/libibverbs.c" << 'END'
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* as far as infiniband/verbs.h lays them out, and the transport reads them */
struct device { void *functions[2]; int types[2]; char name[64], dev_name[64], dev_path[256], ibdev_path[256]; };
struct context { struct device *device; char rest[4096]; };
static struct device devices[4], *list[5];
static struct context contexts[4];
int ibv_fork_init(void) { return 0; }
struct device **ibv_get_device_list(int *count)
{
    for (int nth = 0; nth < 4; nth++) {
        list[nth] = &devices[nth];
        snprintf(devices[nth].name, 64, "mlx5_%d", nth);
        snprintf(devices[nth].ibdev_path, 256, "/sys/class/infiniband/mlx5_%d", nth);
    }
    return *count = 4, list;
}
const char *ibv_get_device_name(struct device *device) { return device->name; }
struct context *ibv_open_device(struct device *device)
{
    contexts[device - devices].device = device;
    return &contexts[device - devices];
}
int ibv_query_device(struct context *context, uint8_t *attr) { memset(attr, 0, 232); attr[227] = 1; return 0; } /* phys_port_cnt */
int ibv_query_port(struct context *context, uint8_t port, uint8_t *attr)
{
    memset(attr, 0, 48);
    attr[0] = 4, attr[12] = 1, attr[46] = 1;                    /* active; one GID; InfiniBand */
    return 0;
}
int ibv_query_gid(struct context *context, uint8_t port, int index, uint8_t *gid) { memset(gid, 1, 16); return 0; }
/* called for each port that is taken */
void *ibv_alloc_pd(struct context *context) { puts(context->device->name); fflush(stdout); return contexts; }
#define UNUSED(name) long ibv_##name(void) { return 0; }
UNUSED(close_device) UNUSED(dealloc_pd) UNUSED(create_ah) UNUSED(destroy_ah) UNUSED(create_cq) UNUSED(destroy_cq) UNUSED(create_qp)
UNUSED(destroy_qp) UNUSED(modify_qp) UNUSED(create_srq) UNUSED(destroy_srq) UNUSED(reg_mr) UNUSED(reg_mr_iova)
UNUSED(reg_dmabuf_mr) UNUSED(dereg_mr)
END
cat > "$work/program.c" << 'END'
#include <dlfcn.h>
#include <stdlib.h>
int main(int count, char **words)
{
    static void *functions_of_cuda[512], *transport;
    void *library = dlopen(words[1], RTLD_NOW);
    int (*init)(void **, void *, int) = library ? (int (*)(void **, void *, int))dlsym(library, "nvshmemt_init") : NULL;
    /* its end is an error, as there is no GPU: the NICs are chosen before */
    return init ? (init(&transport, functions_of_cuda, atoi(words[2]) * 10000), 0) : 2;
}
END
gcc -shared -fPIC -o "$work/libibverbs.so.1" "$work/libibverbs.c"
gcc -o "$work/program" "$work/program.c" -ldl

# takes RELEASE NAME=VALUE…
takes() {
    local folder=$work/$1 transport
    [ -d "$folder" ] || python3 -m pip install -q --disable-pip-version-check --no-deps --root-user-action=ignore \
        --target "$folder" "nvidia-nvshmem-cu12==$1" > /dev/null
    shift
    transport=$(echo "$folder"/nvidia/nvshmem/lib/nvshmem_transport_ibrc.so.*)
    env NVSHMEM_HCA_LIST=mlx5_0:1,mlx5_3:1 NVSHMEM_IB_DISABLE_DMABUF=1 NVSHMEM_DISABLE_DATA_DIRECT=1 LD_LIBRARY_PATH="$work" "$@" \
        "$work/program" "$transport" "${transport##*.}" 2> /dev/null | grep '^mlx5_' | sort -u | xargs
}
old=$(takes 3.7.2 A=) new=$(takes 3.8.0 A=) switched=$(takes 3.8.0 NVSHMEM_ENABLE_NIC_PE_MAPPING=1)
printf '%-22s %s\n' 3.7.2 "$old" 3.8.0 "$new" '3.8.0 and the switch' "$switched"
[ "$old" = 'mlx5_0 mlx5_3' ] && [ "$new" = 'mlx5_0 mlx5_1 mlx5_2 mlx5_3' ] && [ "$switched" = 'mlx5_0 mlx5_3' ]
