/*
 * What fake_verbs.c has above a device: protection domains, memory regions, completion queues
 * and queue pairs.
 *
 * RC and UC queue pairs, and on Darwin UC alone; SEND and RECEIVE, and on Linux WRITE, READ,
 * atomics, immediate and inline data (at most 512 bytes), completion channels, and what
 * fake_datagrams.h has. None of
 * shared receive queues but XRC's, and the states SQD and SQE.
 * ibv_modify_qp wants the attributes that the kernel's qp_state_table wants. As on a Mac, the
 * Darwin layout takes memory that begins with a page, and paths by a GID but not the first.
 * What a closed context had is still counted, for the limits and in the end.
 *
 * A message travels while its post_send runs. It is lost unless both ends name each other's
 * number, are of one type and one path MTU, the receiver has got to RTR, the sender's address
 * (the GID, or without one the LID) is the receiver's port, both ports are ACTIVE and, for RC,
 * the sender's sq_psn is the receiver's rq_psn. The sender of RC learns of a loss by status 12
 * with vendor error 129, of a receiver that posted nothing by 13, at once; the sender of UC
 * learns of nothing. A queue pair of which something failed is in ERR, and its receives flush.
 *
 * Of a completion that failed, only what ibv_poll_cq(3) calls valid is there: the rest is 0xa5.
 * A completion queue that overflows aborts, and so does the end of one with events that were
 * taken and not acknowledged: the real library waits for that for ever.
 */

/* The layout. */

struct ibv_pd {
    struct ibv_context *context;
    uint32_t handle;
};

struct ibv_mr {
    struct ibv_context *context;
    struct ibv_pd *pd;
    void *addr;
    size_t length;
    uint32_t handle;
    uint32_t lkey;
    uint32_t rkey;
};

struct ibv_comp_channel {
    struct ibv_context *context;
    int fd;
    int refcnt;
};

struct ibv_ah {
    struct ibv_context *context;
    struct ibv_pd *pd;
    uint32_t handle;
};

struct ibv_cq {
    struct ibv_context *context;
    struct ibv_comp_channel *channel;
    void *cq_context;
    uint32_t handle;
    int32_t cqe;
    _Alignas(8) char mutex[MUTEX_SIZE];
    _Alignas(8) char cond[48];
    uint32_t comp_events_completed;
    uint32_t async_events_completed;
};

struct ibv_qp {
    struct ibv_context *context;
    void *qp_context;
    struct ibv_pd *pd;
    struct ibv_cq *send_cq;
    struct ibv_cq *recv_cq;
    void *srq;
    uint32_t handle;
    uint32_t qp_num;
    int32_t state;
    int32_t qp_type;
    _Alignas(8) char mutex[MUTEX_SIZE];
    _Alignas(8) char cond[48];
    uint32_t events_completed;
};

struct ibv_qp_cap {
    uint32_t max_send_wr;
    uint32_t max_recv_wr;
    uint32_t max_send_sge;
    uint32_t max_recv_sge;
    uint32_t max_inline_data;
};

struct ibv_qp_init_attr {
    void *qp_context;
    struct ibv_cq *send_cq;
    struct ibv_cq *recv_cq;
    void *srq;
    struct ibv_qp_cap cap;
    int32_t qp_type;
    int32_t sq_sig_all;
};

struct ibv_ah_attr {
    union ibv_gid dgid;
    uint32_t flow_label;
    uint8_t sgid_index;
    uint8_t hop_limit;
    uint8_t traffic_class;
    uint16_t dlid;
    uint8_t sl;
    uint8_t src_path_bits;
    uint8_t static_rate;
    uint8_t is_global;
    uint8_t port_num;
};

struct ibv_qp_attr {
    int32_t qp_state;
    int32_t cur_qp_state;
    int32_t path_mtu;
    int32_t path_mig_state;
    uint32_t qkey;
    uint32_t rq_psn;
    uint32_t sq_psn;
    uint32_t dest_qp_num;
    uint32_t qp_access_flags;
    struct ibv_qp_cap cap;
    struct ibv_ah_attr ah_attr;
    struct ibv_ah_attr alt_ah_attr;
    uint16_t pkey_index;
    uint16_t alt_pkey_index;
    uint8_t en_sqd_async_notify;
    uint8_t sq_draining;
    uint8_t max_rd_atomic;
    uint8_t max_dest_rd_atomic;
    uint8_t min_rnr_timer;
    uint8_t port_num;
    uint8_t timeout;
    uint8_t retry_cnt;
    uint8_t rnr_retry;
    uint8_t alt_port_num;
    uint8_t alt_timeout;
    uint32_t rate_limit;
};

struct ibv_sge {
    uint64_t addr;
    uint32_t length;
    uint32_t lkey;
};

struct ibv_send_wr {
    uint64_t wr_id;
    struct ibv_send_wr *next;
    struct ibv_sge *sg_list;
    int32_t num_sge;
    int32_t opcode;
    uint32_t send_flags;
    uint32_t imm_data;
    union {
        struct {
            uint64_t remote_addr;
            uint32_t rkey;
        } rdma;
        struct {
            uint64_t remote_addr, compare_add, swap;
            uint32_t rkey;
        } atomic;
        struct {
            uint64_t ah;
            uint32_t remote_qpn, remote_qkey;
        } ud;
        uint64_t whole[4];
    } wr;
    uint32_t qp_type;
    uint64_t bind_mw[6];
};

struct ibv_recv_wr {
    uint64_t wr_id;
    struct ibv_recv_wr *next;
    struct ibv_sge *sg_list;
    int32_t num_sge;
};

struct ibv_wc {
    uint64_t wr_id;
    int32_t status;
    int32_t opcode;
    uint32_t vendor_err;
    uint32_t byte_len;
    uint32_t imm_data;
    uint32_t qp_num;
    uint32_t src_qp;
    uint32_t wc_flags;
    uint16_t pkey_index;
    uint16_t slid;
    uint8_t sl;
    uint8_t dlid_path_bits;
};

_Static_assert(sizeof(struct ibv_pd) == 16, "struct ibv_pd");
_Static_assert(sizeof(struct ibv_mr) == 48, "struct ibv_mr");
_Static_assert(sizeof(struct ibv_cq) == 88 + MUTEX_SIZE, "struct ibv_cq");
_Static_assert(offsetof(struct ibv_qp, qp_num) == 52, "struct ibv_qp");
_Static_assert(sizeof(struct ibv_qp) == 120 + MUTEX_SIZE, "struct ibv_qp");
_Static_assert(sizeof(struct ibv_qp_init_attr) == 64, "struct ibv_qp_init_attr");
_Static_assert(sizeof(struct ibv_ah_attr) == 32, "struct ibv_ah_attr");
_Static_assert(sizeof(struct ibv_qp_attr) == 144, "struct ibv_qp_attr");
_Static_assert(sizeof(struct ibv_sge) == 16, "struct ibv_sge");
_Static_assert(sizeof(struct ibv_send_wr) == 128, "struct ibv_send_wr");
_Static_assert(sizeof(struct ibv_recv_wr) == 32, "struct ibv_recv_wr");
_Static_assert(sizeof(struct ibv_wc) == 48, "struct ibv_wc");

