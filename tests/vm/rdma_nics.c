// SPDX-License-Identifier: GPL-2.0
/*
 * The guest's RDMA NICs: a driver for the functions that describe.awk calls `nic`.  Each shows itself as a ConnectX-7 with
 * mlx5_core and mlx5_ib does: an RDMA device with its ports, a verbs device, and a network interface for each port.  They
 * move no data.
 *
 *   insmod rdma_nics.ko nics=LINK:GBPS:STATES[,...]
 *
 * LINK is `ib` or `eth`, GBPS 100, 200 or 400, STATES a letter for each port: a(ctive), i(nit) or d(own).  A function finds
 * its entry by its subsystem id.  /sys/module/rdma_nics/parameters/query_sleep_ms makes all of them sick, and well again.
 * Written for Linux 6.1; the interface inside the kernel changes.  There is no way to
 * unload it: a guest ends with its program.
 */
#include <linux/etherdevice.h>
#include <linux/delay.h>
#include <linux/if_arp.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <rdma/ib_verbs.h>

#define MOST_NICS 32
#define MOST_PORTS 2
#define GIDS 16

static char *nics[MOST_NICS];
static int count;
module_param_array(nics, charp, &count, 0444);

/* a sick card: its firmware answers a question about a port so late, and until then nothing ends who asked */
static unsigned int query_sleep_ms;
module_param(query_sleep_ms, uint, 0644);

struct nic {
	struct ib_device ib;
	struct pci_dev *function;
	bool ethernet;
	u16 speed;
	char states[MOST_PORTS + 1];
};

static struct nic *nic_of(struct ib_device *ib)
{
	return container_of(ib, struct nic, ib);
}

/* as the factory numbers them: one for a card, and its functions from there */
static __be64 guid(struct pci_dev *function, bool of_card)
{
	u64 address = pci_dev_id(function) & (of_card ? ~7 : ~0);

	return cpu_to_be64(0xa088c20300000000ULL | address << 8);
}

static int query_device(struct ib_device *ib, struct ib_device_attr *attributes, struct ib_udata *user)
{
	memset(attributes, 0, sizeof(*attributes));
	attributes->vendor_id = 0x2c9;
	attributes->vendor_part_id = nic_of(ib)->function->device;
	attributes->sys_image_guid = guid(nic_of(ib)->function, true);
	attributes->max_pkeys = 1;
	return 0;
}

static void firmware(struct ib_device *ib, char *text)
{
	snprintf(text, IB_FW_VERSION_NAME_MAX, "28.39.1002");
}

static int query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attributes)
{
	struct nic *nic = nic_of(ib);
	char state = nic->states[port - 1];
	unsigned long begun = jiffies;

	while (time_before(jiffies, begun + msecs_to_jiffies(READ_ONCE(query_sleep_ms))))
		msleep(20);
	attributes->state = state == 'a' ? IB_PORT_ACTIVE : state == 'i' ? IB_PORT_INIT : IB_PORT_DOWN;
	attributes->phys_state = state == 'd' ? IB_PORT_PHYS_STATE_POLLING : IB_PORT_PHYS_STATE_LINK_UP;
	attributes->active_width = IB_WIDTH_4X;
	attributes->active_speed = nic->speed;
	attributes->max_mtu = attributes->active_mtu = IB_MTU_4096;
	attributes->gid_tbl_len = nic->ethernet ? GIDS : 1;
	attributes->pkey_tbl_len = 1;
	attributes->ip_gids = nic->ethernet;
	if (!nic->ethernet && state == 'a') {
		/* a subnet manager has been here */
		attributes->lid = 100 + nic->function->bus->number;
		attributes->sm_lid = 1;
	}
	return 0;
}

static int port_immutable(struct ib_device *ib, u32 port, struct ib_port_immutable *immutable)
{
	bool ethernet = nic_of(ib)->ethernet;

	immutable->pkey_tbl_len = 1;
	immutable->gid_tbl_len = ethernet ? GIDS : 1;
	/* no management datagrams, no connection manager: nothing is behind them */
	immutable->core_cap_flags = ethernet ? RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP : RDMA_CORE_CAP_PROT_IB;
	return 0;
}

static enum rdma_link_layer link_layer(struct ib_device *ib, u32 port)
{
	return nic_of(ib)->ethernet ? IB_LINK_LAYER_ETHERNET : IB_LINK_LAYER_INFINIBAND;
}

static int query_gid(struct ib_device *ib, u32 port, int index, union ib_gid *gid)
{
	gid->global.subnet_prefix = cpu_to_be64(0xfe80000000000000ULL);
	gid->global.interface_id = ib->node_guid;
	return 0;
}

static int query_pkey(struct ib_device *ib, u32 port, u16 index, u16 *key)
{
	*key = 0xffff;
	return 0;
}

