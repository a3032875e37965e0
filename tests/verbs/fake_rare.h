/*
 * What soft RoCE refuses, and a fake device has: XRC, raw packets and flow rules, alternate
 * paths; and asynchronous events.
 *
 * XRC is there with IBV_DEVICE_XRC in device_cap_flags: SEND, WRITE, READ and atomics, which
 * the receive queue's number leads to its protection domain. Raw packets are there with
 * IBV_DEVICE_MANAGED_FLOW_STEERING: a frame comes to the queue pair that a rule of any device
 * names for it, else to nobody. A rule that could take somebody's traffic aborts. Alternate
 * paths are there with IBV_DEVICE_AUTO_PATH_MIG, on InfiniBand as in the kernel: armed by a
 * message once both ends have loaded one, migrated when the other end has.
 */

/* Asynchronous events: a byte in a pipe for each, which is the context's async_fd. */

enum { MAX_CONTEXTS = 64, MAX_EVENTS = 512 };

struct ibv_async_event {
    union {
        void *object;
        int port_num;
    } element;
    int event_type;
};

static struct {
    const struct ibv_context *context;
    int fds[2];
} pipes[MAX_CONTEXTS];
static int pipe_count;

static struct {
    const struct ibv_context *context;
    struct ibv_async_event event;
    enum { WAITING, TAKEN, ACKNOWLEDGED } state;
} events[MAX_EVENTS];
static int event_count;

static void open_events(struct ibv_context *context)
{
    if (pipe_count == MAX_CONTEXTS || pipe(pipes[pipe_count].fds))
        abort();
    pipes[pipe_count].context = context;
    context->async_fd = pipes[pipe_count++].fds[0];
}

static void close_events(const struct ibv_context *context)
{
    for (int i = 0; i < pipe_count; i++)
        if (pipes[i].context == context) {
            close(pipes[i].fds[0]);
            close(pipes[i].fds[1]);
            pipes[i].context = NULL;
        }
}

static void queue_event(const struct ibv_context *context, int type, void *object, int port)
{
    for (int i = 0; i < pipe_count; i++)
        if (pipes[i].context == context) {
            if (event_count == MAX_EVENTS || write(pipes[i].fds[1], "", 1) != 1)
                abort();
            events[event_count].context = context;
            events[event_count].event.event_type = type;
            if (object)
                events[event_count].event.element.object = object;
            else
                events[event_count].event.element.port_num = port;
            event_count++;
        }
}

/* By a rule of the script: of the newest queue pair of the device, or of port 1. */
static void event_by_rule(const struct fake_device *device, int type)
{
    void *qp = NULL;
    int of_port = (type >= 9 && type <= 13) || type == 17 || type == 18;
    for (struct handle *handle = handles; handle && !qp; handle = handle->next)
        if (handle->live && handle->kind == QP && handle->device == device)
            qp = handle->memory;
    for (struct handle *handle = handles; handle; handle = handle->next)
        if (handle->live && handle->kind == CONTEXT && handle->device == device &&
            (of_port || !qp || ((struct ibv_qp *)qp)->context == handle->memory))
            queue_event(handle->memory, type, of_port ? NULL : qp, of_port);
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    char byte;
    int refused = refusal(__func__, opened(context, __func__));
    if (refused)
        return refused;
    if (read(context->async_fd, &byte, 1) != 1)
        return -1;
    for (int i = 0; i < event_count; i++)
        if (events[i].context == context && events[i].state == WAITING) {
            events[i].state = TAKEN;
            *event = events[i].event;
            return 0;
        }
    abort();
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    refusal(__func__, NULL);
    for (int i = 0; i < event_count; i++)
        if (events[i].state == TAKEN && events[i].event.event_type == event->event_type &&
            events[i].event.element.object == event->element.object) {
            events[i].state = ACKNOWLEDGED;
            return;
        }
    misuse(__func__, "an event that nobody took", "");
}