/* The numbers of infiniband/verbs.h. */

enum { PORT_ACTIVE = 4, LINK_ETHERNET = 2 };
enum { RC = 2, UC = 3, UD = 4, RAW_PACKET = 8, XRC_SEND = 9, XRC_RECV = 10 };
enum { AUTO_PATH_MIG = 1 << 4, XRC = 1 << 20, FLOW_STEERING = 1 << 29 }; /* device_cap_flags */
enum { MIGRATED, REARM, ARMED, PATH_MIG_EVENT = 6 };
enum { RESET, INIT, RTR, RTS, SQD, SQE, ERR, ANY_STATE = -1 };
enum { LOCAL_WRITE = 1 << 0, REMOTE_WRITE = 1 << 1, REMOTE_READ = 1 << 2, REMOTE_ATOMIC = 1 << 3 };
enum { SEND_FENCE = 1 << 0, SEND_SIGNALED = 1 << 1, SEND_SOLICITED = 1 << 2, SEND_INLINE = 1 << 3 };
enum { SEND_IP_CSUM = 1 << 4 };
enum { WR_WRITE, WR_WRITE_IMM, WR_SEND, WR_SEND_IMM, WR_READ, WR_CMP_SWAP, WR_FETCH_ADD };
enum { WC_SEND, WC_WRITE, WC_READ, WC_CMP_SWAP, WC_FETCH_ADD, WC_RECV = 1 << 7, WC_RECV_IMM };
enum { WC_WITH_IMM = 1 << 1 };

enum { /* attributes of ibv_modify_qp */
    STATE = 1 << 0,
    CUR_STATE = 1 << 1,
    ACCESS_FLAGS = 1 << 3,
    PKEY_INDEX = 1 << 4,
    PORT = 1 << 5,
    QKEY = 1 << 6,
    AV = 1 << 7,
    PATH_MTU = 1 << 8,
    TIMEOUT = 1 << 9,
    RETRY_CNT = 1 << 10,
    RNR_RETRY = 1 << 11,
    RQ_PSN = 1 << 12,
    MAX_QP_RD_ATOMIC = 1 << 13,
    ALT_PATH = 1 << 14,
    MIN_RNR_TIMER = 1 << 15,
    SQ_PSN = 1 << 16,
    MAX_DEST_RD_ATOMIC = 1 << 17,
    PATH_MIG_STATE = 1 << 18,
    DEST_QPN = 1 << 20,
};

#define STATUSES(_)                                                                          \
    _(SUCCESS, "success")                                                                    \
    _(LOC_LEN, "local length error")                                                         \
    _(LOC_QP_OP, "local QP operation error")                                                 \
    _(LOC_EEC_OP, "local EE context operation error")                                        \
    _(LOC_PROT, "local protection error")                                                    \
    _(WR_FLUSH, "Work Request Flushed Error")                                                \
    _(MW_BIND, "memory management operation error")                                          \
    _(BAD_RESP, "bad response error")                                                        \
    _(LOC_ACCESS, "local access error")                                                      \
    _(REM_INV_REQ, "remote invalid request error")                                           \
    _(REM_ACCESS, "remote access error")                                                     \
    _(REM_OP, "remote operation error")                                                      \
    _(RETRY_EXC, "transport retry counter exceeded")                                         \
    _(RNR_RETRY_EXC, "RNR retry counter exceeded")                                           \
    _(LOC_RDD_VIOL, "local RDD violation error")                                             \
    _(REM_INV_RD_REQ, "remote invalid RD request")                                           \
    _(REM_ABORT, "aborted error")                                                            \
    _(INV_EECN, "invalid EE context number")                                                 \
    _(INV_EEC_STATE, "invalid EE context state")                                             \
    _(FATAL, "fatal error")                                                                  \
    _(RESP_TIMEOUT, "response timeout error")                                                \
    _(GENERAL, "general error")                                                              \
    _(TM, "TM error")                                                                        \
    _(TM_RNDV_INCOMPLETE, "TM software rendezvous")

#define STATUS(name, text) name,
enum { STATUSES(STATUS) };

/* Errno, where the systems differ; 0: no error there. */
#ifdef DARWIN
enum { WRONG_TYPE = 102, TOO_MANY_QPS = 16, EMPTY_GID = 96, GID_ZERO = 60 };
#else
enum { WRONG_TYPE = 95, TOO_MANY_QPS = 12, EMPTY_GID = 61, GID_ZERO = 0 };
#endif

/* Objects. */

enum { MAX_SGE = 32, MAX_INLINE = 512, MAX_CQ_EVENTS = 64 };

struct fake_ah {
    struct ibv_ah ah;
    struct ibv_ah_attr attr;
};

struct fake_mr {
    struct ibv_mr mr;
    int access;
};

struct completion {
    struct ibv_wc wc;
    struct fake_qp *qp;
    uint32_t sends; /* that leave the send queue with it */
    struct completion *next;
};

enum { UNARMED, SOLICITED, ANY };

struct fake_cq {
    struct ibv_cq cq;
    struct completion *first;
    int armed;
    uint32_t unacknowledged; /* events that were taken */
};

struct fake_channel {
    struct ibv_comp_channel channel;
    int in; /* a byte for each event goes in here, and comes out of fd */
    struct ibv_cq *events[MAX_CQ_EVENTS];
    int event_count;
};

struct receive {
    uint64_t wr_id;
    struct receive *next;
    int sge_count;
    struct ibv_sge sges[MAX_SGE];
};

struct fake_qp {
    struct ibv_qp qp;
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    struct fake_port *port; /* from INIT on */
    uint32_t sends;         /* in the send queue */
    uint32_t unsignaled;    /* of these, without a completion yet */
    uint32_t receive_count;
    struct receive *receives;
    struct ibv_xrcd *xrcd; /* of XRC_RECV, which has neither pd nor cqs */
};

struct message {
    size_t size;
    uint8_t bytes[];
};

static struct receive *append_receive(struct receive **last, const struct ibv_recv_wr *wr);
static int deliver(struct fake_qp *receiver, const struct message *message,
                   const struct ibv_send_wr *wr);
static int scatter(const struct fake_qp *qp, const struct receive *receive,
                   const struct message *message);
