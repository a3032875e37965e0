/*
 * A connection manager without hardware: librdmacm over the verbs library of fake_verbs.c, for
 * what no lab has (InfiniBand) and for what goes wrong at one step. Both ends are in one process.
 *
 * It answers from a script, the file that FAKE_RDMACM names. One directive a line:
 *
 *   address ADDRESS DEVICE PORT      which port the address leads to
 *   on CALL errno=N | hang | crash   what becomes of every call of that name
 *   instead EVENT EVENT STATUS [HEX] the second event, with private data, in place of the first
 *   drop EVENT                       it never comes
 *   before EVENT CALL errno=N | hang the same as `on`, once that event has been given
 *   request HEX | -                  a stranger's, to whoever listens: with private data, or none
 *   leaves | silent                  what strangers do once they are accepted; the first is usual
 *   exact                            private data arrives without padding, as on iWARP
 *   gone EVENT                       DEVICE_REMOVAL follows that event
 *
 * UD queue pairs find each other as by SIDR, and join groups (MULTICAST_JOIN attaches them).
 *
 * The file that FAKE_RDMACM_TRACE names gets a line for every call. A misuse aborts: an id or a
 * channel destroyed twice, or with something left on it, an event not acknowledged.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { MAX = 32, REQUEST_BYTES = 56, ANSWER_BYTES = 196, REJECT_BYTES = 148, DATA = 256 };
enum { SIDR_BYTES = 136, SIDR_UNSUPPORTED = 1, SIDR_REJECT = 2 }; /* include/rdma/ib_cm.h */

struct queued {
    struct rdma_cm_event event;
    uint8_t data[DATA];
    struct queued *next;
};

struct fake_channel {
    struct rdma_event_channel channel;
    struct queued *first;
    int unacknowledged, ids;
};

struct fake_id {
    struct rdma_cm_id id;
    struct fake_channel *channel;
    struct fake_id *other; /* of a connection; NULL: a stranger's, or none */
    int listens, is_connected;
    union ibv_gid group; /* that it is in */
    int is_member;
    struct fake_id *next;
};

static struct fake_id *ids;

/* The script. */

static struct {
    char address[64], device[64];
    int port;
} addresses[MAX];
static struct {
    char call[64], after[64], action[16];
    int number;
} rules[MAX];
static struct {
    char event[32], other[32], data[2 * DATA];
    int status;
} changes[MAX];
static char requests[MAX][2 * DATA], seen[MAX][32];
static int address_count, rule_count, change_count, request_count, seen_count;
static int strangers_stay, is_exact;

static const char *const names[] = {
    "ADDR_RESOLVED", "ADDR_ERROR",      "ROUTE_RESOLVED", "ROUTE_ERROR",
    "CONNECT_REQUEST", "CONNECT_RESPONSE", "CONNECT_ERROR",  "UNREACHABLE",
    "REJECTED",      "ESTABLISHED",     "DISCONNECTED",   "DEVICE_REMOVAL",
    "MULTICAST_JOIN", "MULTICAST_ERROR", "ADDR_CHANGE",    "TIMEWAIT_EXIT",
};

static _Noreturn void bad(const char *what)
{
    fprintf(stderr, "fake_rdmacm: %s\n", what);
    abort();
}

static int number_of(const char *name)
{
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (!strcmp(names[i], name))
            return i;
    bad(name);
}