/* The real library waits for ever. */
static void no_event_left(const void *object, const char *call)
{
    for (int i = 0; i < event_count; i++)
        if (events[i].event.element.object == object && events[i].state == TAKEN)
            misuse(call, "an event of it is not acknowledged", "");
}

#ifndef DARWIN

/* XRC. */

struct ibv_xrcd {
    struct ibv_context *context;
};

struct ibv_xrcd_init_attr {
    uint32_t comp_mask;
    int fd;
    int oflags;
};

struct ibv_srq {
    struct ibv_context *context;
    void *srq_context;
    struct ibv_pd *pd;
    uint32_t handle;
    _Alignas(8) char mutex[MUTEX_SIZE];
    _Alignas(8) char cond[48];
    uint32_t events_completed;
};

struct ibv_srq_init_attr_ex {
    void *srq_context;
    uint32_t max_wr, max_sge, srq_limit;
    uint32_t comp_mask;
    int32_t srq_type;
    struct ibv_pd *pd;
    struct ibv_xrcd *xrcd;
    struct ibv_cq *cq;
    uint32_t tm_cap[2];
};

struct ibv_qp_init_attr_ex {
    struct ibv_qp_init_attr basic; /* its padding is where comp_mask is */
    struct ibv_pd *pd;
    struct ibv_xrcd *xrcd;
    uint64_t rest[7];
};

_Static_assert(sizeof(struct ibv_srq_init_attr_ex) == 64, "struct ibv_srq_init_attr_ex");
_Static_assert(offsetof(struct ibv_qp_init_attr_ex, pd) == 64, "struct ibv_qp_init_attr_ex");
_Static_assert(sizeof(struct ibv_qp_init_attr_ex) == 136, "struct ibv_qp_init_attr_ex");

struct fake_srq {
    struct ibv_srq srq;
    struct ibv_cq *cq;
    struct ibv_xrcd *xrcd;
    uint32_t number, room, count;
    struct receive *receives;
};

enum { SRQ_OF_XRC = 1, SRQ_INIT_ALL = 15, QP_INIT_XRCD = 2 };

static struct ibv_xrcd *open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *wish)
{
    if (refusal("ibv_open_xrcd", opened(context, "ibv_open_xrcd")))
        return NULL;
    if (wish->comp_mask != 3 || wish->fd != -1 || !(wish->oflags & O_CREAT)) {
        errno = EINVAL;
        return NULL;
    }
    return create(XRCD, sizeof(struct ibv_xrcd), context, 0, ENOMEM);
}

static int close_xrcd(struct ibv_xrcd *xrcd)
{
    return destroy(XRCD, xrcd, "ibv_close_xrcd");
}

static struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *wish)
{
    if (refusal("ibv_create_srq_ex", opened(context, "ibv_create_srq_ex")))
        return NULL;
    if (wish->comp_mask != SRQ_INIT_ALL || wish->srq_type != SRQ_OF_XRC || !wish->max_wr) {
        errno = EINVAL;
        return NULL;
    }
    granted(PD, wish->pd, "ibv_create_srq_ex");
    granted(CQ, wish->cq, "ibv_create_srq_ex");
    granted(XRCD, wish->xrcd, "ibv_create_srq_ex");
    struct fake_srq *made = create(SRQ, sizeof *made, context, 0, ENOMEM);
    made->srq.pd = wish->pd;
    made->srq.handle = next_number();
    made->cq = wish->cq;
    made->xrcd = wish->xrcd;
    made->number = next_number();
    made->room = wish->max_wr;
    return &made->srq;
}