#ifndef DARWIN
static int has_flow(const void *qp);
static int is_member(const struct fake_qp *qp, const union ibv_gid *group);
static void transmit_datagram(struct fake_qp *from, const struct message *message,
                              const struct ibv_send_wr *wr);
static int uses(const struct handle *handle, const void *object);
static void transmit_raw(const struct message *message, const struct ibv_send_wr *wr);
static int transmit_xrc(struct fake_qp *sender, struct fake_qp *receiver,
                        const struct message *message, const struct ibv_send_wr *wr);
#endif
static void no_event_left(const void *object, const char *call);
static void queue_event(const struct ibv_context *context, int type, void *object, int port);

/* No two objects share a number, so that one taken for another is noticed. */
static uint32_t next_number(void)
{
    static uint32_t last = 16;
    return ++last;
}

static int exceeds(int64_t value, int64_t limit)
{
    return limit && value > limit;
}

static struct fake_device *owner(enum kind kind, const void *object, const char *call)
{
    granted(kind, object, call);
    return opened(*(struct ibv_context *const *)object, call);
}

/* An object, which begins with its context; NULL if the device has no more. */
static void *create(enum kind kind, size_t size, struct ibv_context *context, int limit, int error)
{
    const struct fake_device *device = (const struct fake_device *)context->device;
    if (exceeds(live(kind, device) + 1, limit)) {
        errno = error;
        return NULL;
    }
    struct ibv_context **object = grant(kind, device, size);
    *object = context;
    return object;
}

static int in_use(const void *object)
{
    for (const struct handle *handle = handles; handle; handle = handle->next) {
        const struct ibv_mr *mr = handle->memory;
        const struct ibv_qp *qp = handle->memory;
        if (!handle->live)
            continue;
#ifndef DARWIN
        if (uses(handle, object))
            return 1;
#endif
        if (handle->kind == MR && mr->pd == object)
            return 1;
        if (handle->kind == QP &&
            (qp->pd == object || qp->send_cq == object || qp->recv_cq == object))
            return 1;
        if (handle->kind == CQ && ((const struct ibv_cq *)handle->memory)->channel == object)
            return 1;
        if (handle->kind == AH && ((const struct ibv_ah *)handle->memory)->pd == object)
            return 1;
    }
    return 0;
}

static int destroy(enum kind kind, void *object, const char *call)
{
    int refused = refusal(call, owner(kind, object, call));
    if (refused)
        return refused;
    if (in_use(object))
        return EBUSY;
    retire(kind, object, call);
    return 0;
}

/* Protection domains and memory regions. */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct fake_device *device = opened(context, __func__);
    if (refusal(__func__, device))
        return NULL;
    struct ibv_pd *pd = create(PD, sizeof *pd, context, device->attr.max_pd, ENOMEM);
    if (pd)
        pd->handle = next_number();
    return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    return destroy(PD, pd, __func__);
}

static int can_register(const struct fake_device *device, const void *memory, size_t size,
                        int access)
{
    uintptr_t first = (uintptr_t)memory;
    uint64_t limit = device->attr.max_mr_size;
#ifdef DARWIN
    if (first % (uintptr_t)getpagesize())
        return 0;
#endif
    if (access & (REMOTE_WRITE | REMOTE_ATOMIC) && !(access & LOCAL_WRITE))
        return 0;
    return size && first + size > first && !(limit && size > limit);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *memory, size_t size, int access)
{
    struct fake_device *device = owner(PD, pd, __func__);
    if (refusal(__func__, device))
        return NULL;
    if (!can_register(device, memory, size, access)) {
        errno = EINVAL;
        return NULL;
    }
    struct fake_mr *made = create(MR, sizeof *made, pd->context, device->attr.max_mr, ENOMEM);
    if (!made)
        return NULL;
    made->access = access;
    made->mr.pd = pd;
    made->mr.addr = memory;
    made->mr.length = size;
    made->mr.handle = next_number();
    made->mr.lkey = next_number() << 8;
    made->mr.rkey = next_number() << 8;
    return &made->mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    return destroy(MR, mr, __func__);
}

static int covers(const struct fake_mr *made, const struct ibv_sge *sge)
{
    uint64_t offset = sge->addr - (uintptr_t)made->mr.addr; /* huge, if it is before it */
    return offset <= made->mr.length && sge->length <= made->mr.length - offset;
}

static int may_touch(const struct fake_qp *qp, const struct ibv_sge *sge, int access)
{
    for (const struct handle *handle = handles; handle; handle = handle->next) {
        const struct fake_mr *made = handle->memory;
        if (handle->live && handle->kind == MR && made->mr.lkey == sge->lkey)
            return made->mr.pd == qp->qp.pd && covers(made, sge) &&
                   (made->access & access) == access;
    }
    return 0;
}

/* Completion channels. */

#ifndef DARWIN
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct fake_device *device = opened(context, __func__);
    int ends[2];
    if (refusal(__func__, device) || pipe2(ends, O_CLOEXEC))
        return NULL;
    struct fake_channel *made = create(CHANNEL, sizeof *made, context, 0, 0);
    made->channel.fd = ends[0];
    made->in = ends[1];
    return &made->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    int fd = channel->fd, in = ((struct fake_channel *)channel)->in;
    int refused = destroy(CHANNEL, channel, __func__);
    if (!refused) {
        close(fd);
        close(in);
    }
    return refused;
}

static struct ibv_cq *take_event(struct fake_channel *channel, int at)
{
    struct ibv_cq *cq = channel->events[at];
    channel->event_count--;
    memmove(channel->events + at, channel->events + at + 1,
            (size_t)(channel->event_count - at) * sizeof cq);
    return cq;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    char byte;
    if (refusal(__func__, owner(CHANNEL, channel, __func__)) || read(channel->fd, &byte, 1) != 1)
        return -1;
    *cq = take_event((struct fake_channel *)channel, 0);
    *cq_context = (*cq)->cq_context;
    ((struct fake_cq *)*cq)->unacknowledged++;
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
    refusal(__func__, owner(CQ, cq, __func__));
    if (count > ((struct fake_cq *)cq)->unacknowledged)
        misuse(__func__, "more events than were taken from the channel of a ", kinds[CQ]);
    ((struct fake_cq *)cq)->unacknowledged -= count;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    int refused = refusal(__func__, owner(CQ, cq, __func__));
    if (!refused)
        ((struct fake_cq *)cq)->armed = solicited_only ? SOLICITED : ANY;
    return refused;
}

