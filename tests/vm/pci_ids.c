/* Gives qemu PCI functions with other ids than its own: a library to load into a stock qemu-system with LD_PRELOAD.
 *
 *   PCI_IDS=NAME:MODEL:VENDOR:DEVICE:CLASS:SUBVENDOR:SUBDEVICE[,...]       ids in hexadecimal
 *
 * makes the device type NAME, which is qemu's MODEL with these ids and with PCIe links of 32 GT/s x16.  qemu has no option
 * for either: the ids of a model are constants of its class, and its switches say 2.5 GT/s x1.
 *
 * Debian's qemu exports its symbols, for its modules, so a type can be registered before its main() runs.  Where the ids
 * stand in a class depends on the version, so they are looked for: each model below has a pair that no other bytes of its
 * class have.  That keeps this file free of qemu's headers; it was run with 7.2.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* TypeInfo of qemu's include/qom/object.h */
struct type_info {
	const char *name, *parent;
	size_t instance_size, instance_align;
	void (*instance_init)(void *), (*instance_post_init)(void *), (*instance_finalize)(void *);
	bool abstract;
	size_t class_size;
	void (*class_init)(void *class, void *data), (*class_base_init)(void *class, void *data);
	void *class_data, *interfaces;
};

typedef uint32_t read_config_fn(void *device, uint32_t address, int length);

/* The end of PCIDeviceClass of qemu's include/hw/pci/pci_device.h, from here on alike in the versions that we know */
struct class_part {
	read_config_fn *read_config;
	void *write_config;
	uint16_t vendor, device;
	uint8_t revision;
	uint16_t class, subvendor, subdevice;
};

static const struct { const char *name; uint16_t vendor, device; } models[] = {
	{ "bochs-display", 0x1234, 0x1111 },
	{ "e1000e", 0x8086, 0x10d3 },
	{ "pcie-root-port", 0x1b36, 0x000c },
	{ "x3130-upstream", 0x104c, 0x8232 },
	{ "xio3130-downstream", 0x104c, 0x8233 },
};

struct type {
	char name[32], model[32];
	unsigned vendor, device, class, subvendor, subdevice;
	read_config_fn *read_config;
};
static struct type types[64];
static unsigned count;

static void stop(const char *problem, const char *what)
{
	fprintf(stderr, "pci_ids: %s `%s`\n", problem, what);
	exit(2);
}

static void *symbol(const char *name)
{
	void *found = dlsym(RTLD_DEFAULT, name);

	if (!found)
		stop("this qemu does not export", name);
	return found;
}

static struct type *type_of(void *device)
{
	const char *(*name_of)(void *) = symbol("object_get_typename");
	const char *name = name_of(device);
	unsigned i;

	for (i = 0; i < count; i++)
		if (!strcmp(types[i].name, name))
			return &types[i];
	stop("not one of our types:", name);
	return NULL;
}

/* One byte of the configuration space.  Offsets and fields: PCI Express Base Specification, "PCI Express Capability
 * Structure"; generation 5 is 32 GT/s. */
static uint8_t config_byte(void *device, read_config_fn *read, uint32_t address, unsigned express)
{
	const unsigned generation = 5, width = 16;
	uint8_t byte = read(device, address, 1);

	if (!express || address < express)
		return byte;
	switch (address - express) {
	case 0x0c: /* Link Capabilities: maximum */
	case 0x12: /* Link Status: current */
		return generation | (width & 0xf) << 4;
	case 0x0d:
	case 0x13:
		return (byte & 0xfc) | width >> 4;
	case 0x2c: /* Link Capabilities 2: a bit for each generation up to the maximum, from bit 1 */
		return ((1 << generation) - 1) << 1;
	case 0x30: /* Link Control 2: target */
		return (byte & 0xf0) | generation;
	}
	return byte;
}

static uint32_t read_config(void *device, uint32_t address, int length)
{
	read_config_fn *read = type_of(device)->read_config;
	unsigned express = read(device, 0x34, 1) & 0xfc;
	uint32_t value = 0;
	int i;

	/* the list of capabilities: id, next */
	while (express && read(device, express, 1) != 0x10)
		express = read(device, express + 1, 1) & 0xfc;
	for (i = 0; i < length; i++)
		value |= (uint32_t)config_byte(device, read, address + i, express) << 8 * i;
	return value;
}

static void class_init(void *class, void *data)
{
	struct type *type = data;
	unsigned model, offset;

	for (model = 0; strcmp(models[model].name, type->model);)
		if (++model == sizeof(models) / sizeof(models[0]))
			stop("unknown model", type->model);
	/* a class of some hundred bytes, pointers first */
	for (offset = 0; offset < 1024; offset += sizeof(void *)) {
		struct class_part *part = (struct class_part *)((char *)class + offset);

		if (part->vendor != models[model].vendor || part->device != models[model].device)
			continue;
		part->vendor = type->vendor;
		part->device = type->device;
		part->class = type->class;
		part->subvendor = type->subvendor;
		part->subdevice = type->subdevice;
		type->read_config = part->read_config ? part->read_config : symbol("pci_default_read_config");
		part->read_config = read_config;
		return;
	}
	stop("no ids are found in the class of", type->model);
}

__attribute__((constructor)) static void register_types(void)
{
	/* the library is loaded into qemu's helpers too */
	void *(*register_type)(const struct type_info *) = dlsym(RTLD_DEFAULT, "type_register_static");
	char *text = getenv("PCI_IDS"), *entry;

	if (!register_type || !text)
		return;
	text = strdup(text);
	for (entry = strtok(text, ","); entry; entry = strtok(NULL, ",")) {
		struct type *type = &types[count++];
		struct type_info *info = calloc(1, sizeof(*info));

		if (count > sizeof(types) / sizeof(types[0]) ||
		    sscanf(entry, "%31[^:]:%31[^:]:%x:%x:%x:%x:%x", type->name, type->model, &type->vendor, &type->device,
			   &type->class, &type->subvendor, &type->subdevice) != 7)
			stop("too many entries, or a bad one:", entry);
		info->name = type->name;
		info->parent = type->model;
		info->class_init = class_init;
		info->class_data = type;
		register_type(info);
	}
}
