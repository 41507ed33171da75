/*
 * A program of UCX's whose two sides meet by IP address, as ucxx and UCX's own ucp_client_server do.
 *
 *   by_address PORT BYTES              waits for one client and takes its message
 *   by_address PORT BYTES ADDRESS      connects there and sends one
 *
 * It prints what became of it, `arrived` or `sent`, or UCX's word for the failure, and ends with 0 only if all went well.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include "ucp_ends.h"

enum { MESSAGE = 1, ANSWER = 2 };

static ucp_conn_request_h asked;

static void on_request(ucp_conn_request_h request, void *arg)
{
	(void)arg;
	asked = request;
}

static ucs_status_t exchange(ucp_ep_h end, char *text, size_t bytes, int sends)
{
	ucp_request_param_t plain = { 0 };
	char answer = 0;
	ucs_status_t status;

	if (!sends) {
		status = end_of(ucp_tag_recv_nbx(worker, text, bytes, MESSAGE, -1, &plain));
		if (status == UCS_OK)
			status = end_of(ucp_tag_send_nbx(end, &answer, 1, ANSWER, &plain));
	} else {
		status = end_of(ucp_tag_send_nbx(end, text, bytes, MESSAGE, &plain));
		if (status == UCS_OK)
			status = end_of(ucp_tag_recv_nbx(worker, &answer, 1, ANSWER, -1, &plain));
	}
	if (status == UCS_OK)
		status = end_of(ucp_ep_flush_nbx(end, &plain));
	return status;
}

int main(int count, char **words)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	ucp_listener_h listener;
	ucp_ep_params_t other = {
		.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
		.err_mode = UCP_ERR_HANDLING_MODE_PEER,
		.err_handler = { on_error, NULL },
	};
	ucp_ep_h end;
	ucs_status_t status;
	time_t last = time(NULL) + SECONDS;

	if (count < 3 || count > 4 || (count == 4 && inet_pton(AF_INET, words[3], &address.sin_addr) != 1))
		return fprintf(stderr, "usage: by_address PORT BYTES [ADDRESS]\n"), 2;
	address.sin_port = htons(atoi(words[1]));
	if ((status = start()))
		return failed("init", status);

	if (count == 3) {
		ucp_listener_params_t listens = {
			.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
			.sockaddr = { (struct sockaddr *)&address, sizeof address },
			.conn_handler = { on_request, NULL },
		};
		if ((status = ucp_listener_create(worker, &listens, &listener)))
			return failed("listen", status);
		printf("listens\n");
		fflush(stdout);
		while (!asked && time(NULL) < last)
			ucp_worker_progress(worker);
		if (!asked)
			return failed("listen", UCS_ERR_TIMED_OUT);
		other.field_mask |= UCP_EP_PARAM_FIELD_CONN_REQUEST;
		other.conn_request = asked;
	} else {
		other.field_mask |= UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
		other.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
		other.sockaddr = (ucs_sock_addr_t){ (struct sockaddr *)&address, sizeof address };
	}
	if ((status = ucp_ep_create(worker, &other, &end)))
		return failed("connect", status);
	if ((status = exchange(end, calloc(1, atoi(words[2])), atoi(words[2]), count == 4)))
		return failed("message", status);
	printf("%s\n", count == 4 ? "sent" : "arrived");
	/* closing at once would look like a failure to a peer that is slower */
	for (last = time(NULL) + 1; time(NULL) <= last;)
		ucp_worker_progress(worker);
	return 0;
}
