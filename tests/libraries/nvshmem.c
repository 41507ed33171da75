/*
 * Which NICs NVSHMEM's transport takes, on a machine without any.
 *
 *   gcc -shared -fPIC -o libibverbs.so.1 nvshmem.c      a stand-in with four active ports: mlx5_0 to mlx5_3
 *   gcc -DPROGRAM -o nvshmem nvshmem.c                  calls the init function of nvshmem_transport_ibrc.so.N
 *
 * The transport opens libibverbs.so.1 with dlopen(3), and allocates a protection domain on each port that it takes
 * (src/modules/transport/ibrc/ibrc.cpp `nvshmemt_init`).  Structures are the beginnings of those of infiniband/verbs.h.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef PROGRAM
int main(int count, char **words)
{
	/* as no GPU's memory is registered, no function of CUDA is called before the NICs are chosen */
	static void *functions[512], *transport;
	void *library = count == 3 ? dlopen(words[1], RTLD_NOW) : NULL;
	int (*init)(void **, void *, int) = library ? (int (*)(void **, void *, int))dlsym(library, "nvshmemt_init") : NULL;
	if (!init) {
		fprintf(stderr, "expected TRANSPORT VERSION: %s\n", dlerror());
		return 2;
	}
	/* it ends with an error: this machine has no GPU */
	init(&transport, functions, atoi(words[2]) * 10000);
	return 0;
}
#else
#define NICS 4

struct device {
	void *functions[2];
	int node_type, transport_type;
	char name[64], dev_name[64], dev_path[256], ibdev_path[256];
};

struct device_attr {
	char firmware[64];
	uint64_t guids_and_sizes[4];
	uint32_t ids[3];
	int limits[29];
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay, phys_port_cnt;
};

struct port_attr {
	int state, max_mtu, active_mtu, gid_tbl_len;
	uint32_t flags_and_counters[4];
	uint16_t pkey_tbl_len, lid, sm_lid;
	uint8_t lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply, active_width, active_speed, phys_state, link_layer;
};

struct context {
	struct device *device;
	char rest[4096];
};

static struct device devices[NICS];
static struct device *list[NICS + 1];
static struct context contexts[NICS];

int ibv_fork_init(void)
{
	return 0;
}

struct device **ibv_get_device_list(int *count)
{
	for (int nth = 0; nth < NICS; nth++) {
		struct device *device = list[nth] = &devices[nth];
		device->node_type = 1;
		snprintf(device->name, sizeof device->name, "mlx5_%d", nth);
		snprintf(device->dev_name, sizeof device->dev_name, "uverbs%d", nth);
		snprintf(device->ibdev_path, sizeof device->ibdev_path, "/sys/class/infiniband/mlx5_%d", nth);
	}
	if (count)
		*count = NICS;
	return list;
}

void ibv_free_device_list(struct device **of)
{
	(void)of;
}

const char *ibv_get_device_name(struct device *device)
{
	return device->name;
}

struct context *ibv_open_device(struct device *device)
{
	struct context *context = &contexts[device - devices];
	context->device = device;
	return context;
}

int ibv_query_device(struct context *context, struct device_attr *attr)
{
	(void)context;
	memset(attr, 0, sizeof *attr);
	attr->phys_port_cnt = 1;
	return 0;
}

int ibv_query_port(struct context *context, uint8_t port, struct port_attr *attr)
{
	(void)context, (void)port;
	memset(attr, 0, sizeof *attr);
	attr->state = 4;       /* IBV_PORT_ACTIVE */
	attr->max_mtu = attr->active_mtu = 5;
	attr->gid_tbl_len = 1;
	attr->lid = 1;
	attr->link_layer = 1;  /* IBV_LINK_LAYER_INFINIBAND */
	return 0;
}

int ibv_query_gid(struct context *context, uint8_t port, int index, uint8_t *gid)
{
	(void)context, (void)index;
	memset(gid, 0, 16);
	gid[0] = 0xfe, gid[1] = 0x80, gid[15] = port;
	return 0;
}

void *ibv_alloc_pd(struct context *context)
{
	static void *domains[8];
	printf("%s\n", context->device->name);
	fflush(stdout);
	domains[0] = context;
	return domains;
}

#define UNUSED(name) long name(void) { return 0; }
UNUSED(ibv_close_device) UNUSED(ibv_dealloc_pd) UNUSED(ibv_create_ah) UNUSED(ibv_destroy_ah) UNUSED(ibv_create_cq)
UNUSED(ibv_destroy_cq) UNUSED(ibv_create_qp) UNUSED(ibv_destroy_qp) UNUSED(ibv_modify_qp) UNUSED(ibv_create_srq)
UNUSED(ibv_destroy_srq) UNUSED(ibv_reg_mr) UNUSED(ibv_reg_mr_iova) UNUSED(ibv_reg_dmabuf_mr) UNUSED(ibv_dereg_mr)
#endif