int ibv_resize_cq(struct ibv_cq *cq, int size)
{
    int refused = refusal(__func__, owner(CQ, cq, __func__)), count = 0;
    for (struct completion *each = ((struct fake_cq *)cq)->first; each; each = each->next)
        count++;
    if (refused || size < 1 || size < count)
        return refused ? refused : EINVAL;
    cq->cqe = size;
    return 0;
}

static void make_event(struct fake_cq *cq)
{
    struct fake_channel *channel = (struct fake_channel *)cq->cq.channel;
    if (!channel || channel->event_count == MAX_CQ_EVENTS || write(channel->in, "", 1) != 1)
        abort();
    channel->events[channel->event_count++] = &cq->cq;
    cq->armed = UNARMED;
}

/* Those that nobody took go with their queue. */
static void end_events(struct fake_cq *cq)
{
    struct fake_channel *channel = (struct fake_channel *)cq->cq.channel;
    char byte;
    if (cq->unacknowledged)
        misuse("ibv_destroy_cq", "would wait for ever for acknowledgements of events of a ",
               kinds[CQ]);
    for (int at = channel ? channel->event_count - 1 : -1; at >= 0; at--)
        if (channel->events[at] == &cq->cq && read(channel->channel.fd, &byte, 1) == 1)
            take_event(channel, at);
}
#endif

/* Completion queues. */

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int size, void *cq_context,
                             struct ibv_comp_channel *channel, int vector)
{
    struct fake_device *device = opened(context, __func__);
#ifdef DARWIN
    int has_channel = !channel;
#else
    int has_channel = !channel || owner(CHANNEL, channel, __func__) == device;
#endif
    if (refusal(__func__, device))
        return NULL;
    if (size < 1 || exceeds(size, device->attr.max_cqe) || !has_channel || vector < 0 ||
        vector >= context->num_comp_vectors) {
        errno = EINVAL;
        return NULL;
    }
    struct fake_cq *made = create(CQ, sizeof *made, context, device->attr.max_cq, ENOMEM);
    if (!made)
        return NULL;
    made->cq.cq_context = cq_context;
    made->cq.channel = channel;
    made->cq.handle = next_number();
    made->cq.cqe = size;
    return &made->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
#ifndef DARWIN
    granted(CQ, cq, __func__);
    if (!in_use(cq))
        end_events((struct fake_cq *)cq);
#endif
    return destroy(CQ, cq, __func__);
}

static struct ibv_wc failure(uint64_t wr_id, uint32_t qp_num, int status, uint32_t vendor)
{
    struct ibv_wc wc;
    memset(&wc, 0xa5, sizeof wc);
    wc.wr_id = wr_id;
    wc.qp_num = qp_num;
    wc.status = status;
    wc.vendor_err = vendor;
    return wc;
}

static struct ibv_wc outcome(const struct fake_qp *qp, uint64_t wr_id, int status)
{
    if (status)
        return failure(wr_id, qp->qp.qp_num, status, status == RETRY_EXC ? 129 : 0);
    return (struct ibv_wc){.wr_id = wr_id, .qp_num = qp->qp.qp_num};
}

static void complete(struct fake_qp *qp, struct ibv_cq *cq, struct ibv_wc wc, uint32_t sends,
                     int solicited)
{
    struct completion *made = malloc(sizeof *made), **last = &((struct fake_cq *)cq)->first;
    int count = 0;
    for (; *last; last = &(*last)->next)
        count++;
    if (count == cq->cqe)
        misuse("completion", "no room left in the ", kinds[CQ]);
    if (!made)
        abort();
    *made = (struct completion){wc, qp, sends, NULL};
    *last = made;
#ifndef DARWIN
    int armed = ((struct fake_cq *)cq)->armed;
    if (armed == ANY || (armed == SOLICITED && (solicited || wc.status)))
        make_event((struct fake_cq *)cq);
#else
    (void)solicited;
#endif
}

static struct ibv_wc take_first(struct fake_cq *cq)
{
    struct completion *first = cq->first;
    struct ibv_wc wc = first->wc;
    cq->first = first->next;
    if (first->qp) /* NULL: of a shared receive queue */
        first->qp->sends -= first->sends;
    free(first);
    return wc;
}

static void forget_completions(struct ibv_cq *cq, const struct fake_qp *qp)
{
    struct completion **place = &((struct fake_cq *)cq)->first;
    while (cq && *place) {
        struct completion *completion = *place;
        if (completion->qp != qp) {
            place = &completion->next;
            continue;
        }
        *place = completion->next;
        free(completion);
    }
}

static int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
    struct fake_device *device = owner(CQ, cq, __func__);
    struct fake_cq *fake = (struct fake_cq *)cq;
    int refused = refusal(__func__, device), count = 0;
    if (refused)
        return refused;
    for (; count < room && fake->first; count++) {
        wc[count] = take_first(fake);
        const struct rule *told = change(COMPLETE_AS, device);
        if (told)
            wc[count] = failure(wc[count].wr_id, wc[count].qp_num, (int)told->number,
                                (uint32_t)told->vendor);
    }
    return count;
}

#ifndef DARWIN
const char *ibv_wc_status_str(int status)
{
#define STATUS_TEXT(name, text) text,
    static const char *const texts[] = {STATUSES(STATUS_TEXT)};
    if (refusal(__func__, NULL))
        return NULL;
    return status < 0 || status > TM_RNDV_INCOMPLETE ? "unknown" : texts[status];
}
#endif

/* The life of a queue pair. */

static int objection_to_creation(const struct ibv_device_attr *limits,
                                 const struct ibv_qp_init_attr *wish)
{
    const struct ibv_qp_cap *cap = &wish->cap;
#ifdef DARWIN
    if (wish->qp_type != UC)
        return WRONG_TYPE;
    uint32_t most_inline = 0;
#else
    uint32_t most_inline = MAX_INLINE;
#endif
    uint32_t flags = limits->device_cap_flags;
    if (wish->qp_type != UC && wish->qp_type != RC &&
        !(wish->qp_type == UD && limits->max_mcast_grp) &&
        !(wish->qp_type == XRC_SEND && flags & XRC) &&
        !(wish->qp_type == RAW_PACKET && flags & FLOW_STEERING))
        return WRONG_TYPE;
    if (wish->srq || cap->max_inline_data > most_inline)
        return EINVAL;
    if (exceeds(cap->max_send_wr, limits->max_qp_wr) ||
        exceeds(cap->max_recv_wr, limits->max_qp_wr))
        return EINVAL;
    if (exceeds(cap->max_send_sge, limits->max_sge) || exceeds(cap->max_recv_sge, limits->max_sge))
        return EINVAL;
    return exceeds(cap->max_send_sge, MAX_SGE) || exceeds(cap->max_recv_sge, MAX_SGE) ? EINVAL : 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *wish)
{
    struct fake_device *device = owner(PD, pd, __func__);
    granted(CQ, wish->send_cq, __func__);
    granted(CQ, wish->recv_cq, __func__);
    if (wish->send_cq->context != pd->context || wish->recv_cq->context != pd->context)
        misuse(__func__, "of another context: a ", kinds[CQ]);
    if (refusal(__func__, device))
        return NULL;
    int objection = objection_to_creation(&device->attr, wish);
    if (objection) {
        errno = objection;
        return NULL;
    }
    struct fake_qp *made = create(QP, sizeof *made, pd->context, device->attr.max_qp, TOO_MANY_QPS);
    if (!made)
        return NULL;
    made->init = *wish;
    made->qp.qp_context = wish->qp_context;
    made->qp.pd = pd;
    made->qp.send_cq = wish->send_cq;
    made->qp.recv_cq = wish->recv_cq;
    made->qp.handle = next_number();
    made->qp.qp_num = next_number();
    made->qp.qp_type = wish->qp_type;
    return &made->qp;
}