static void read_line(char *line)
{
    char word[32] = "", action[64] = "", *equals;
    if (sscanf(line, "%31s", word) != 1)
        return;
    if (!strcmp(word, "address")) {
        int at = address_count++;
        if (sscanf(line, "%*s %63s %63s %d", addresses[at].address, addresses[at].device,
                   &addresses[at].port) != 3)
            bad(line);
    } else if (!strcmp(word, "on") || !strcmp(word, "before")) {
        int at = rule_count++;
        const char *form = *word == 'o' ? "%*s %63s %63s" : "%*s %*s %63s %63s";
        if (sscanf(line, form, rules[at].call, action) != 2)
            bad(line);
        if (*word == 'b')
            sscanf(line, "%*s %63s", rules[at].after);
        if ((equals = strchr(action, '='))) {
            rules[at].number = atoi(equals + 1);
            *equals = 0;
        }
        snprintf(rules[at].action, sizeof rules[at].action, "%.15s", action);
    } else if (!strcmp(word, "instead") || !strcmp(word, "drop") || !strcmp(word, "gone")) {
        int at = change_count++;
        sscanf(line, "%*s %31s %31s %d %511s", changes[at].event, changes[at].other,
               &changes[at].status, changes[at].data);
        if (*word == 'g')
            strcpy(changes[at].other, "+");
    } else if (!strcmp(word, "request")) {
        sscanf(line, "%*s %511s", requests[request_count++]);
    } else if (!strcmp(word, "silent")) {
        strangers_stay = 1;
    } else if (!strcmp(word, "exact")) {
        is_exact = 1;
    } else if (strcmp(word, "leaves")) {
        bad(line);
    }
}

static void read_script(void)
{
    static int done;
    const char *path = getenv("FAKE_RDMACM");
    char line[1024];
    FILE *file = done++ || !path ? NULL : fopen(path, "re");
    if (!file)
        return;
    while (fgets(line, sizeof line, file))
        read_line(line);
    fclose(file);
}

static int has_seen(const char *event)
{
    if (!*event)
        return 1;
    for (int i = 0; i < seen_count; i++)
        if (!strcmp(seen[i], event))
            return 1;
    return 0;
}

/* 0, or -1 with errno: what the script wants of this call. */
static int refused(const char *call)
{
    read_script();
    const char *path = getenv("FAKE_RDMACM_TRACE");
    int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (file >= 0) {
        dprintf(file, "%s\n", call);
        close(file);
    }
    for (int i = 0; i < rule_count; i++) {
        if (strcmp(rules[i].call, call) || !has_seen(rules[i].after))
            continue;
        if (!strcmp(rules[i].action, "hang"))
            for (;;)
                pause();
        if (!strcmp(rules[i].action, "crash"))
            raise(SIGSEGV);
        errno = rules[i].number;
        return -1;
    }
    return 0;
}

/* Events. */

static uint8_t from_hex(const char *two)
{
    unsigned byte = 0;
    sscanf(two, "%2x", &byte);
    return (uint8_t)byte;
}

/* What the next event of a UD id carries. */
static struct rdma_ud_param next_way;

static void put(struct fake_channel *channel, struct fake_id *id, struct fake_id *listener, int event,
                int status, const void *data, size_t size, size_t padded)
{
    struct queued *made = calloc(1, sizeof *made), **last = &channel->first;
    made->event.id = &id->id;
    made->event.listen_id = listener ? &listener->id : NULL;
    made->event.event = (enum rdma_cm_event_type)event;
    made->event.status = status;
    if (size)
        memcpy(made->data, data, size);
    if (size || padded)
        made->event.param.conn.private_data = made->data;
    made->event.param.conn.private_data_len = (uint8_t)(is_exact ? size : padded);
    if (event == RDMA_CM_EVENT_ESTABLISHED || event == RDMA_CM_EVENT_MULTICAST_JOIN) {
        if (id->id.ps == RDMA_PS_UDP) {
            made->event.param.ud.ah_attr = next_way.ah_attr;
            made->event.param.ud.qp_num = next_way.qp_num;
            made->event.param.ud.qkey = next_way.qkey;
        }
    }
    while (*last)
        last = &(*last)->next;
    *last = made;
    eventfd_write(channel->channel.fd, 1);
}