static int get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
    int refused = refusal("ibv_get_srq_num", owner(SRQ, srq, "ibv_get_srq_num"));
    if (!refused)
        *number = ((struct fake_srq *)srq)->number;
    return refused;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
    struct fake_srq *fake = (struct fake_srq *)srq;
    granted(SRQ, srq, __func__);
    struct receive *first = fake->receives;
    int refused = destroy(SRQ, srq, __func__);
    while (!refused && first) {
        struct receive *next = first->next;
        free(first);
        first = next;
    }
    return refused;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
    struct fake_srq *fake = (struct fake_srq *)srq;
    int error = refusal(__func__, owner(SRQ, srq, __func__));
    for (; !error && wr; wr = error ? wr : wr->next) {
        error = fake->count == fake->room ? ENOMEM : wr->num_sge < 0 || wr->num_sge > 1 ? EINVAL : 0;
        if (error)
            break;
        append_receive(&fake->receives, wr);
        fake->count++;
    }
    if (error)
        *bad_wr = wr;
    return error;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *wish)
{
    struct fake_device *device = opened(context, "ibv_create_qp_ex");
    uint32_t mask;
    memcpy(&mask, (char *)&wish->basic + 60, sizeof mask);
    if (refusal("ibv_create_qp_ex", device))
        return NULL;
    if (wish->basic.qp_type != XRC_RECV || mask != QP_INIT_XRCD) {
        errno = EINVAL;
        return NULL;
    }
    granted(XRCD, wish->xrcd, "ibv_create_qp_ex");
    struct fake_qp *made = create(QP, sizeof *made, context, device->attr.max_qp, TOO_MANY_QPS);
    if (!made)
        return NULL;
    made->xrcd = wish->xrcd;
    made->qp.handle = next_number();
    made->qp.qp_num = next_number();
    made->qp.qp_type = XRC_RECV;
    return &made->qp;
}

static struct fake_srq *srq_of(const struct fake_qp *receiver, uint32_t number)
{
    for (struct handle *handle = handles; handle; handle = handle->next) {
        struct fake_srq *srq = handle->memory;
        if (handle->live && handle->kind == SRQ && srq->number == number &&
            srq->xrcd == receiver->xrcd)
            return srq;
    }
    return NULL;
}

/* Memory of the target; NULL where the key, the range or the rights do not fit. */
static char *far_memory(const struct fake_qp *receiver, const struct fake_srq *srq,
                        uint64_t address, size_t size, uint32_t rkey, int access)
{
    for (const struct handle *handle = handles; handle; handle = handle->next) {
        const struct fake_mr *made = handle->memory;
        if (!handle->live || handle->kind != MR || made->mr.rkey != rkey)
            continue;
        struct ibv_sge whole = {address, (uint32_t)size, 0};
        int allowed = made->access & receiver->attr.qp_access_flags & access;
        return made->mr.pd == srq->srq.pd && covers(made, &whole) && allowed
                   ? (char *)(uintptr_t)address
                   : NULL;
    }
    return NULL;
}

static int receive_by(struct fake_qp *receiver, struct fake_srq *srq, const struct message *message,
                      const struct ibv_send_wr *wr)
{
    if (!srq->receives)
        return RNR_RETRY_EXC;
    struct receive *receive = srq->receives;
    struct fake_qp scope = {.qp.pd = srq->srq.pd};
    int with_imm = wr->opcode == WR_SEND_IMM || wr->opcode == WR_WRITE_IMM;
    int written = wr->opcode == WR_WRITE_IMM;
    srq->receives = receive->next;
    srq->count--;
    int status = written ? SUCCESS : scatter(&scope, receive, message);
    struct ibv_wc wc = outcome(receiver, receive->wr_id, status);
    free(receive);
    if (!status) {
        wc.opcode = written ? WC_RECV_IMM : WC_RECV;
        wc.byte_len = (uint32_t)message->size;
        wc.wc_flags = with_imm ? WC_WITH_IMM : 0;
        wc.imm_data = with_imm ? wr->imm_data : 0;
    }
    complete(NULL, srq->cq, wc, 0, wr->send_flags & SEND_SOLICITED);
    return status ? REM_INV_REQ : SUCCESS;
}

static int fetch(const struct fake_qp *sender, const struct ibv_send_wr *wr, const char *from)
{
    if (wr->num_sge != 1 || !may_touch(sender, wr->sg_list, LOCAL_WRITE))
        return LOC_PROT;
    memcpy((void *)(uintptr_t)wr->sg_list->addr, from, wr->sg_list->length);
    return SUCCESS;
}

