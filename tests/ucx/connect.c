/*
 * A program of UCX's that connects by IP address, to a listener of its own: `connect ADDRESS`.  It prints what became of it,
 * `connected` or UCX's word for the failure, and ends with 0 only if a message arrived.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <time.h>
#include <ucp/api/ucp.h>

enum { SECONDS = 10 };

static ucs_status_t broken = UCS_OK;
static ucp_conn_request_h request;

static void on_error(void *arg, ucp_ep_h end, ucs_status_t status)
{
	(void)arg, (void)end;
	broken = status;
}

static void on_request(ucp_conn_request_h asked, void *arg)
{
	(void)arg;
	request = asked;
}

static void on_end(void *sent, ucs_status_t status, void *arg)
{
	(void)sent;
	*(int *)arg = 1;
	if (status != UCS_OK)
		broken = status;
}

static int failed(const char *what, ucs_status_t status)
{
	printf("%s: %s\n", what, ucs_status_string(status));
	return 1;
}

int main(int count, char **words)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	if (count != 2 || inet_pton(AF_INET, words[1], &address.sin_addr) != 1)
		return fprintf(stderr, "usage: connect ADDRESS\n"), 2;

	ucp_config_t *config;
	ucp_context_h context;
	ucp_params_t wish = { .field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG };
	ucs_status_t status = ucp_config_read(NULL, NULL, &config);
	if (status == UCS_OK)
		status = ucp_init(&wish, config, &context);
	if (status != UCS_OK)
		return failed("init", status);

	ucp_worker_h here, there;
	ucp_worker_params_t plain = { 0 };
	if ((status = ucp_worker_create(context, &plain, &here)) || (status = ucp_worker_create(context, &plain, &there)))
		return failed("worker", status);

	ucp_listener_h listener;
	ucp_listener_params_t listens = {
		.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
		.sockaddr = { (struct sockaddr *)&address, sizeof address },
		.conn_handler = { on_request, NULL },
	};
	if ((status = ucp_listener_create(there, &listens, &listener)))
		return failed("listen", status);
	ucp_listener_attr_t at = { .field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR };
	ucp_listener_query(listener, &at);
	address.sin_port = ((struct sockaddr_in *)&at.sockaddr)->sin_port;

	ucp_ep_h end, other = NULL;
	ucp_ep_params_t connects = {
		.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_ERR_HANDLER |
			      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
		.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
		.sockaddr = { (struct sockaddr *)&address, sizeof address },
		.err_mode = UCP_ERR_HANDLING_MODE_PEER,
		.err_handler = { on_error, NULL },
	};
	if ((status = ucp_ep_create(here, &connects, &end)))
		return failed("connect", status);

	char word[] = "hello", heard[sizeof word];
	int sent = 0, arrived = 0;
	ucp_request_param_t sends = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
		.cb.send = on_end,
		.user_data = &sent,
	};
	void *sending = ucp_tag_send_nbx(end, word, sizeof word, 1, &sends);
	if (UCS_PTR_IS_ERR(sending))
		return failed("send", UCS_PTR_STATUS(sending));

	for (time_t last = time(NULL) + SECONDS; broken == UCS_OK && !arrived && time(NULL) < last;) {
		ucp_worker_progress(here);
		ucp_worker_progress(there);
		if (request && !other) {
			ucp_ep_params_t accepts = { .field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST, .conn_request = request };
			if ((status = ucp_ep_create(there, &accepts, &other)))
				return failed("accept", status);
		}
		ucp_tag_recv_info_t about;
		ucp_tag_message_h message = ucp_tag_probe_nb(there, 1, -1, 1, &about);
		if (message) {
			ucp_request_param_t receives = { 0 };
			void *receiving = ucp_tag_msg_recv_nbx(there, heard, sizeof heard, message, &receives);
			while (UCS_PTR_IS_PTR(receiving) && ucp_request_check_status(receiving) == UCS_INPROGRESS)
				ucp_worker_progress(there);
			arrived = 1;
		}
	}
	if (broken != UCS_OK)
		return failed("connection", broken);
	printf("%s\n", arrived ? "connected" : "nothing arrived");
	return !arrived;
}