static struct receive *take_receive(struct fake_qp *qp)
{
    struct receive *first = qp->receives;
    qp->receives = first->next;
    qp->receive_count--;
    return first;
}

static void reset(struct fake_qp *qp)
{
    while (qp->receives)
        free(take_receive(qp));
    forget_completions(qp->qp.send_cq, qp);
    forget_completions(qp->qp.recv_cq, qp);
    qp->sends = qp->unsignaled = 0;
    qp->attr = (struct ibv_qp_attr){0};
    qp->port = NULL;
}

static void enter_error(struct fake_qp *qp)
{
    qp->qp.state = ERR;
    while (qp->receives) {
        struct receive *receive = take_receive(qp);
        complete(qp, qp->qp.recv_cq, outcome(qp, receive->wr_id, WR_FLUSH), 0, 0);
        free(receive);
    }
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    int refused = refusal(__func__, owner(QP, qp, __func__));
    no_event_left(qp, __func__);
#ifndef DARWIN
    if (!refused && (has_flow(qp) || is_member((struct fake_qp *)qp, NULL)))
        refused = EBUSY;
#endif
    if (refused)
        return refused;
    reset((struct fake_qp *)qp);
    retire(QP, qp, __func__);
    return 0;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
                 struct ibv_qp_init_attr *init)
{
    const struct fake_qp *fake = (const struct fake_qp *)qp;
    int refused = refusal(__func__, owner(QP, qp, __func__));
    (void)mask; /* what was not asked for may be there */
    if (refused)
        return refused;
    *init = fake->init;
    *attr = fake->attr;
    attr->qp_state = attr->cur_qp_state = qp->state;
    attr->cap = fake->init.cap;
    return 0;
}

/* Transitions. */

static const struct transition {
    int from, to;
    int needs, needs_for_rc;
    int allows, allows_for_rc;
} transitions[] = {
    {RESET, INIT, PKEY_INDEX | PORT | ACCESS_FLAGS, 0, 0, 0},
    {INIT, INIT, 0, 0, PKEY_INDEX | PORT | ACCESS_FLAGS, 0},
    {INIT, RTR, AV | PATH_MTU | DEST_QPN | RQ_PSN, MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER,
     PKEY_INDEX | ACCESS_FLAGS, 0},
    {RTR, RTS, SQ_PSN, TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC,
     CUR_STATE | ACCESS_FLAGS, MIN_RNR_TIMER},
    {RTS, RTS, 0, 0, CUR_STATE | ACCESS_FLAGS, MIN_RNR_TIMER | ALT_PATH | PATH_MIG_STATE},
    {INIT, ERR, 0, 0, 0, 0},
    {RTR, ERR, 0, 0, 0, 0},
    {RTS, ERR, 0, 0, 0, 0},
    {ERR, ERR, 0, 0, 0, 0},
    {ANY_STATE, RESET, 0, 0, 0, 0},
};

static const char *const arrivals[] = {
    [RESET] = "modify_qp_to_reset", [INIT] = "modify_qp_to_init", [RTR] = "modify_qp_to_rtr",
    [RTS] = "modify_qp_to_rts",     [ERR] = "modify_qp_to_err",
};

#define ATTRIBUTE(bit, member)                                                                     \
    {bit, offsetof(struct ibv_qp_attr, member), SIZE_OF(ibv_qp_attr, member)}

static const struct {
    int bit;
    size_t offset, size;
} attributes[] = {
    ATTRIBUTE(ACCESS_FLAGS, qp_access_flags),
    ATTRIBUTE(PKEY_INDEX, pkey_index),
    ATTRIBUTE(PORT, port_num),
    ATTRIBUTE(QKEY, qkey),
    ATTRIBUTE(AV, ah_attr),
    ATTRIBUTE(PATH_MTU, path_mtu),
    ATTRIBUTE(TIMEOUT, timeout),
    ATTRIBUTE(RETRY_CNT, retry_cnt),
    ATTRIBUTE(RNR_RETRY, rnr_retry),
    ATTRIBUTE(RQ_PSN, rq_psn),
    ATTRIBUTE(MAX_QP_RD_ATOMIC, max_rd_atomic),
    ATTRIBUTE(MIN_RNR_TIMER, min_rnr_timer),
    ATTRIBUTE(SQ_PSN, sq_psn),
    ATTRIBUTE(MAX_DEST_RD_ATOMIC, max_dest_rd_atomic),
    ATTRIBUTE(DEST_QPN, dest_qp_num),
    ATTRIBUTE(ALT_PATH, alt_ah_attr),
    ATTRIBUTE(PATH_MIG_STATE, path_mig_state),
};

static const struct transition *find_transition(int from, int to)
{
    for (size_t i = 0; i < sizeof transitions / sizeof *transitions; i++)
        if ((transitions[i].from == from || transitions[i].from == ANY_STATE) &&
            transitions[i].to == to)
            return &transitions[i];
    return NULL;
}

static int objection_to_path(struct fake_device *device, const struct ibv_ah_attr *path)
{
    struct fake_port *port = find_port(device, path->port_num);
    static const union ibv_gid empty;
#ifdef DARWIN
    int needs_gid = 1;
#else
    int needs_gid = port && port->attr.link_layer == LINK_ETHERNET;
#endif
    if (!port || (needs_gid && !path->is_global))
        return EINVAL;
    if (!path->is_global)
        return 0;
    if (path->sgid_index >= port->attr.gid_tbl_len)
        return EINVAL;
    if (!path->sgid_index && GID_ZERO)
        return GID_ZERO;
    const struct fake_gid *source = find_gid(port, path->sgid_index);
    return source && memcmp(&source->entry.gid, &empty, sizeof empty) ? 0 : EMPTY_GID;
}

