/*
 * deaf - mounts a file system that answers late or never, and serves it until its standard input ends.
 *
 *   deaf fuse FOLDER LOG             a FUSE file system whose daemon reads each question, notes it in LOG and never answers
 *   deaf autofs FOLDER LOG MS TEXT   automount(8)'s: MS milliseconds after it was asked for a folder below FOLDER it mounts a tmpfs
 *                                    there, with a .nccl.conf of this TEXT if it is not empty; MS -1: never
 *
 * With IN=PID it mounts in the mount namespace of that process, whose /dev may lack /dev/fuse.  Prints "mounted" once it serves.  What a process asks of the first waits uninterruptibly once the daemon has read it, and of
 * the second killably, as for NFS.  After 40 s it ends, and who waits goes on: a test that fails does not hang.  Needs root.  Structures are the kernel's, linux/fuse.h and linux/auto_fs.h.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/auto_fs.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static int note;

static void noted(const char *what, unsigned number)
{
	dprintf(note, "%s %u\n", what, number);
}

static void go_in(void)
{
	char path[64];
	if (!getenv("IN"))
		return;
	snprintf(path, sizeof path, "/proc/%s/ns/mnt", getenv("IN"));
	int mounts = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof path, "/proc/%s/root", getenv("IN"));
	int root = open(path, O_PATH | O_CLOEXEC);
	if (setns(mounts, CLONE_NEWNS) || fchdir(root) || chroot("."))
		err(1, "the namespace of %s", getenv("IN"));
}

/* Waits for something to read; 0 at the end of standard input. */
static int ready(int from)
{
	struct pollfd both[] = { { from, POLLIN, 0 }, { 0, POLLIN, 0 } };
	char byte;
	for (;;) {
		if (poll(both, 2, -1) < 0)
			continue;
		if (both[1].revents && read(0, &byte, 1) <= 0)
			return 0;
		if (both[0].revents)
			return 1;
	}
}

static void fuse(const char *folder)
{
	static union { struct fuse_in_header head; char bytes[256 * 1024]; } question;
	int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char options[128];
	if (device < 0)
		err(1, "/dev/fuse");
	go_in();
	snprintf(options, sizeof options, "fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other", device);
	if (mount("deaf", folder, "fuse.deaf", MS_NOSUID | MS_NODEV, options))
		err(1, "mount %s", folder);
	puts("mounted"), fflush(stdout);
	while (ready(device)) {
		ssize_t got = read(device, &question, sizeof question);
		if (got < (ssize_t)sizeof question.head)
			continue;
		if (question.head.opcode != FUSE_INIT) {
			noted("question", question.head.opcode);
			continue;
		}
		struct { struct fuse_out_header head; struct fuse_init_out init; } answer = {
			.head = { .len = sizeof answer, .unique = question.head.unique },
			.init = { .major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_write = 4096 },
		};
		if (write(device, &answer, sizeof answer) < 0)
			err(1, "init");
	}
	umount2(folder, MNT_DETACH);
}

static void autofs(const char *folder, int milliseconds, const char *text)
{
	int ends[2];
	char options[128], place[4352];
	setpgid(0, 0);
	go_in();
	if (pipe2(ends, O_CLOEXEC | O_DIRECT))
		err(1, "pipe");
	snprintf(options, sizeof options, "fd=%d,pgrp=%d,minproto=5,maxproto=5,indirect", ends[1], getpgrp());
	if (mount("deaf", folder, "autofs", 0, options))
		err(1, "mount %s", folder);
	int top = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	puts("mounted"), fflush(stdout);
	while (ready(ends[0])) {
		struct autofs_v5_packet packet;
		if (read(ends[0], &packet, sizeof packet) < (ssize_t)sizeof packet.hdr)
			continue;
		noted("question", packet.hdr.type);
		if (milliseconds < 0)
			continue;
		usleep(milliseconds * 1000);
		snprintf(place, sizeof place, "%s/%.*s", folder, (int)packet.len, packet.name);
		mkdir(place, 0755);
		if (mount("home", place, "tmpfs", 0, "mode=755"))
			err(1, "mount %s", place);
		if (*text) {
			strcat(place, "/.nccl.conf");
			int file = open(place, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
			dprintf(file, "%s\n", text);
			close(file);
		}
		ioctl(top, AUTOFS_IOC_READY, packet.wait_queue_token);
	}
	umount2(folder, MNT_DETACH);
}

int main(int count, char **words)
{
	if (count < 4)
		errx(2, "fuse FOLDER LOG, or autofs FOLDER LOG MS TEXT");
	alarm(40);
	note = open(words[3], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (!strcmp(words[1], "fuse"))
		fuse(words[2]);
	else
		autofs(words[2], count > 4 ? atoi(words[4]) : -1, count > 5 ? words[5] : "");
	return 0;
}
