/*
 * The timed loop of a pingpong, for loop.py.
 *
 * It knows no verbs library: the calls that have no symbol are handed over as pointers, and
 * queue pairs, completion queues and work requests as addresses. One thread runs one end, or
 * both ends of a loopback. It never blocks, and returns soon after the time it is given.
 *
 * An end begins with one receive posted and ends with one posted. Of the two ends of a path
 * one sends first; each sends when a message has arrived, after its receive is posted again.
 * At most one message is under way, so an end owes at most one send.
 *
 * By WRITE a message has arrived when the last byte of it, which counts the rounds, stands in
 * memory; no receive is posted. By READ the end that starts fetches, again and again, and the
 * other one has no loop.
 *
 * Ends with a completion channel sleep on it when nothing has completed; the others poll.
 */

#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <time.h>

enum { LAYOUT_REVISION = 2 };
enum { MAX_ENDS = 2, BATCH = 4 };
enum { WR_SEND = 1, WR_RECEIVE = 2 }; /* wr_id; of a failed completion, opcode is not valid */
enum { POST_SEND, POST_RECV, POLL_CQ, REQ_NOTIFY_CQ };
enum { BY_SEND, BY_WRITE, BY_READ };
enum { DONE, AGAIN, CALL_FAILED, BAD_COMPLETION, UNEXPECTED, WRONG_LENGTH };

enum {
    MAX_STRIDE = 64,      /* passes from one look at the clock to the next */
    LONG_STRIDE = 500000, /* ns; calls this slow are not made often without a look */
    PATIENCE = 50000,     /* ns without a completion, after which others may have the CPU */
    SLEEP = 1,            /* ms that an event is waited for, from one look at the clock to the next */
};

struct wc { /* struct ibv_wc */
    uint64_t wr_id;
    int32_t status;
    int32_t opcode;
    uint32_t vendor_err;
    uint32_t byte_len;
    uint8_t rest[24];
};

struct end {
    void *qp;
    void *cq;
    int (*post_send)(void *qp, void *wr, void **bad_wr);
    int (*post_recv)(void *qp, void *wr, void **bad_wr);
    int (*poll_cq)(void *cq, int entries, struct wc *wc);
    void *send_request;
    void *receive_request;
    void *channel; /* NULL: it polls */
    int (*get_cq_event)(void *channel, void **cq, void **context);
    void (*ack_cq_events)(void *cq, unsigned int count);
    int (*req_notify_cq)(void *cq, int solicited_only);
    uint8_t *stamp; /* the last byte of what it writes */
    uint8_t *watch; /* and of what the other end writes here */
    uint64_t last; /* ns: when the round began */
    uint64_t rounds;
    uint32_t payload;
    uint32_t starts;
    uint32_t owed;        /* whether a send is to be posted */
    uint32_t outstanding; /* sends without a completion */
    uint32_t way;         /* BY_SEND, … */
    int32_t event_fd;     /* of the channel */
};

struct loop {
    uint64_t iterations;
    uint64_t *times; /* ns, a full round trip each; NULL if no end starts */
    struct wc *completions;
    uint32_t depth;
    uint32_t end_count;
    struct end ends[MAX_ENDS];
    /* Why it stopped. */
    uint32_t result;
    uint32_t stopped_end;
    uint32_t failed_call;
    uint32_t padding;
    int64_t error;
    struct wc completion;
};

_Static_assert(sizeof(struct wc) == 48, "struct ibv_wc");

/* loop.py compares them: a library of another version is not run. */
const uint32_t rdmadiag_loop_layout[] = {LAYOUT_REVISION, sizeof(struct loop), sizeof(struct end),
                                         BATCH};

/* ns on the clock of Python's time.monotonic; on a Mac that is not CLOCK_MONOTONIC */
static uint64_t now(void)
{
#ifdef __APPLE__
    return clock_gettime_nsec_np(CLOCK_UPTIME_RAW);
#else
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
#endif
}

static int stop(struct loop *loop, const struct end *end, uint32_t result)
{
    loop->result = result;
    loop->stopped_end = (uint32_t)(end - loop->ends);
    return -1;
}

static int refuse(struct loop *loop, const struct end *end, const struct wc *wc, uint32_t result)
{
    loop->completion = *wc;
    return stop(loop, end, result);
}

/* 0, or -1 if the call failed: it gives an errno, and an old provider minus one. */
static int check(struct loop *loop, const struct end *end, uint32_t call, int64_t given)
{
    if (!given)
        return 0;
    loop->failed_call = call;
    loop->error = given < 0 ? -given : given;
    return stop(loop, end, CALL_FAILED);
}