#ifndef DARWIN
/* Address handles. */

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct fake_device *device = owner(PD, pd, __func__);
    if (refusal(__func__, device))
        return NULL;
    int objection = objection_to_path(device, attr);
    if (objection) {
        errno = objection;
        return NULL;
    }
    struct fake_ah *made = create(AH, sizeof *made, pd->context, device->attr.max_ah, ENOMEM);
    if (!made)
        return NULL;
    made->ah.pd = pd;
    made->attr = *attr;
    return &made->ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
    return destroy(AH, ah, __func__);
}

/*
 * Back to the source of a GRH: version, length and hops in 8 bytes, its GID, the GID it went to;
 * or of an IPv4 header in its last 20 bytes. InfiniBand does without.
 */
int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_number, const struct ibv_wc *wc,
                        const uint8_t *grh, struct ibv_ah_attr *attr)
{
    struct fake_device *device = opened(context, __func__);
    const struct fake_port *port = find_port(device, port_number);
    int refused = refusal(__func__, device);
    int is_global = wc->wc_flags & 1;
    if (refused || !port || wc->status ||
        (!is_global && port->attr.link_layer == LINK_ETHERNET))
        return refused ? refused : EINVAL;
    memset(attr, 0, sizeof *attr);
    uint8_t gids[2][16] = {{[10] = 0xff, [11] = 0xff}, {[10] = 0xff, [11] = 0xff}};
    if (grh[0] >> 4 != 6 && grh[20] == 0x45) {
        memcpy(gids[0] + 12, grh + 32, 4);
        memcpy(gids[1] + 12, grh + 36, 4);
    } else
        memcpy(gids, grh + 8, sizeof gids);
    if (is_global) {
        memcpy(&attr->dgid, gids[0], sizeof attr->dgid);
        for (const struct fake_gid *gid = port->gids; gid; gid = gid->next)
            if (!memcmp(&gid->entry.gid, gids[1], sizeof attr->dgid))
                attr->sgid_index = (uint8_t)gid->entry.gid_index;
        attr->is_global = 1;
        attr->hop_limit = 0xff;
    }
    attr->dlid = wc->slid;
    attr->sl = wc->sl;
    attr->port_num = port_number;
    return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, const struct ibv_wc *wc, const uint8_t *grh,
                                     uint8_t port_number)
{
    struct ibv_ah_attr attr;
    int refused = ibv_init_ah_from_wc(pd->context, port_number, wc, grh, &attr);
    if (refused) {
        errno = refused;
        return NULL;
    }
    return ibv_create_ah(pd, &attr);
}
#endif

static int objection_to_values(struct fake_device *device, const struct fake_qp *qp,
                               const struct ibv_qp_attr *attr, int mask)
{
    const struct fake_port *port = mask & PORT ? find_port(device, attr->port_num) : qp->port;
    const struct ibv_device_attr *limits = &device->attr;
    if (mask & CUR_STATE && attr->cur_qp_state != qp->qp.state)
        return EINVAL;
    if (mask & (PORT | PKEY_INDEX | PATH_MTU) && !port)
        return EINVAL;
    if (mask & PKEY_INDEX && attr->pkey_index && attr->pkey_index >= port->attr.pkey_tbl_len)
        return EINVAL;
    if (mask & PATH_MTU && (attr->path_mtu < 1 || attr->path_mtu > 5 ||
                            exceeds(attr->path_mtu, port->attr.max_mtu)))
        return EINVAL;
    if (mask & MAX_DEST_RD_ATOMIC && exceeds(attr->max_dest_rd_atomic, limits->max_qp_rd_atom))
        return EINVAL;
    if (mask & MAX_QP_RD_ATOMIC && exceeds(attr->max_rd_atomic, limits->max_qp_init_rd_atom))
        return EINVAL;
    if (mask & (ALT_PATH | PATH_MIG_STATE)) {
        /* verbs.c of the kernel: "Today the core code can only handle alternate paths and APM
         * for IB". */
        if (!(limits->device_cap_flags & AUTO_PATH_MIG) || qp->port->attr.link_layer == LINK_ETHERNET)
            return EINVAL;
        if (mask & PATH_MIG_STATE && attr->path_mig_state == MIGRATED &&
            qp->attr.path_mig_state != ARMED)
            return EINVAL;
    }
    return mask & AV ? objection_to_path(device, &attr->ah_attr) : 0;
}

static int objection_to_mask(const struct fake_qp *qp, int to, int mask)
{
    const struct transition *found = find_transition(qp->qp.state, to);
    if (!found)
        return EINVAL;
    int type = qp->qp.qp_type, rc = type == RC, needs = found->needs;
    const int of_sender = TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC;
    const int of_receiver = MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER | TIMEOUT;
    if (type == RAW_PACKET)
        needs &= to == INIT ? PORT : 0;
    else if (type == UD)
        needs = to == INIT ? PKEY_INDEX | PORT | QKEY : to == RTS ? SQ_PSN : 0;
    else if (type != UC)
        needs |= found->needs_for_rc &
                 (type == XRC_SEND ? of_sender : type == XRC_RECV ? of_receiver : ~0);
    int allows = found->allows | (rc ? found->allows_for_rc : 0) | needs | STATE;
    return needs & ~mask || mask & ~allows ? EINVAL : 0;
}

static void change_attributes(struct fake_device *device, struct fake_qp *qp,
                              const struct ibv_qp_attr *attr, int mask)
{
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (mask & attributes[i].bit)
            memcpy((char *)&qp->attr + attributes[i].offset,
                   (const char *)attr + attributes[i].offset, attributes[i].size);
    if (mask & PORT)
        qp->port = find_port(device, attr->port_num);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    struct fake_device *device = owner(QP, qp, __func__);
    struct fake_qp *fake = (struct fake_qp *)qp;
    int to = mask & STATE ? attr->qp_state : qp->state;
    int refused = refusal(__func__, device);
    if (!refused && to >= RESET && to <= ERR && arrivals[to])
        refused = refusal(arrivals[to], device);
    if (!refused)
        refused = objection_to_mask(fake, to, mask);
    if (!refused)
        refused = objection_to_values(device, fake, attr, mask);
    if (refused)
        return refused;
    change_attributes(device, fake, attr, mask);
    qp->state = to;
    if (to == RESET)
        reset(fake);
    if (to == ERR)
        enter_error(fake);
    return 0;
}

/* Messages. */

static int is_address_of(const struct fake_port *port, const struct ibv_ah_attr *path)
{
    if (!path->is_global)
        return path->dlid == port->attr.lid;
    for (const struct fake_gid *gid = port->gids; gid; gid = gid->next)
        if (!memcmp(&gid->entry.gid, &path->dgid, sizeof path->dgid))
            return 1;
    return 0;
}

