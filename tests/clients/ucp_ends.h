/*
 * What by_address.c and by_worker.c have in common: a worker of UCX's, and how to wait for what it does.
 */
#include <stdio.h>
#include <time.h>
#include <ucp/api/ucp.h>

enum { SECONDS = 40 };

static ucs_status_t broken = UCS_OK;
static ucp_worker_h worker;

static void on_error(void *arg, ucp_ep_h end, ucs_status_t status)
{
	(void)arg, (void)end;
	broken = status;
}

static int failed(const char *what, ucs_status_t status)
{
	printf("%s: %s\n", what, ucs_status_string(status));
	return 1;
}

static ucs_status_t start(void)
{
	ucp_params_t wish = { .field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG };
	ucp_worker_params_t plain = { 0 };
	ucp_config_t *config;
	ucp_context_h context;
	ucs_status_t status = ucp_config_read(NULL, NULL, &config);

	if (status == UCS_OK)
		status = ucp_init(&wish, config, &context);
	if (status == UCS_OK)
		status = ucp_worker_create(context, &plain, &worker);
	return status;
}

/* until the request has ended, or something is broken */
static ucs_status_t end_of(void *request)
{
	ucs_status_t status = UCS_OK;
	time_t last = time(NULL) + SECONDS;

	if (UCS_PTR_IS_ERR(request))
		return UCS_PTR_STATUS(request);
	while (request && (status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
		ucp_worker_progress(worker);
		if (broken != UCS_OK)
			return broken;
		if (time(NULL) > last)
			return UCS_ERR_TIMED_OUT;
	}
	return status;
}