static int add_gid(const struct ib_gid_attr *gid, void **context)
{
	return 0;
}

static int remove_gid(const struct ib_gid_attr *gid, void **context)
{
	return 0;
}

/* the verbs device exists for a driver that has this; a program that opens it is refused */
static int open_verbs(struct ib_ucontext *context, struct ib_udata *user)
{
	return -EOPNOTSUPP;
}

static void close_verbs(struct ib_ucontext *context)
{
}

struct verbs {
	struct ib_ucontext context;
};

static const struct ib_device_ops operations = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.uverbs_no_driver_id_binding = 1,
	.query_device = query_device,
	.get_dev_fw_str = firmware,
	.query_port = query_port,
	.get_port_immutable = port_immutable,
	.get_link_layer = link_layer,
	.query_gid = query_gid,
	.query_pkey = query_pkey,
	.add_gid = add_gid,
	.del_gid = remove_gid,
	.alloc_ucontext = open_verbs,
	.dealloc_ucontext = close_verbs,
	INIT_RDMA_OBJ_SIZE(ib_ucontext, verbs, context),
};

static netdev_tx_t drop(struct sk_buff *packet, struct net_device *interface)
{
	dev_kfree_skb(packet);
	return NETDEV_TX_OK;
}

static const struct net_device_ops interface_operations = { .ndo_start_xmit = drop };

/* eth0 or ib0, for port 1, 2, ... */
static struct net_device *add_interface(struct nic *nic, u32 port)
{
	u16 address = pci_dev_id(nic->function);
	u8 mac[ETH_ALEN] = { 0x02, 0, port, 0, address >> 8, address };
	struct net_device *interface = alloc_etherdev(0);
	int error;

	if (!interface)
		return ERR_PTR(-ENOMEM);
	interface->netdev_ops = &interface_operations;
	interface->dev_port = port - 1;
	eth_hw_addr_set(interface, mac);
	SET_NETDEV_DEV(interface, &nic->function->dev);
	if (!nic->ethernet) {
		interface->type = ARPHRD_INFINIBAND;
		strscpy(interface->name, "ib%d", IFNAMSIZ);
	}
	if (nic->states[port - 1] != 'a')
		netif_carrier_off(interface);
	error = register_netdev(interface);
	if (error) {
		free_netdev(interface);
		return ERR_PTR(error);
	}
	return interface;
}

static int parse(struct nic *nic, const char *entry)
{
	char link[4];
	unsigned int gbps;

	if (sscanf(entry, "%3[^:]:%u:%2s", link, &gbps, nic->states) != 3)
		return -EINVAL;
	nic->ethernet = link[0] == 'e';
	/* of the four lanes of a port */
	nic->speed = gbps == 400 ? IB_SPEED_NDR : gbps == 200 ? IB_SPEED_HDR : IB_SPEED_EDR;
	return 0;
}

static int probe(struct pci_dev *function, const struct pci_device_id *id)
{
	unsigned int index = function->subsystem_device;
	struct net_device *interface;
	struct nic *nic;
	char name[16];
	u32 port;
	int error;

	if (index >= count)
		return -ENODEV;
	nic = ib_alloc_device(nic, ib);
	if (!nic)
		return -ENOMEM;
	nic->function = function;
	error = parse(nic, nics[index]);
	if (error)
		goto failed;
	nic->ib.node_type = RDMA_NODE_IB_CA;
	nic->ib.phys_port_cnt = strlen(nic->states);
	nic->ib.num_comp_vectors = 1;
	nic->ib.dev.parent = &function->dev;
	nic->ib.node_guid = guid(function, false);
	ib_set_device_ops(&nic->ib, &operations);
	for (port = 1; port <= nic->ib.phys_port_cnt; port++) {
		interface = add_interface(nic, port);
		error = PTR_ERR_OR_ZERO(interface);
		if (!error && nic->ethernet)
			error = ib_device_set_netdev(&nic->ib, interface, port);
		if (error)
			goto failed;
	}
	snprintf(name, sizeof(name), "mlx5_%u", index);
	error = ib_register_device(&nic->ib, name, &function->dev);
	if (!error)
		return 0;
failed:
	/* interfaces that were added stay: the test that looks for this NIC fails either way */
	dev_err(&function->dev, "`%s`: error %d\n", nics[index], error);
	ib_dealloc_device(&nic->ib);
	return error;
}

static const struct pci_device_id ids[] = { { PCI_DEVICE(PCI_VENDOR_ID_MELLANOX, 0x1021) }, {} };

static struct pci_driver driver = { .name = "rdma_nics", .id_table = ids, .probe = probe };

static int __init start(void)
{
	return pci_register_driver(&driver);
}
module_init(start);
MODULE_LICENSE("GPL");