static int hears(const struct fake_qp *receiver, const struct fake_qp *sender)
{
    const struct ibv_qp *to = &receiver->qp, *from = &sender->qp;
    return to->qp_num == sender->attr.dest_qp_num && from->qp_num == receiver->attr.dest_qp_num &&
           (to->state == RTR || to->state == RTS) &&
           to->qp_type == (from->qp_type == XRC_SEND ? XRC_RECV : from->qp_type) &&
           receiver->attr.path_mtu == sender->attr.path_mtu &&
           (to->qp_type == UC || receiver->attr.rq_psn == sender->attr.sq_psn) &&
           receiver->port->attr.state == PORT_ACTIVE && sender->port->attr.state == PORT_ACTIVE &&
           is_address_of(receiver->port, &sender->attr.ah_attr);
}

static struct fake_qp *find_receiver(const struct fake_qp *sender)
{
    for (struct handle *handle = handles; handle; handle = handle->next)
        if (handle->live && handle->kind == QP && hears(handle->memory, sender))
            return handle->memory;
    return NULL;
}

static struct message *gather(const struct fake_qp *qp, const struct ibv_send_wr *wr)
{
    size_t size = 0;
    for (int i = 0; i < wr->num_sge; i++) {
        if (!(wr->send_flags & SEND_INLINE) && !may_touch(qp, &wr->sg_list[i], 0))
            return NULL;
        size += wr->sg_list[i].length;
    }
    struct message *message = malloc(sizeof *message + size);
    if (!message)
        abort();
    message->size = 0;
    for (int i = 0; i < wr->num_sge; i++) {
        const struct ibv_sge *sge = &wr->sg_list[i];
        memcpy(message->bytes + message->size, (const void *)(uintptr_t)sge->addr, sge->length);
        message->size += sge->length;
    }
    return message;
}

static int scatter(const struct fake_qp *qp, const struct receive *receive,
                   const struct message *message)
{
    size_t done = 0;
    for (int i = 0; i < receive->sge_count && done < message->size; i++) {
        const struct ibv_sge *sge = &receive->sges[i];
        size_t left = message->size - done, part = left < sge->length ? left : sge->length;
        if (!may_touch(qp, sge, LOCAL_WRITE))
            return LOC_PROT;
        memcpy((void *)(uintptr_t)sge->addr, message->bytes + done, part);
        done += part;
    }
    return done < message->size ? LOC_LEN : SUCCESS;
}

/* What the sender would hear of it over a reliable connection. */
static int deliver(struct fake_qp *receiver, const struct message *message,
                   const struct ibv_send_wr *wr)
{
    int has_immediate = wr->opcode == WR_SEND_IMM || wr->opcode == WR_WRITE_IMM;
    if (!receiver)
        return RETRY_EXC;
    if (!receiver->receives)
        return RNR_RETRY_EXC;
    struct receive *receive = take_receive(receiver);
    int status = wr->opcode == WR_WRITE_IMM ? SUCCESS : scatter(receiver, receive, message);
    struct ibv_wc wc = outcome(receiver, receive->wr_id, status);
    free(receive);
    if (!status) {
        wc.opcode = wr->opcode == WR_WRITE_IMM ? WC_RECV_IMM : WC_RECV;
        wc.byte_len = (uint32_t)message->size;
        wc.wc_flags = has_immediate ? WC_WITH_IMM : 0;
        wc.imm_data = has_immediate ? wr->imm_data : 0;
    }
    complete(receiver, receiver->qp.recv_cq, wc, 0, wr->send_flags & SEND_SOLICITED);
    if (status)
        enter_error(receiver);
    return status == LOC_LEN ? REM_INV_REQ : status == LOC_PROT ? REM_OP : SUCCESS;
}

/* Memory that the receiver lets the sender have; NULL: none. */
static void *reach(const struct fake_qp *receiver, uint64_t address, uint32_t rkey, size_t size,
                   int access)
{
    const struct ibv_sge whole = {address, (uint32_t)size, 0};
    if (!(receiver->attr.qp_access_flags & (uint32_t)access))
        return NULL;
    for (const struct handle *handle = handles; handle; handle = handle->next) {
        const struct fake_mr *made = handle->memory;
        if (handle->live && handle->kind == MR && made->mr.rkey == rkey)
            return made->mr.pd == receiver->qp.pd && covers(made, &whole) && made->access & access
                       ? (void *)(uintptr_t)address
                       : NULL;
    }
    return NULL;
}

static int refuse_access(struct fake_qp *receiver)
{
    enter_error(receiver);
    return REM_ACCESS;
}

static int write_there(struct fake_qp *receiver, const struct ibv_send_wr *wr,
                       const struct message *message)
{
    void *place = receiver ? reach(receiver, wr->wr.rdma.remote_addr, wr->wr.rdma.rkey,
                                   message->size, REMOTE_WRITE)
                           : NULL;
    if (!receiver)
        return RETRY_EXC;
    if (!place)
        return refuse_access(receiver);
    memcpy(place, message->bytes, message->size);
    return wr->opcode == WR_WRITE_IMM ? deliver(receiver, message, wr) : SUCCESS;
}

/* READ and atomics: what stands at the receiver comes back, in the buffers of the request. */
static int bring_back(struct fake_qp *receiver, const struct fake_qp *qp, const struct ibv_send_wr *wr,
                 struct message *message)
{
    int is_read = wr->opcode == WR_READ;
    uint64_t address = is_read ? wr->wr.rdma.remote_addr : wr->wr.atomic.remote_addr;
    uint32_t rkey = is_read ? wr->wr.rdma.rkey : wr->wr.atomic.rkey;
    struct receive back = {.sge_count = wr->num_sge};
    if (!receiver)
        return RETRY_EXC;
    if (!is_read && (address % sizeof(uint64_t) || message->size != sizeof(uint64_t)))
        return REM_INV_REQ;
    uint64_t *place =
        reach(receiver, address, rkey, message->size, is_read ? REMOTE_READ : REMOTE_ATOMIC);
    if (!place)
        return refuse_access(receiver);
    memcpy(message->bytes, place, message->size);
    memcpy(back.sges, wr->sg_list, (size_t)wr->num_sge * sizeof *back.sges);
    if (wr->opcode == WR_FETCH_ADD)
        *place += wr->wr.atomic.compare_add;
    if (wr->opcode == WR_CMP_SWAP && *place == wr->wr.atomic.compare_add)
        *place = wr->wr.atomic.swap;
    return scatter(qp, &back, message);
}