static int send_owed(struct loop *loop, struct end *end)
{
    void *bad;
    if (!end->owed || end->outstanding >= loop->depth)
        return 0;
    if (end->starts && !end->rounds)
        end->last = now();
    if (end->way == BY_WRITE)
        *end->stamp = (uint8_t)(end->starts ? end->rounds + 1 : end->rounds);
    end->owed = 0;
    end->outstanding++;
    return check(loop, end, POST_SEND, end->post_send(end->qp, end->send_request, &bad));
}

static int arrive(struct loop *loop, struct end *end)
{
    void *bad;
    if (end->starts) {
        uint64_t time = now();
        loop->times[end->rounds] = time - end->last;
        end->last = time;
    }
    end->rounds++;
    end->owed = !end->starts || end->rounds < loop->iterations;
    if (end->way != BY_SEND)
        return 0;
    return check(loop, end, POST_RECV, end->post_recv(end->qp, end->receive_request, &bad));
}

static int take(struct loop *loop, struct end *end, const struct wc *wc)
{
    if (wc->status)
        return refuse(loop, end, wc, BAD_COMPLETION);
    if (wc->wr_id == WR_SEND && end->outstanding) {
        end->outstanding--;
        return end->way == BY_READ ? arrive(loop, end) : 0;
    }
    if (wc->wr_id != WR_RECEIVE || end->way != BY_SEND || end->owed || end->rounds == loop->iterations)
        return refuse(loop, end, wc, UNEXPECTED);
    if (wc->byte_len != end->payload)
        return refuse(loop, end, wc, WRONG_LENGTH);
    return arrive(loop, end);
}

/* Whether what the other end writes stands here: each round counts one on. */
static int is_written(const struct loop *loop, const struct end *end)
{
    return end->way == BY_WRITE && !end->owed && end->rounds < loop->iterations &&
           __atomic_load_n(end->watch, __ATOMIC_ACQUIRE) == (uint8_t)(end->rounds + 1);
}

/* How many completions and messages there were, or -1 if the loop cannot go on. */
static int pass(struct loop *loop, struct end *end)
{
    int count = end->poll_cq(end->cq, BATCH, loop->completions);
    if (count < 0)
        return check(loop, end, POLL_CQ, count);
    for (int i = 0; i < count; i++)
        if (take(loop, end, &loop->completions[i]))
            return -1;
    if (is_written(loop, end)) {
        count++;
        if (arrive(loop, end))
            return -1;
    }
    return send_owed(loop, end) ? -1 : count;
}

static int is_done(const struct loop *loop)
{
    for (uint32_t i = 0; i < loop->end_count; i++) {
        const struct end *end = &loop->ends[i];
        if (end->rounds < loop->iterations || end->owed || end->outstanding)
            return 0;
    }
    return 1;
}

/* Until one of the channels has an event, for SLEEP at most; it is taken, and asked for again. */
static int doze(struct loop *loop)
{
    struct pollfd waiting[MAX_ENDS];
    for (uint32_t i = 0; i < loop->end_count; i++)
        waiting[i] = (struct pollfd){.fd = loop->ends[i].event_fd, .events = POLLIN};
    if (poll(waiting, loop->end_count, SLEEP) <= 0)
        return 0;
    for (uint32_t i = 0; i < loop->end_count; i++) {
        struct end *end = &loop->ends[i];
        void *cq, *context;
        if (!waiting[i].revents || end->get_cq_event(end->channel, &cq, &context))
            continue;
        end->ack_cq_events(cq, 1);
        if (check(loop, end, REQ_NOTIFY_CQ, end->req_notify_cq(end->cq, 0)))
            return -1;
    }
    return 0;
}

uint32_t rdmadiag_loop_run(struct loop *loop, uint64_t until)
{
    uint64_t looked = now(), busy = looked;
    uint32_t stride = 1;
    int found = 0;
    if (is_done(loop))
        return DONE;
    for (uint32_t i = 0; i < loop->end_count; i++)
        if (send_owed(loop, &loop->ends[i]))
            return loop->result;
    for (;;) {
        for (uint32_t at = 0; at < stride; at++)
            for (uint32_t i = 0; i < loop->end_count; i++) {
                int count = pass(loop, &loop->ends[i]);
                if (count < 0)
                    return loop->result;
                if (count && is_done(loop))
                    return DONE;
                found |= count;
            }
        if (!found && loop->ends[0].channel) {
            if (doze(loop))
                return loop->result;
            stride = 1;
        }
        uint64_t time = now();
        if (time >= until)
            return AGAIN;
        if (time - looked > LONG_STRIDE || loop->ends[0].channel)
            stride = 1;
        else if (stride < MAX_STRIDE)
            stride *= 2;
        if (found)
            busy = time;
        else if (time - busy > PATIENCE)
            sched_yield();
        looked = time;
        found = 0;
    }
}
