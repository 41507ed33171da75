/* Holds queue pairs, as programs do: opens every RDMA device that it may, connects COUNT pairs of queue pairs on DEVICE with one another,
 * without sending, and sleeps.
 *
 *   holder DEVICE COUNT [thread]      COUNT 0: opens the devices and no more; `thread`: a thread makes them and ends
 */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct ibv_context *device;
static int count;

static void check(int holds, const char *what)
{
    if (!holds) {
        perror(what);
        exit(1);
    }
}

/* of an IPv4 address, which has a route */
static int index_of_gid(union ibv_gid *gid)
{
    for (int index = 0; index < 8; index++)
        if (!ibv_query_gid(device, 1, index, gid) && gid->raw[10] == 0xff && gid->raw[11] == 0xff)
            return index;
    return -1;
}

static void connect_to(struct ibv_qp *pair, struct ibv_qp *peer, const union ibv_gid *gid, int index)
{
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    struct ibv_qp_attr receive = {.qp_state = IBV_QPS_RTR,
                                  .path_mtu = IBV_MTU_1024,
                                  .dest_qp_num = peer->qp_num,
                                  .max_dest_rd_atomic = 1,
                                  .min_rnr_timer = 12,
                                  .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .sgid_index = index, .hop_limit = 1}}};
    struct ibv_qp_attr send = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};

    check(!ibv_modify_qp(pair, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
    check(!ibv_modify_qp(pair, &receive, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
    check(!ibv_modify_qp(pair, &send, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                         IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

static void *hold(void *unused)
{
    struct ibv_pd *domain = ibv_alloc_pd(device);
    struct ibv_cq *queue = ibv_create_cq(device, 4, NULL, NULL, 0);
    union ibv_gid gid;
    int index = index_of_gid(&gid);

    check(domain && queue && index >= 0, "domain");
    for (int n = 0; n < count; n++) {
        struct ibv_qp_init_attr wanted = {.send_cq = queue, .recv_cq = queue, .qp_type = IBV_QPT_RC,
                                          .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
        struct ibv_qp *one = ibv_create_qp(domain, &wanted), *other = ibv_create_qp(domain, &wanted);

        check(one && other, "queue pair");
        connect_to(one, other, &gid, index);
        connect_to(other, one, &gid, index);
    }
    return unused;
}

int main(int arguments, char **argument)
{
    int devices;
    struct ibv_device **all = ibv_get_device_list(&devices);

    check(arguments > 2 && all, "holder DEVICE COUNT [thread]");
    count = atoi(argument[2]);
    for (int n = 0; n < devices; n++) {
        struct ibv_context *context = ibv_open_device(all[n]);

        /* a device cgroup may deny it */
        if (context && strcmp(ibv_get_device_name(all[n]), argument[1]) == 0)
            device = context;
    }
    check(device != NULL, argument[1]);
    if (arguments > 3) {
        pthread_t thread;

        check(!pthread_create(&thread, NULL, hold, NULL) && !pthread_join(thread, NULL), "thread");
    } else if (count > 0) {
        hold(NULL);
    }
    puts("holds");
    fflush(stdout);
    sleep(600);
    return 0;
}