static int move_bytes(struct fake_qp *receiver, const struct fake_qp *qp,
                      const struct ibv_send_wr *wr, struct message *message)
{
    switch (wr->opcode) {
    case WR_SEND:
    case WR_SEND_IMM: return deliver(receiver, message, wr);
    case WR_WRITE:
    case WR_WRITE_IMM: return write_there(receiver, wr, message);
    default: return bring_back(receiver, qp, wr, message);
    }
}

/* Two ends that have loaded a path are armed by a message; one follows when the other migrates. */
static void follow_migration(struct fake_qp *sender, struct fake_qp *receiver)
{
    int *from = &sender->attr.path_mig_state, *to = &receiver->attr.path_mig_state;
    if (*from == REARM && *to == REARM)
        *from = *to = ARMED;
    else if (*from == MIGRATED && *to == ARMED) {
        *to = MIGRATED;
        queue_event(receiver->qp.context, PATH_MIG_EVENT, &receiver->qp, 0);
    }
}

static int transmit(struct fake_device *device, struct fake_qp *qp, const struct ibv_send_wr *wr)
{
    struct message *message = gather(qp, wr);
    if (!message)
        return LOC_PROT;
    int corrupt = !!change(CORRUPT, device), drop = !!change(DROP, device);
    if (corrupt && message->size)
        message->bytes[message->size - 1] ^= 0xff;
    int has_peer = qp->qp.qp_type != RAW_PACKET && qp->qp.qp_type != UD;
    struct fake_qp *receiver = drop || !has_peer ? NULL : find_receiver(qp);
    int status = SUCCESS;
#ifndef DARWIN
    if (qp->qp.qp_type == RAW_PACKET) {
        if (!drop)
            transmit_raw(message, wr);
    } else if (qp->qp.qp_type == UD) {
        if (!drop)
            transmit_datagram(qp, message, wr);
    } else if (qp->qp.qp_type == XRC_SEND)
        status = transmit_xrc(qp, receiver, message, wr);
    else
#endif
        status = move_bytes(receiver, qp, wr, message);
    if (receiver)
        follow_migration(qp, receiver);
    free(message);
    return qp->qp.qp_type == RC || qp->qp.qp_type == XRC_SEND ? status : SUCCESS;
}

static int objection_to_send(const struct fake_qp *qp, const struct ibv_send_wr *wr)
{
    if (qp->qp.state != RTS && qp->qp.state != ERR)
        return EINVAL;
    int reads = qp->qp.qp_type == RC || qp->qp.qp_type == XRC_SEND;
    int is_raw = qp->qp.qp_type == RAW_PACKET;
    int is_ud = qp->qp.qp_type == UD;
    int first = is_raw || is_ud ? WR_SEND : WR_WRITE;
    int last = is_raw ? WR_SEND : reads ? WR_FETCH_ADD : WR_SEND_IMM;
    uint32_t flags = SEND_FENCE | SEND_SIGNALED | SEND_SOLICITED | SEND_INLINE;
#ifdef DARWIN
    if (wr->opcode != WR_SEND || wr->send_flags & SEND_INLINE)
        return EINVAL;
#endif
    if (wr->opcode < first || wr->opcode > last ||
        wr->send_flags & ~(flags | (is_raw ? SEND_IP_CSUM : 0)))
        return EINVAL;
    if (wr->num_sge < 0 || wr->num_sge > (int)qp->init.cap.max_send_sge)
        return EINVAL;
    size_t size = 0;
    for (int i = 0; i < wr->num_sge; i++)
        size += wr->sg_list[i].length;
    if (is_ud && size > 128u << qp->port->attr.active_mtu)
        return EINVAL;
    if (wr->send_flags & SEND_INLINE &&
        (size > qp->init.cap.max_inline_data || wr->opcode >= WR_READ))
        return EINVAL;
    return qp->sends >= qp->init.cap.max_send_wr ? ENOMEM : 0;
}

static int send_one(struct fake_device *device, struct fake_qp *qp, const struct ibv_send_wr *wr)
{
    int objection = objection_to_send(qp, wr);
    if (objection)
        return objection;
    qp->sends++;
    qp->unsignaled++;
    int status = qp->qp.state == ERR ? WR_FLUSH : transmit(device, qp, wr);
    if (status || qp->init.sq_sig_all || wr->send_flags & SEND_SIGNALED) {
        static const int opcodes[] = {WC_WRITE, WC_WRITE,    WC_SEND,     WC_SEND,
                                      WC_READ,  WC_CMP_SWAP, WC_FETCH_ADD};
        struct ibv_wc wc = outcome(qp, wr->wr_id, status);
        if (!status)
            wc.opcode = opcodes[wr->opcode];
        for (int i = 0; !status && wr->opcode >= WR_READ && i < wr->num_sge; i++)
            wc.byte_len += wr->sg_list[i].length;
        complete(qp, qp->qp.send_cq, wc, qp->unsignaled, 0);
        qp->unsignaled = 0;
    }
    if (status)
        enter_error(qp);
    return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
    struct fake_device *device = owner(QP, qp, __func__);
    int error = refusal(__func__, device);
    while (!error && wr)
        if (!(error = send_one(device, (struct fake_qp *)qp, wr)))
            wr = wr->next;
    if (error)
        *bad_wr = wr;
    return error;
}

static int objection_to_receive(const struct fake_qp *qp, const struct ibv_recv_wr *wr)
{
    if (qp->qp.state == RESET)
        return EINVAL;
    if (wr->num_sge < 0 || wr->num_sge > (int)qp->init.cap.max_recv_sge)
        return EINVAL;
    return qp->receive_count >= qp->init.cap.max_recv_wr ? ENOMEM : 0;
}

static struct receive *append_receive(struct receive **last, const struct ibv_recv_wr *wr)
{
    struct receive *made = calloc(1, sizeof *made);
    if (!made)
        abort();
    made->wr_id = wr->wr_id;
    made->sge_count = wr->num_sge;
    if (wr->num_sge)
        memcpy(made->sges, wr->sg_list, (size_t)wr->num_sge * sizeof *made->sges);
    while (*last)
        last = &(*last)->next;
    return *last = made;
}

static int receive_one(struct fake_qp *qp, const struct ibv_recv_wr *wr)
{
    int objection = objection_to_receive(qp, wr);
    if (objection)
        return objection;
    append_receive(&qp->receives, wr);
    qp->receive_count++;
    if (qp->qp.state == ERR)
        enter_error(qp);
    return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
    int error = refusal(__func__, owner(QP, qp, __func__));
    while (!error && wr)
        if (!(error = receive_one((struct fake_qp *)qp, wr)))
            wr = wr->next;
    if (error)
        *bad_wr = wr;
    return error;
}

#ifndef DARWIN
#include "fake_datagrams.h"
#endif
#include "fake_rare.h"
