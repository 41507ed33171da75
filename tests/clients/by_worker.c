/*
 * A program of UCX's whose two sides know each other's workers, as MPI's ranks and ucx_perftest's sides do: they send each
 * other messages in turn.  It runs with every release of UCX, of which ucx_perftest of some is an MPI program.
 *
 *   by_worker PORT BYTES TIMES             waits for the other
 *   by_worker PORT BYTES TIMES HOST        goes there
 *
 * With HANDLES in the environment it wants to be told of failures, as ucxx and NIXL do: else UCX ends the program.
 * It prints UCX's word for a failure, and ends with 0 only if all went well.
 */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "ucp_ends.h"

/* a connection by TCP, -1 where there is none */
static int meet(const char *host, const char *port)
{
	struct addrinfo wish = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = host ? 0 : AI_PASSIVE };
	struct addrinfo *place;
	time_t last = time(NULL) + SECONDS;
	int listens, other, yes = 1;

	if (getaddrinfo(host, port, &wish, &place))
		return -1;
	if (!host) {
		listens = socket(AF_INET, SOCK_STREAM, 0);
		setsockopt(listens, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
		if (bind(listens, place->ai_addr, place->ai_addrlen) || listen(listens, 1))
			return -1;
		return accept(listens, NULL, NULL);
	}
	for (;;) {
		other = socket(AF_INET, SOCK_STREAM, 0);
		if (!connect(other, place->ai_addr, place->ai_addrlen))
			return other;
		close(other);
		if (time(NULL) > last)
			return -1;
		/* the other may start later */
		usleep(100000);
	}
}

/* each tells the other its worker's address; the other's, NULL if it did not come */
static ucp_address_t *others_address(int other)
{
	ucp_address_t *own, *its;
	size_t length, its_length;

	if (ucp_worker_get_address(worker, &own, &length))
		return NULL;
	if (write(other, &length, sizeof length) < 0 || write(other, own, length) < 0)
		return NULL;
	if (recv(other, &its_length, sizeof its_length, MSG_WAITALL) != sizeof its_length || !(its = malloc(its_length)))
		return NULL;
	return recv(other, its, its_length, MSG_WAITALL) == (ssize_t)its_length ? its : NULL;
}

/* one message each way */
static ucs_status_t turn(ucp_ep_h end, char *out, char *in, size_t bytes, int number, int first)
{
	ucp_request_param_t plain = { 0 };
	ucs_status_t status = UCS_OK;
	int step;

	memset(out, number, bytes);
	memset(in, ~number, bytes);
	for (step = 0; step < 2 && status == UCS_OK; step++) {
		if (step == first)
			status = end_of(ucp_tag_recv_nbx(worker, in, bytes, number, -1, &plain));
		else
			status = end_of(ucp_tag_send_nbx(end, out, bytes, number, &plain));
	}
	return status;
}

int main(int count, char **words)
{
	ucp_ep_params_t to = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .err_handler = { on_error, NULL } };
	ucp_request_param_t plain = { 0 };
	ucp_ep_h end;
	ucs_status_t status;
	size_t bytes;
	char *out, *in, word = 0;
	int i, other;

	if (count < 4 || count > 5)
		return fprintf(stderr, "usage: by_worker PORT BYTES TIMES [HOST]\n"), 2;
	bytes = atol(words[2]);
	out = malloc(bytes);
	in = malloc(bytes);
	if ((status = start()))
		return failed("init", status);
	if ((other = meet(words[4], words[1])) < 0 || !(to.address = others_address(other)))
		return failed("meeting", UCS_ERR_UNREACHABLE);
	if (getenv("HANDLES")) {
		to.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
		to.err_mode = UCP_ERR_HANDLING_MODE_PEER;
	}
	if ((status = ucp_ep_create(worker, &to, &end)))
		return failed("connect", status);
	for (i = 0; i < atoi(words[3]); i++) {
		if ((status = turn(end, out, in, bytes, i & 127, count == 4)))
			return failed("message", status);
		if (in[0] != (i & 127) || in[bytes - 1] != in[0])
			return failed("message", UCS_ERR_MESSAGE_TRUNCATED);
	}
	if ((status = end_of(ucp_ep_flush_nbx(end, &plain))))
		return failed("flush", status);
	/* who ended first would look like a failure to the other */
	if (write(other, &word, 1) < 0)
		return 1;
	while (recv(other, &word, 1, MSG_DONTWAIT) < 0)
		ucp_worker_progress(worker);
	return 0;
}