static void give(struct fake_id *id, struct fake_id *listener, int event, int status,
                 const void *data, size_t size, size_t padded)
{
    struct fake_channel *channel = (listener ? listener : id)->channel;
    snprintf(seen[seen_count++ % MAX], sizeof seen[0], "%s", names[event]);
    for (int i = 0; i < change_count; i++) {
        if (strcmp(changes[i].event, names[event]))
            continue;
        if (!*changes[i].other)
            return;
        if (*changes[i].other == '+') {
            put(channel, id, listener, event, status, data, size, padded);
            put(channel, id, NULL, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL, 0, 0);
            return;
        }
        uint8_t bytes[DATA];
        size_t length = strlen(changes[i].data) / 2;
        for (size_t at = 0; at < length; at++)
            bytes[at] = from_hex(changes[i].data + 2 * at);
        put(channel, id, NULL, number_of(changes[i].other), changes[i].status, bytes, length,
            length ? REJECT_BYTES : 0);
        return;
    }
    put(channel, id, listener, event, status, data, size, padded);
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
    if (refused(__func__))
        return NULL;
    struct fake_channel *made = calloc(1, sizeof *made);
    made->channel.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    return &made->channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    struct fake_channel *fake = (struct fake_channel *)channel;
    refused(__func__);
    if (fake->ids || fake->unacknowledged)
        bad("a channel that is in use");
    close(channel->fd);
    free(fake);
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    struct fake_channel *fake = (struct fake_channel *)channel;
    eventfd_t count;
    if (eventfd_read(channel->fd, &count))
        return -1;
    struct queued *first = fake->first;
    fake->first = first->next;
    fake->unacknowledged++;
    fake->ids += first->event.event == RDMA_CM_EVENT_CONNECT_REQUEST; /* whose id is the user's */
    *event = &first->event;
    return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    struct rdma_cm_id *of = event->listen_id ? event->listen_id : event->id;
    ((struct fake_id *)of)->channel->unacknowledged--;
    free(event);
    return 0;
}

/* Identifiers. */

static struct fake_id *make(struct fake_channel *channel, enum rdma_port_space ps)
{
    struct fake_id *made = calloc(1, sizeof *made);
    made->id.channel = &channel->channel;
    made->id.ps = ps;
    made->id.qp_type = ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
    made->channel = channel;
    made->next = ids;
    return ids = made;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                   enum rdma_port_space ps)
{
    if (refused(__func__))
        return -1;
    *id = &make((struct fake_channel *)channel, ps)->id;
    ((struct fake_channel *)channel)->ids++;
    (*id)->context = context;
    return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
    struct fake_id **at = &ids, *fake = (struct fake_id *)id;
    if (refused(__func__)) {
        fake->channel->ids--; /* it stays, and the channel may go */
        return -1;
    }
    while (*at && *at != fake)
        at = &(*at)->next;
    if (!*at)
        bad("an id that is none");
    if (id->qp || fake->is_member)
        bad("an id with a queue pair, or in a group");
    *at = fake->next;
    fake->channel->ids--;
    if (fake->other && fake->is_connected) /* as the kernel does: cm_destroy_id, core/cm.c */
        give(fake->other, NULL, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0, 0);
    if (fake->other)
        fake->other->other = NULL;
    free(fake);
    return 0;
}

/* Contexts are opened once for each device, and closed at the end, as librdmacm does it. */

static struct {
    char device[64];
    struct ibv_context *context;
} contexts[MAX];
static int context_count;

static struct ibv_context *context_of(const char *device)
{
    for (int i = 0; i < context_count; i++)
        if (!strcmp(contexts[i].device, device))
            return contexts[i].context;
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *found = NULL;
    for (int i = 0; list[i] && !found; i++)
        if (!strcmp(ibv_get_device_name(list[i]), device))
            found = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    strcpy(contexts[context_count].device, device);
    contexts[context_count++].context = found;
    return found;
}

__attribute__((destructor)) static void close_contexts(void)
{
    for (int i = 0; i < context_count; i++)
        ibv_close_device(contexts[i].context);
}

static int is_ethernet(const struct rdma_cm_id *id)
{
    struct ibv_port_attr port;
    ibv_query_port(id->verbs, id->port_num, (void *)&port);
    return port.link_layer == IBV_LINK_LAYER_ETHERNET;
}

static void set_gid(struct rdma_cm_id *id)
{
    ibv_query_gid(id->verbs, id->port_num, is_ethernet(id), &id->route.addr.addr.ibaddr.sgid);
}