static int atomic(const struct fake_qp *sender, const struct ibv_send_wr *wr, char *place)
{
    uint64_t before, after;
    memcpy(&before, place, sizeof before);
    int status = fetch(sender, wr, place);
    if (wr->opcode == WR_FETCH_ADD)
        after = before + wr->wr.whole[1];
    else
        after = before == wr->wr.whole[1] ? wr->wr.whole[2] : before;
    memcpy(place, &after, sizeof after);
    return status;
}

static int transmit_xrc(struct fake_qp *sender, struct fake_qp *receiver,
                        const struct message *message, const struct ibv_send_wr *wr)
{
    struct fake_srq *srq = receiver ? srq_of(receiver, wr->qp_type) : NULL;
    int is_atomic = wr->opcode == WR_CMP_SWAP || wr->opcode == WR_FETCH_ADD;
    if (!receiver)
        return RETRY_EXC;
    if (!srq)
        return REM_INV_REQ;
    if (wr->opcode == WR_SEND || wr->opcode == WR_SEND_IMM)
        return receive_by(receiver, srq, message, wr);
    uint32_t rkey = (uint32_t)wr->wr.whole[is_atomic ? 3 : 1];
    int access = is_atomic ? REMOTE_ATOMIC : wr->opcode == WR_READ ? REMOTE_READ : REMOTE_WRITE;
    size_t size = is_atomic ? 8 : message->size;
    char *place = far_memory(receiver, srq, wr->wr.whole[0], size, rkey, access);
    if (!place)
        return REM_ACCESS;
    if (is_atomic)
        return atomic(sender, wr, place);
    if (wr->opcode == WR_READ)
        return fetch(sender, wr, place);
    memcpy(place, message->bytes, message->size);
    return wr->opcode == WR_WRITE_IMM ? receive_by(receiver, srq, message, wr) : SUCCESS;
}

/* Raw packets and flow rules. */

struct fake_flow {
    uint32_t comp_mask;
    struct ibv_context *context;
    uint32_t handle;
    struct fake_qp *qp;
    uint8_t port;
    uint8_t mac[6];
    uint16_t ether_type; /* this and what follows as on the wire; 0 where it does not count */
    uint32_t addresses[2];
    uint8_t protocol;
    uint16_t ports[2]; /* target and source */
};

struct flow_attr {
    uint32_t comp_mask;
    int32_t type;
    uint16_t size, priority;
    uint8_t spec_count, port;
    uint32_t flags;
};

static int all_ones(const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (((const uint8_t *)bytes)[i] != 0xff)
            return 0;
    return 1;
}

/* A spec: int type, uint16_t size, from byte 6 (or 8) the values, and as many bytes of mask. */
static void read_spec(struct fake_flow *flow, int type, const uint8_t *spec)
{
    switch (type) {
    case 0x20:
        if (!all_ones(spec + 22, 6))
            misuse("ibv_create_flow", "a rule that is not of one MAC address", "");
        memcpy(flow->mac, spec + 6, 6);
        if (all_ones(spec + 34, 2))
            memcpy(&flow->ether_type, spec + 18, 2);
        break;
    case 0x30:
        if (!all_ones(spec + 16, 8))
            misuse("ibv_create_flow", "a rule that is not of two IPv4 addresses", "");
        memcpy(flow->addresses, spec + 8, 8);
        break;
    case 0x40:
    case 0x41:
        if (!all_ones(spec + 10, 4))
            misuse("ibv_create_flow", "a rule that is not of two ports", "");
        flow->protocol = type == 0x40 ? 6 : 17;
        memcpy(flow->ports, spec + 6, 4);
        break;
    default: misuse("ibv_create_flow", "a spec that nobody asked for", "");
    }
}