static int attach(struct fake_id *id, const struct sockaddr *address)
{
    char text[64];
    if (getnameinfo(address, sizeof(struct sockaddr_in6), text, sizeof text, NULL, 0,
                    NI_NUMERICHOST))
        bad("an address that is none");
    for (int i = 0; i < address_count; i++)
        if (!strcmp(addresses[i].address, text)) {
            id->id.verbs = context_of(addresses[i].device);
            id->id.port_num = (uint8_t)addresses[i].port;
            set_gid(&id->id);
            return 0;
        }
    return ENODEV;
}

static void set_port(struct sockaddr_storage *address)
{
    static uint16_t next = 40000;
    struct sockaddr_in *in = (struct sockaddr_in *)address; /* the port is at one place in both */
    if (!in->sin_port)
        in->sin_port = htons(next++);
}

static size_t length_of(const struct sockaddr *address)
{
    return address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
    if (refused(__func__))
        return -1;
    memcpy(&id->route.addr.src_storage, address, length_of(address));
    set_port(&id->route.addr.src_storage);
    if ((errno = attach((struct fake_id *)id, address)))
        return -1;
    return 0;
}

uint16_t rdma_get_src_port(struct rdma_cm_id *id)
{
    return id->route.addr.src_sin.sin_port;
}

static struct fake_id *requested(struct fake_id *listener, struct fake_id *from, const void *data,
                                 size_t size)
{
    struct fake_id *made = make(listener->channel, listener->id.ps);
    made->id.verbs = listener->id.verbs;
    made->id.port_num = listener->id.port_num;
    made->id.route.addr.addr.ibaddr.sgid = listener->id.route.addr.addr.ibaddr.sgid;
    made->id.route.addr.src_storage = listener->id.route.addr.src_storage;
    if (from)
        made->id.route.addr.dst_storage = from->id.route.addr.src_storage;
    else
        made->id.route.addr.dst_storage = listener->id.route.addr.src_storage;
    made->other = from;
    give(made, listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0, data, size, REQUEST_BYTES);
    return made;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    (void)backlog;
    if (refused(__func__))
        return -1;
    ((struct fake_id *)id)->listens = 1;
    for (int i = 0; i < request_count; i++) {
        uint8_t bytes[DATA];
        size_t size = *requests[i] == '-' ? 0 : strlen(requests[i]) / 2;
        for (size_t at = 0; at < size; at++)
            bytes[at] = from_hex(requests[i] + 2 * at);
        requested((struct fake_id *)id, NULL, bytes, size);
    }
    return 0;
}

/* Addresses. */

int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
                     struct rdma_addrinfo **found)
{
    struct addrinfo wanted = {0}, *got;
    if (refused(__func__))
        return -1;
    wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    wanted.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(node, service, &wanted, &got))
        return -2;
    struct rdma_addrinfo *made = calloc(1, sizeof *made);
    struct sockaddr *copy = calloc(1, sizeof(struct sockaddr_storage));
    memcpy(copy, got->ai_addr, got->ai_addrlen);
    made->ai_port_space = hints->ai_port_space;
    made->ai_qp_type = hints->ai_qp_type;
    if (hints->ai_flags & RAI_PASSIVE) {
        made->ai_src_addr = copy;
        made->ai_src_len = got->ai_addrlen;
    } else {
        made->ai_dst_addr = copy;
        made->ai_dst_len = got->ai_addrlen;
        if (hints->ai_src_len) {
            made->ai_src_addr = calloc(1, sizeof(struct sockaddr_storage));
            memcpy(made->ai_src_addr, hints->ai_src_addr, hints->ai_src_len);
            made->ai_src_len = hints->ai_src_len;
        }
    }
    freeaddrinfo(got);
    *found = made;
    return 0;
}

void rdma_freeaddrinfo(struct rdma_addrinfo *found)
{
    refused(__func__);
    free(found->ai_src_addr);
    free(found->ai_dst_addr);
    free(found);
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *source, struct sockaddr *destination,
                      int milliseconds)
{
    (void)milliseconds;
    if (refused(__func__))
        return -1;
    const struct sockaddr *own = source ? source : destination; /* as if all were this host's */
    memcpy(&id->route.addr.src_storage, own, length_of(own));
    ((struct sockaddr_in *)&id->route.addr.src_storage)->sin_port = 0;
    set_port(&id->route.addr.src_storage);
    memcpy(&id->route.addr.dst_storage, destination, length_of(destination));
    int objection = attach((struct fake_id *)id, own);
    give((struct fake_id *)id, NULL,
         objection ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED, -objection, NULL, 0, 0);
    return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int milliseconds)
{
    (void)milliseconds;
    if (refused(__func__))
        return -1;
    give((struct fake_id *)id, NULL, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0, 0);
    return 0;
}