static struct fake_flow *create_flow(struct ibv_qp *qp, struct flow_attr *attr)
{
    struct fake_device *device = owner(QP, qp, "ibv_create_flow");
    struct fake_flow flow = {.context = qp->context, .qp = (struct fake_qp *)qp};
    const uint8_t *spec = (const uint8_t *)(attr + 1);
    if (refusal("ibv_create_flow", device))
        return NULL;
    if (attr->type || attr->flags)
        misuse("ibv_create_flow", "a rule for more than its specs say", "");
    for (int i = 0; i < attr->spec_count; i++) {
        uint32_t type;
        uint16_t size;
        memcpy(&type, spec, sizeof type);
        memcpy(&size, spec + 4, sizeof size);
        read_spec(&flow, (int)type, spec);
        spec += size;
    }
    if (spec - (const uint8_t *)attr != attr->size || qp->qp_type != RAW_PACKET) {
        errno = EINVAL;
        return NULL;
    }
    if ((flow.mac[0] & 3) != 2)
        misuse("ibv_create_flow", "a MAC address that may be somebody's", "");
    flow.port = attr->port;
    flow.handle = next_number();
    struct fake_flow *made = grant(FLOW, device, sizeof *made);
    *made = flow;
    return made;
}

static int destroy_flow(struct fake_flow *flow)
{
    const struct handle *handle = granted(FLOW, flow, "ibv_destroy_flow");
    int refused = refusal("ibv_destroy_flow", handle->device);
    if (!refused)
        retire(FLOW, flow, "ibv_destroy_flow");
    return refused;
}

static int flows_to(const struct fake_flow *flow, const struct message *message)
{
    const uint8_t *frame = message->bytes;
    if (message->size < 14 || memcmp(frame, flow->mac, 6))
        return 0;
    if (flow->ether_type && memcmp(frame + 12, &flow->ether_type, 2))
        return 0;
    if (flow->addresses[0] && (message->size < 34 || memcmp(frame + 26, flow->addresses, 8)))
        return 0;
    if (!flow->protocol)
        return 1;
    const uint16_t ports[] = {flow->ports[1], flow->ports[0]};
    return message->size >= 42 && frame[23] == flow->protocol && !memcmp(frame + 34, ports, 4);
}

static void transmit_raw(const struct message *message, const struct ibv_send_wr *wr)
{
    for (struct handle *handle = handles; handle; handle = handle->next) {
        struct fake_flow *flow = handle->memory;
        if (!handle->live || handle->kind != FLOW || !flows_to(flow, message))
            continue;
        struct fake_qp *to = flow->qp;
        if (to->qp.state == RTR || to->qp.state == RTS)
            deliver(to, message, wr);
        return;
    }
}

static int has_flow(const void *qp)
{
    for (const struct handle *handle = handles; handle; handle = handle->next)
        if (handle->live && handle->kind == FLOW &&
            ((const struct fake_flow *)handle->memory)->qp == qp)
            return 1;
    return 0;
}

static int uses(const struct handle *handle, const void *object)
{
    const struct fake_srq *srq = handle->memory;
    const struct fake_qp *qp = handle->memory;
    if (handle->kind == SRQ)
        return srq->srq.pd == object || srq->cq == object || srq->xrcd == object;
    return handle->kind == QP && qp->xrcd == object;
}

enum { CAP_AUTO_PATH_MIG = 1 << 4, CAP_XRC = 1 << 20, CAP_FLOW = 1 << 29 };

static void extend_rare(struct verbs_context *whole, const struct fake_device *device)
{
    if (device->attr.device_cap_flags & CAP_XRC) {
        whole->open_xrcd = open_xrcd;
        whole->close_xrcd = close_xrcd;
        whole->create_srq_ex = create_srq_ex;
        whole->get_srq_num = get_srq_num;
        whole->create_qp_ex = create_qp_ex;
        whole->context.ops.post_srq_recv = post_srq_recv;
    }
    if (device->attr.device_cap_flags & CAP_FLOW) {
        whole->create_flow = create_flow;
        whole->destroy_flow = destroy_flow;
    }
}

#endif