/* Queue pairs and connections. */

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *wanted)
{
    if (refused(__func__))
        return -1;
    if (!(id->qp = ibv_create_qp(pd, wanted)))
        return -1;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = id->port_num};
    if (id->ps == RDMA_PS_UDP) {
        attr.qkey = RDMA_UDP_QKEY;
        errno = ibv_modify_qp(id->qp, &attr,
                              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
        attr.qp_state = IBV_QPS_RTR;
        if (!errno)
            errno = ibv_modify_qp(id->qp, &attr, IBV_QP_STATE);
        attr.qp_state = IBV_QPS_RTS;
        if (!errno)
            errno = ibv_modify_qp(id->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
        return errno ? -1 : 0;
    }
    attr.qp_access_flags = /* cm_init_qp_init_attr, core/cm.c */
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    errno = ibv_modify_qp(id->qp, &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    return errno ? -1 : 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
    refused(__func__);
    if (!id->qp || ibv_destroy_qp(id->qp))
        bad("no queue pair to destroy");
    id->qp = NULL;
}

static void ready(struct rdma_cm_id *id, const struct rdma_cm_id *other)
{
    struct ibv_port_attr port;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .rq_psn = 7};
    ibv_query_port(id->verbs, id->port_num, (void *)&port);
    attr.dest_qp_num = other ? other->qp->qp_num : 99;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.ah_attr.port_num = id->port_num;
    if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
        attr.ah_attr.is_global = 1;
        attr.ah_attr.grh.sgid_index = 1;
        ibv_query_gid(id->verbs, id->port_num, 1, &attr.ah_attr.grh.dgid);
    } else {
        attr.ah_attr.dlid = port.lid;
    }
    int refusal = ibv_modify_qp(id->qp, &attr,
                                IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .sq_psn = 7, .timeout = 14, .retry_cnt = 6};
    rts.rnr_retry = 7;
    rts.max_rd_atomic = 1;
    refusal |= ibv_modify_qp(id->qp, &rts,
                             IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
    if (refusal)
        bad("a queue pair that does not become ready");
}

static int same_port(const struct rdma_cm_id *listener, const struct rdma_cm_id *id)
{
    return listener->route.addr.src_sin.sin_port == id->route.addr.dst_sin.sin_port;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *wanted)
{
    if (refused(__func__))
        return -1;
    if (wanted->private_data_len > REQUEST_BYTES) {
        errno = EINVAL;
        return -1;
    }
    for (struct fake_id *each = ids; each; each = each->next)
        if (each->listens && each->id.ps == id->ps && same_port(&each->id, id)) {
            struct fake_id *own = (struct fake_id *)id;
            own->other = requested(each, own, wanted->private_data, wanted->private_data_len);
            return 0;
        }
    if (id->ps == RDMA_PS_UDP)
        give((struct fake_id *)id, NULL, RDMA_CM_EVENT_UNREACHABLE, SIDR_UNSUPPORTED, NULL, 0,
             SIDR_BYTES);
    else
        give((struct fake_id *)id, NULL, RDMA_CM_EVENT_REJECTED, 8, NULL, 0, REJECT_BYTES);
    return 0;
}

/* The way from one UD id to another, or to a group. */
static void set_way(const struct rdma_cm_id *from, const struct rdma_cm_id *to,
                    const union ibv_gid *group)
{
    struct ibv_port_attr port;
    ibv_query_port(from->verbs, from->port_num, (void *)&port);
    next_way = (struct rdma_ud_param){.qkey = RDMA_UDP_QKEY};
    next_way.ah_attr.port_num = from->port_num;
    next_way.qp_num = to ? to->qp->qp_num : 0xffffff;
    if (group || is_ethernet(from)) {
        next_way.ah_attr.is_global = 1;
        next_way.ah_attr.grh.sgid_index = (uint8_t)is_ethernet(from);
        next_way.ah_attr.grh.dgid = group ? *group : to->route.addr.addr.ibaddr.sgid;
    }
    if (!is_ethernet(from))
        next_way.ah_attr.dlid = group ? 0xc000 : port.lid;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *wanted)
{
    struct fake_id *own = (struct fake_id *)id, *other = own->other;
    if (refused(__func__))
        return -1;
    if (id->ps == RDMA_PS_UDP) {
        if (other) {
            set_way(&other->id, id, NULL);
            give(other, NULL, RDMA_CM_EVENT_ESTABLISHED, 0, wanted->private_data,
                 wanted->private_data_len, SIDR_BYTES);
        }
        return 0;
    }
    ready(id, other ? &other->id : NULL);
    own->is_connected = 1;
    if (other) {
        ready(&other->id, id);
        other->is_connected = 1;
        give(other, NULL, RDMA_CM_EVENT_ESTABLISHED, 0, wanted->private_data,
             wanted->private_data_len, ANSWER_BYTES);
    }
    give(own, NULL, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0, 0);
    if (!other && !strangers_stay)
        give(own, NULL, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0, 0);
    return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t size)
{
    struct fake_id *other = ((struct fake_id *)id)->other;
    if (refused(__func__))
        return -1;
    if (other && id->ps == RDMA_PS_UDP)
        give(other, NULL, RDMA_CM_EVENT_UNREACHABLE, SIDR_REJECT, data, size, SIDR_BYTES);
    else if (other)
        give(other, NULL, RDMA_CM_EVENT_REJECTED, 28, data, size, REJECT_BYTES);
    return 0;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
    struct fake_id *own = (struct fake_id *)id, *other = own->other;
    if (refused(__func__))
        return -1;
    if (id->ps == RDMA_PS_UDP) {
        errno = EINVAL;
        return -1;
    }
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    if (id->qp)
        ibv_modify_qp(id->qp, &attr, IBV_QP_STATE);
    if (other && own->is_connected) {
        give(other, NULL, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0, 0);
        if (!other->is_connected)
            give(other, NULL, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, NULL, 0, 0);
    }
    own->is_connected = 0;
    return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t size)
{
    (void)id, (void)level, (void)name, (void)value, (void)size;
    return refused(__func__);
}

static union ibv_gid group_of(const struct sockaddr *address)
{
    union ibv_gid group = {.raw = {[10] = 0xff, [11] = 0xff}};
    if (address->sa_family == AF_INET)
        memcpy(group.raw + 12, &((const struct sockaddr_in *)address)->sin_addr, 4);
    else
        memcpy(group.raw, &((const struct sockaddr_in6 *)address)->sin6_addr, 16);
    return group;
}

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *address, void *context)
{
    struct fake_id *own = (struct fake_id *)id;
    (void)context;
    if (refused(__func__))
        return -1;
    if (id->ps != RDMA_PS_UDP || !id->verbs || own->is_member) {
        errno = EINVAL;
        return -1;
    }
    own->group = group_of(address);
    own->is_member = 1;
    if ((errno = ibv_attach_mcast(id->qp, &own->group, 0)))
        return -1;
    set_way(id, NULL, &own->group);
    give(own, NULL, RDMA_CM_EVENT_MULTICAST_JOIN, 0, NULL, 0, 0);
    return 0;
}

int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *address)
{
    struct fake_id *own = (struct fake_id *)id;
    union ibv_gid group = group_of(address);
    if (refused(__func__)) {
        int refusal = errno;
        own->is_member = 0; /* it goes with its id, as in the kernel */
        ibv_detach_mcast(id->qp, &group, 0);
        errno = refusal;
        return -1;
    }
    if (!own->is_member || memcmp(&group, &own->group, sizeof group)) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    own->is_member = 0;
    errno = ibv_detach_mcast(id->qp, &group, 0);
    return errno ? -1 : 0;
}
