/*
 * A verbs library without hardware: libibverbs of Linux, or with -DDARWIN Apple's librdma.
 * -DNO_GID_TABLE leaves out what libibverbs got in rdma-core 32. Here are devices and the
 * script; fake_queue_pairs.h has what a message needs, fake_datagrams.h those of UD,
 * fake_rare.h what soft RoCE refuses.
 *
 * It answers from a script, the file that FAKE_VERBS names, read once at the first call.
 * No such file: no devices. A number that the script does not give is 0. A line that makes
 * no sense aborts. One directive a line; # begins a comment; a device comes before the lines
 * about it, a port before its GIDs:
 *
 *   device NAME node_type=N transport=N guid=0xN fw=TEXT FIELD=N...    fields of ibv_device_attr
 *   extended NAME [sz=N] FIELD=N...  fields of ibv_device_attr_ex; gives it a verbs_context (Linux)
 *   port NAME NUMBER FIELD=N...                                        fields of ibv_port_attr
 *   gid NAME NUMBER INDEX ADDRESS [type=N] [ifindex=N]
 *   on CALL [NAME] [after=N] [times=N] ACTION
 *
 * A limit of a device, such as max_qp, is enforced unless it is 0. ACTION is one of
 *
 *   errno=N              fails in the way of that call
 *   null                 gives NULL and leaves errno alone
 *   hang                 never ends, and SIGTERM is ignored from then on
 *   spin                 never ends, and burns a core
 *   crash                SIGSEGV
 *   warn=A_TEXT          "libibverbs: Warning: A TEXT" on stderr, then goes on
 *   slow=N               goes on after N milliseconds
 *   wc=STATUS[,VENDOR]   of poll_cq: completions carry this status, whatever happened
 *   corrupt              of post_send: the last byte of a message is inverted on its way
 *   drop                 of post_send: a message is lost on its way
 *   event=N              an asynchronous event comes, of port 1 or the newest queue pair
 *
 * CALL is the name of the function. The calls without a symbol are post_send, post_recv and
 * poll_cq; within ibv_modify_qp, modify_qp_to_init, _rtr, _rts, _err and _reset are calls too.
 * after=N spares the first N calls, times=N is for N calls alone; wc counts completions and
 * corrupt and drop count messages instead.
 *
 * Several `on` lines about one call take effect in their order. The file that
 * FAKE_VERBS_TRACE names gets a line `CALL [NAME]` for every call; of a row of poll_cq, one
 * for each device. A misuse that the real library may survive by luck aborts: a closed or
 * unknown handle, a list freed twice, a device of no list. A process that exits with
 * anything open but device lists says so on stderr.
 *
 * Calls come from one thread at a time.
 */

#ifdef __linux__
#define _GNU_SOURCE /* pipe2 */
#endif

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* The layout: infiniband/verbs.h of rdma-core 65 on LP64. */

#ifdef DARWIN
enum { PORT_ATTR_WRITTEN = 52, MUTEX_SIZE = 64 };
#else
enum { PORT_ATTR_WRITTEN = 48, MUTEX_SIZE = 40 }; /* ibv_query_port as it was in 1.1 */
#endif

#define DEVICE_NUMBERS(_)                                                                    \
    _(uint64_t, max_mr_size) _(uint64_t, page_size_cap)                                      \
    _(uint32_t, vendor_id) _(uint32_t, vendor_part_id) _(uint32_t, hw_ver)                   \
    _(int32_t, max_qp) _(int32_t, max_qp_wr) _(uint32_t, device_cap_flags)                   \
    _(int32_t, max_sge) _(int32_t, max_sge_rd)                                               \
    _(int32_t, max_cq) _(int32_t, max_cqe) _(int32_t, max_mr) _(int32_t, max_pd)             \
    _(int32_t, max_qp_rd_atom) _(int32_t, max_ee_rd_atom) _(int32_t, max_res_rd_atom)        \
    _(int32_t, max_qp_init_rd_atom) _(int32_t, max_ee_init_rd_atom)                          \
    _(int32_t, atomic_cap) _(int32_t, max_ee) _(int32_t, max_rdd) _(int32_t, max_mw)         \
    _(int32_t, max_raw_ipv6_qp) _(int32_t, max_raw_ethy_qp)                                  \
    _(int32_t, max_mcast_grp) _(int32_t, max_mcast_qp_attach)                                \
    _(int32_t, max_total_mcast_qp_attach)                                                    \
    _(int32_t, max_ah) _(int32_t, max_fmr) _(int32_t, max_map_per_fmr)                       \
    _(int32_t, max_srq) _(int32_t, max_srq_wr) _(int32_t, max_srq_sge)                       \
    _(uint16_t, max_pkeys) _(uint8_t, local_ca_ack_delay) _(uint8_t, phys_port_cnt)

#define PORT_NUMBERS(_)                                                                      \
    _(int32_t, state) _(int32_t, max_mtu) _(int32_t, active_mtu) _(int32_t, gid_tbl_len)     \
    _(uint32_t, port_cap_flags) _(uint32_t, max_msg_sz)                                      \
    _(uint32_t, bad_pkey_cntr) _(uint32_t, qkey_viol_cntr)                                   \
    _(uint16_t, pkey_tbl_len) _(uint16_t, lid) _(uint16_t, sm_lid)                           \
    _(uint8_t, lmc) _(uint8_t, max_vl_num) _(uint8_t, sm_sl) _(uint8_t, subnet_timeout)      \
    _(uint8_t, init_type_reply) _(uint8_t, active_width) _(uint8_t, active_speed)            \
    _(uint8_t, phys_state) _(uint8_t, link_layer) _(uint8_t, flags)                          \
    _(uint16_t, port_cap_flags2) _(uint32_t, active_speed_ex)

#define EXTENDED_NUMBERS(_)                                                                  \
    _(uint32_t, comp_mask)                                                                   \
    _(uint64_t, odp_general_caps) _(uint32_t, rc_odp_caps) _(uint32_t, uc_odp_caps)          \
    _(uint64_t, ud_odp_caps)                                                                 \
    _(uint64_t, completion_timestamp_mask) _(uint64_t, hca_core_clock)                       \
    _(uint64_t, device_cap_flags_ex) _(uint32_t, max_tso) _(uint32_t, tso_supported_qpts)    \
    _(uint32_t, rss_supported_qpts) _(uint32_t, max_rwq_indirection_tables)                  \
    _(uint64_t, max_rwq_indirection_table_size) _(uint64_t, rx_hash_fields_mask)             \
    _(uint64_t, rx_hash_function)                                                            \
    _(uint32_t, max_wq_type_rq) _(uint32_t, qp_rate_limit_min)                               \
    _(uint32_t, qp_rate_limit_max) _(uint32_t, pacing_supported_qpts)                        \
    _(uint32_t, raw_packet_caps) _(uint32_t, max_rndv_hdr_size) _(uint32_t, max_num_tags)    \
    _(uint32_t, tm_flags) _(uint32_t, tm_max_ops) _(uint32_t, tm_max_sge)                    \
    _(uint16_t, max_cq_count) _(uint16_t, max_cq_period) _(uint64_t, max_dm_size)            \
    _(uint16_t, fetch_add) _(uint16_t, swap) _(uint16_t, compare_swap)                       \
    _(uint32_t, xrc_odp_caps) _(uint32_t, phys_port_cnt_ex)

#define CALLS(_)                                                                             \
    _(ibv_get_device_list, GIVES_NULL) _(ibv_free_device_list, CANNOT_FAIL)                  \
    _(ibv_get_device_name, GIVES_NULL) _(ibv_get_device_guid, GIVES_ZERO)                    \
    _(ibv_open_device, GIVES_NULL) _(ibv_close_device, GIVES_MINUS_ONE)                      \
    _(ibv_query_device, GIVES_ERRNO) _(ibv_query_port, GIVES_ERRNO)                          \
    _(ibv_query_device_ex, GIVES_ERRNO)                                                      \
    _(ibv_query_gid, GIVES_MINUS_ONE) _(ibv_query_pkey, GIVES_MINUS_ONE)                     \
    _(_ibv_query_gid_table, GIVES_MINUS_ERRNO)                                               \
    _(ibv_alloc_pd, GIVES_NULL) _(ibv_dealloc_pd, GIVES_ERRNO)                               \
    _(ibv_reg_mr, GIVES_NULL) _(ibv_dereg_mr, GIVES_ERRNO)                                   \
    _(ibv_create_cq, GIVES_NULL) _(ibv_destroy_cq, GIVES_ERRNO)                              \
    _(ibv_create_comp_channel, GIVES_NULL) _(ibv_destroy_comp_channel, GIVES_ERRNO)          \
    _(ibv_get_cq_event, GIVES_MINUS_ONE) _(ibv_ack_cq_events, CANNOT_FAIL)                   \
    _(ibv_create_ah, GIVES_NULL) _(ibv_destroy_ah, GIVES_ERRNO)                              \
    _(ibv_init_ah_from_wc, GIVES_ERRNO)                                                      \
    _(ibv_resize_cq, GIVES_ERRNO) _(req_notify_cq, GIVES_ERRNO)                              \
    _(ibv_create_qp, GIVES_NULL) _(ibv_destroy_qp, GIVES_ERRNO)                              \
    _(ibv_query_qp, GIVES_ERRNO) _(ibv_modify_qp, GIVES_ERRNO)                               \
    _(modify_qp_to_reset, GIVES_ERRNO) _(modify_qp_to_init, GIVES_ERRNO)                     \
    _(modify_qp_to_rtr, GIVES_ERRNO) _(modify_qp_to_rts, GIVES_ERRNO)                        \
    _(modify_qp_to_err, GIVES_ERRNO)                                                         \
    _(post_send, GIVES_ERRNO) _(post_recv, GIVES_ERRNO) _(poll_cq, GIVES_MINUS_ERRNO)        \
    _(ibv_open_xrcd, GIVES_NULL) _(ibv_close_xrcd, GIVES_ERRNO)                              \
    _(ibv_create_srq_ex, GIVES_NULL) _(ibv_get_srq_num, GIVES_ERRNO)                         \
    _(ibv_destroy_srq, GIVES_ERRNO) _(ibv_create_qp_ex, GIVES_NULL)                          \
    _(post_srq_recv, GIVES_ERRNO)                                                            \
    _(ibv_create_flow, GIVES_NULL) _(ibv_destroy_flow, GIVES_ERRNO)                          \
    _(ibv_get_async_event, GIVES_MINUS_ONE) _(ibv_ack_async_event, CANNOT_FAIL)              \
    _(ibv_wc_status_str, GIVES_NULL)

#define MEMBER(type, name) type name;

struct ibv_device {
    void *ops[2];
    int32_t node_type;
    int32_t transport_type;
    char name[64];
    char dev_name[64];
    char dev_path[256];
    char ibdev_path[256];
};

struct fake_flow;
struct flow_attr;
struct ibv_cq;
struct ibv_qp;
struct ibv_qp_init_attr_ex;
struct ibv_srq;
struct ibv_srq_init_attr_ex;
struct ibv_xrcd;
struct ibv_xrcd_init_attr;
struct ibv_recv_wr;
struct ibv_send_wr;
struct ibv_wc;

struct ibv_context_ops {
    void *first[11];
    int (*poll_cq)(struct ibv_cq *cq, int count, struct ibv_wc *wc);
    int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
    void *next[7];
    int (*post_srq_recv)(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
    void *more[4];
    int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
    int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
    void *last[5];
};

struct ibv_context {
    struct ibv_device *device;
    struct ibv_context_ops ops;
    int cmd_fd;
    int async_fd;
    int num_comp_vectors;
    _Alignas(8) char mutex[MUTEX_SIZE];
    void *abi_compat; /* NULL: no struct verbs_context around this one */
};

struct ibv_device_attr {
    char fw_ver[64];
    uint64_t node_guid;      /* big-endian */
    uint64_t sys_image_guid; /* big-endian */
    DEVICE_NUMBERS(MEMBER)
};

/* Spread out; a uint64_t that the header has as a uint32_t or less holds its padding too. */
struct ibv_device_attr_ex {
    struct ibv_device_attr orig_attr;
    EXTENDED_NUMBERS(MEMBER)
};

struct ibv_port_attr {
    PORT_NUMBERS(MEMBER)
};

struct verbs_context {
    int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                      size_t size);
    void *before_query_device_ex[26];
    int (*query_device_ex)(struct ibv_context *context, const void *input,
                           struct ibv_device_attr_ex *attr, size_t size);
    int (*destroy_flow)(struct fake_flow *flow);
    void *placeholder2;
    struct fake_flow *(*create_flow)(struct ibv_qp *qp, struct flow_attr *attr);
    void *placeholder1, *open_qp;
    struct ibv_qp *(*create_qp_ex)(struct ibv_context *context, struct ibv_qp_init_attr_ex *wish);
    int (*get_srq_num)(struct ibv_srq *srq, uint32_t *number);
    struct ibv_srq *(*create_srq_ex)(struct ibv_context *context,
                                     struct ibv_srq_init_attr_ex *wish);
    struct ibv_xrcd *(*open_xrcd)(struct ibv_context *context, struct ibv_xrcd_init_attr *wish);
    int (*close_xrcd)(struct ibv_xrcd *xrcd);
    void *placeholder3;
    size_t sz;
    struct ibv_context context;
};

union ibv_gid {
    uint8_t raw[16];
    uint64_t halves[2];
};

struct ibv_gid_entry {
    union ibv_gid gid;
    uint32_t gid_index;
    uint32_t port_num;
    uint32_t gid_type;
    uint32_t ndev_ifindex;
};

_Static_assert(sizeof(struct ibv_device) == 664, "struct ibv_device");
_Static_assert(offsetof(struct ibv_context, ops.poll_cq) == 96, "struct ibv_context");
_Static_assert(offsetof(struct ibv_context, ops.post_send) == 208, "struct ibv_context");
_Static_assert(offsetof(struct ibv_context, ops.post_recv) == 216, "struct ibv_context");
_Static_assert(offsetof(struct ibv_context, abi_compat) == 280 + MUTEX_SIZE, "struct ibv_context");
_Static_assert(sizeof(struct ibv_device_attr) == 232, "struct ibv_device_attr");
_Static_assert(offsetof(struct ibv_port_attr, port_cap_flags2) == 48, "struct ibv_port_attr");
_Static_assert(sizeof(struct ibv_port_attr) == 56, "struct ibv_port_attr");
_Static_assert(offsetof(struct ibv_device_attr_ex, odp_general_caps) == 240, "attr_ex");
_Static_assert(offsetof(struct ibv_device_attr_ex, rss_supported_qpts) == 296, "attr_ex");
_Static_assert(offsetof(struct ibv_device_attr_ex, max_cq_count) == 368, "attr_ex");
_Static_assert(sizeof(struct ibv_device_attr_ex) == 400, "struct ibv_device_attr_ex");
_Static_assert(offsetof(struct verbs_context, context) == 40 * 8, "struct verbs_context");
_Static_assert(sizeof(struct ibv_gid_entry) == 32, "struct ibv_gid_entry");

/* The machine that the script describes. */

enum { MAX_DEVICES = 32, MAX_PORTS = 8, MAX_RULES = 128 };

struct fake_gid {
    struct ibv_gid_entry entry;
    struct fake_gid *next;
};

struct fake_port {
    uint64_t number;
    struct ibv_port_attr attr;
    struct fake_gid *gids; /* in the order of the script */
};

struct fake_device {
    struct ibv_device device;
    struct ibv_device_attr attr;
    struct ibv_device_attr_ex extended;
    uint64_t sz;     /* of the struct verbs_context around its contexts */
    int is_extended; /* whether there is one */
    struct fake_port ports[MAX_PORTS];
    int port_count;
};

enum convention {
    CANNOT_FAIL,
    GIVES_NULL, /* and sets errno, as do the next two */
    GIVES_ZERO,
    GIVES_MINUS_ONE,
    GIVES_ERRNO,
    GIVES_MINUS_ERRNO,
};

struct call {
    const char *name;
    enum convention failure;
};

enum action {
    FAIL,
    GIVE_NULL,
    HANG,
    SPIN,
    CRASH,
    WARN,
    SLOW,
    EVENT,
    COMPLETE_AS, /* this and what follows leave the call alone */
    CORRUPT,
    DROP,
};

struct rule {
    const struct call *call;
    const struct fake_device *device; /* NULL: whatever the device */
    uint64_t seen, after, times;
    enum action action;
    uint64_t number, vendor;
    char *text;
};

#define CALL(name, failure) {#name, failure},
static const struct call calls[] = {CALLS(CALL)};

static struct fake_device devices[MAX_DEVICES];
static int device_count;
static struct rule rules[MAX_RULES];
static int rule_count;

static struct fake_device *find_device(const char *name)
{
    for (int i = 0; i < device_count; i++)
        if (!strcmp(devices[i].device.name, name))
            return &devices[i];
    return NULL;
}

static struct fake_port *find_port(struct fake_device *device, uint64_t number)
{
    for (int i = 0; i < device->port_count; i++)
        if (device->ports[i].number == number)
            return &device->ports[i];
    return NULL;
}

static struct fake_gid *find_gid(struct fake_port *port, uint64_t index)
{
    for (struct fake_gid *gid = port->gids; gid; gid = gid->next)
        if (gid->entry.gid_index == index)
            return gid;
    return NULL;
}

static const struct call *find_call(const char *name)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!strcmp(calls[i].name, name))
            return &calls[i];
    return NULL;
}

/* The words of the script. */

static char *line, *rest; /* the line as it was written; what is still to be read of it */

static _Noreturn void bad(const char *why)
{
    fprintf(stderr, "fake_verbs: %s: %s\n", why, line);
    abort();
}

static char *maybe_word(void)
{
    char *word;
    do
        word = strsep(&rest, " \t\r\n");
    while (word && !*word);
    return word;
}

static char *word(void)
{
    char *found = maybe_word();
    if (!found)
        bad("too few words");
    return found;
}

static uint64_t to_number(const char *text)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 0);
    if (errno || end == text || *end)
        bad("not a number");
    return value;
}

static struct fake_device *known_device(void)
{
    struct fake_device *device = find_device(word());
    if (!device)
        bad("no such device above");
    return device;
}

/* KEY=VALUE, by tables that say where each goes. */

enum form { AS_NUMBER, AS_BIG_ENDIAN, AS_TEXT };

struct key {
    const char *name;
    size_t offset, size;
    enum form form;
};

#define SIZE_OF(whole, member) sizeof(((struct whole *)0)->member)
#define KEY(whole, name, member, form)                                                             \
    {name, offsetof(struct whole, member), SIZE_OF(whole, member), form}
#define DEVICE_KEY(type, name) KEY(fake_device, #name, attr.name, AS_NUMBER),
#define PORT_KEY(type, name) KEY(fake_port, #name, attr.name, AS_NUMBER),

static const struct key device_keys[] = {
    KEY(fake_device, "node_type", device.node_type, AS_NUMBER),
    KEY(fake_device, "transport", device.transport_type, AS_NUMBER),
    KEY(fake_device, "guid", attr.node_guid, AS_BIG_ENDIAN),
    KEY(fake_device, "sys_image_guid", attr.sys_image_guid, AS_BIG_ENDIAN),
    KEY(fake_device, "fw", attr.fw_ver, AS_TEXT),
    DEVICE_NUMBERS(DEVICE_KEY){0},
};

#define EXTENDED_KEY(type, name) KEY(fake_device, #name, extended.name, AS_NUMBER),
static const struct key extended_keys[] = {KEY(fake_device, "sz", sz, AS_NUMBER),
                                           EXTENDED_NUMBERS(EXTENDED_KEY){0}};

static const struct key port_keys[] = {PORT_NUMBERS(PORT_KEY){0}};

static const struct key gid_keys[] = {
    KEY(fake_gid, "type", entry.gid_type, AS_NUMBER),
    KEY(fake_gid, "ifindex", entry.ndev_ifindex, AS_NUMBER),
    {0},
};

static int fits(uint64_t value, size_t size)
{
    unsigned bits = 8 * (unsigned)size;
    return bits == 64 || value >> bits == 0 || value >> (bits - 1) == UINT64_MAX >> (bits - 1);
}

static void store_number(void *place, size_t size, uint64_t value)
{
    if (!fits(value, size))
        bad("too large a number");
    switch (size) {
    case 1: *(uint8_t *)place = (uint8_t)value; break;
    case 2: *(uint16_t *)place = (uint16_t)value; break;
    case 4: *(uint32_t *)place = (uint32_t)value; break;
    case 8: *(uint64_t *)place = value; break;
    }
}

static void store_big_endian(uint8_t *place, size_t size, uint64_t value)
{
    for (size_t i = 0; i < size; i++)
        place[i] = (uint8_t)(value >> (8 * (size - 1 - i)));
}

static void store_text(char *place, size_t size, const char *text)
{
    if (strlen(text) >= size)
        bad("too long a text");
    strcpy(place, text);
}

static void store(void *whole, const struct key *keys, char *pair)
{
    char *name = strsep(&pair, "=");
    while (keys->name && strcmp(keys->name, name))
        keys++;
    if (!keys->name || !pair)
        bad("unknown key");
    char *place = (char *)whole + keys->offset;
    switch (keys->form) {
    case AS_NUMBER: store_number(place, keys->size, to_number(pair)); break;
    case AS_BIG_ENDIAN: store_big_endian((uint8_t *)place, keys->size, to_number(pair)); break;
    case AS_TEXT: store_text(place, keys->size, pair); break;
    }
}

static void store_rest(void *whole, const struct key *keys)
{
    for (char *pair; (pair = maybe_word());)
        store(whole, keys, pair);
}

/* The directives. */

static void read_device(void)
{
    struct fake_device *made = &devices[device_count];
    char *name = word();
    if (device_count == MAX_DEVICES || find_device(name))
        bad("one device too many");
    store_text(made->device.name, sizeof made->device.name, name);
#ifndef DARWIN
    snprintf(made->device.dev_name, sizeof made->device.dev_name, "uverbs%d", device_count);
    snprintf(made->device.dev_path, sizeof made->device.dev_path,
             "/sys/class/infiniband_verbs/uverbs%d", device_count);
    snprintf(made->device.ibdev_path, sizeof made->device.ibdev_path, "/sys/class/infiniband/%s",
             name);
#endif
    store_rest(made, device_keys);
    device_count++;
}

static void read_extended(void)
{
    struct fake_device *device = known_device();
    device->is_extended = 1;
    device->sz = sizeof(struct verbs_context);
    store_rest(device, extended_keys);
}

static void read_port(void)
{
    struct fake_device *device = known_device();
    uint64_t port = to_number(word());
    if (device->port_count == MAX_PORTS || find_port(device, port))
        bad("one port too many");
    struct fake_port *made = &device->ports[device->port_count++];
    made->number = port;
    store_rest(made, port_keys);
}

static void read_gid(void)
{
    struct fake_device *device = known_device();
    struct fake_port *port = find_port(device, to_number(word()));
    if (!port)
        bad("no such port above");
    uint64_t index = to_number(word());
    if (index >= (uint64_t)port->attr.gid_tbl_len || find_gid(port, index))
        bad("no such slot");
    struct fake_gid *made = calloc(1, sizeof *made), **last = &port->gids;
    if (!made || inet_pton(AF_INET6, word(), made->entry.gid.raw) != 1)
        bad("not an address");
    made->entry.gid_index = (uint32_t)index;
    made->entry.port_num = (uint32_t)port->number;
    store_rest(made, gid_keys);
    while (*last)
        last = &(*last)->next;
    *last = made;
}

static const struct {
    const char *word;
    enum action action;
    int has_value;
    const char *call; /* NULL: any */
} actions[] = {
    {"errno", FAIL, 1, NULL},
    {"null", GIVE_NULL, 0, NULL},
    {"hang", HANG, 0, NULL},
    {"spin", SPIN, 0, NULL},
    {"crash", CRASH, 0, NULL},
    {"warn", WARN, 1, NULL},
    {"slow", SLOW, 1, NULL},
    {"event", EVENT, 1, NULL},
    {"wc", COMPLETE_AS, 1, "poll_cq"},
    {"corrupt", CORRUPT, 0, "post_send"},
    {"drop", DROP, 0, "post_send"},
};

static const struct key condition_keys[] = {
    KEY(rule, "after", after, AS_NUMBER),
    KEY(rule, "times", times, AS_NUMBER),
    {0},
};

static void read_condition(struct rule *made, char *text)
{
    if (strchr(text, '='))
        store(made, condition_keys, text);
    else if (made->device || !(made->device = find_device(text)))
        bad("no such device above");
}

static void read_action(struct rule *made, char *pair)
{
    char *name = strsep(&pair, "=");
    size_t i = 0, count = sizeof actions / sizeof *actions;
    while (i < count && (strcmp(actions[i].word, name) || actions[i].has_value != !!pair))
        i++;
    if (i == count)
        bad("unknown action");
    if (actions[i].call && strcmp(actions[i].call, made->call->name))
        bad("not an action of this call");
    made->action = actions[i].action;
    if (made->action == WARN) {
        made->text = strdup(pair);
        return;
    }
    char *number = strsep(&pair, made->action == COMPLETE_AS ? "," : "");
    if (number)
        made->number = to_number(number);
    if (pair)
        made->vendor = to_number(pair);
}

static void check_rule(const struct rule *made)
{
    enum convention failure = made->call->failure;
    if (made->action == FAIL && (failure == CANNOT_FAIL || !made->number))
        bad("not a failure of this call");
    if (made->action == COMPLETE_AS && !made->number)
        bad("not a failure of a completion");
    if (made->action == GIVE_NULL && failure != GIVES_NULL)
        bad("not a call that gives NULL");
}

static void read_rule(void)
{
    if (rule_count == MAX_RULES)
        bad("one rule too many");
    struct rule *made = &rules[rule_count++];
    made->call = find_call(word());
    if (!made->call)
        bad("unknown call");
    made->times = UINT64_MAX;
    char *last = word();
    for (char *next; (next = maybe_word()); last = next)
        read_condition(made, last);
    read_action(made, last);
    check_rule(made);
}

static void read_line(void)
{
    char *directive = maybe_word();
    if (!directive)
        return;
    if (!strcmp(directive, "device"))
        read_device();
    else if (!strcmp(directive, "extended"))
        read_extended();
    else if (!strcmp(directive, "port"))
        read_port();
    else if (!strcmp(directive, "gid"))
        read_gid();
    else if (!strcmp(directive, "on"))
        read_rule();
    else
        bad("unknown directive");
}

static void read_script(void)
{
    static int done;
    const char *path = getenv("FAKE_VERBS");
    FILE *file = done++ || !path ? NULL : fopen(path, "re");
    char *text = NULL;
    size_t room = 0;
    if (!file)
        return;
    while (getline(&text, &room, file) != -1) {
        text[strcspn(text, "#\n")] = '\0';
        line = strdup(text);
        rest = text;
        read_line();
        free(line);
    }
    free(text);
    fclose(file);
}

/* Every call begins with refusal(): it leaves a trace and does what the script wants. */

static int fail(const char *call, int number)
{
    switch (find_call(call)->failure) {
    case GIVES_ERRNO: return number;
    case GIVES_MINUS_ERRNO: return -number;
    default: errno = number; return -1;
    }
}

static int polls_again(const char *call, const struct fake_device *device)
{
    static int polled[MAX_DEVICES];
    if (strcmp(call, "poll_cq")) {
        memset(polled, 0, sizeof polled);
        return 0;
    }
    int *mark = &polled[device - devices], before = *mark;
    *mark = 1;
    return before;
}

static void trace(const char *call, const struct fake_device *device)
{
    const char *path = polls_again(call, device) ? NULL : getenv("FAKE_VERBS_TRACE");
    int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (file < 0)
        return;
    dprintf(file, "%s%s%s\n", call, device ? " " : "", device ? device->device.name : "");
    close(file);
}

static void warn(const char *text)
{
    fputs("libibverbs: Warning: ", stderr);
    for (; *text; text++)
        fputc(*text == '_' ? ' ' : *text, stderr);
    fputc('\n', stderr);
}

static void wait_milliseconds(uint64_t count)
{
    struct timespec left = {(time_t)(count / 1000), (long)(count % 1000) * 1000000};
    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}

static _Noreturn void hang(void)
{
    signal(SIGTERM, SIG_IGN);
    for (;;)
        pause();
}

static _Noreturn void spin(void)
{
    for (volatile unsigned turns = 0;; turns++)
        ;
}

static void event_by_rule(const struct fake_device *device, int type);

static void perform(const struct rule *rule, const struct fake_device *device)
{
    switch (rule->action) {
    case HANG: hang();
    case SPIN: spin();
    case CRASH: raise(SIGSEGV); break;
    case WARN: warn(rule->text); break;
    case SLOW: wait_milliseconds(rule->number); break;
    case EVENT: event_by_rule(device, (int)rule->number); break;
    default: break;
    }
}

/* Whether a rule is about what happens now, which it counts. */
static int applies(struct rule *rule, const char *call, const struct fake_device *device)
{
    if (strcmp(rule->call->name, call) || (rule->device && rule->device != device))
        return 0;
    uint64_t before = rule->seen++;
    return before >= rule->after && before - rule->after < rule->times;
}

/* A message or a completion to be changed: the rule that says how, or NULL. */
static const struct rule *change(enum action action, const struct fake_device *device)
{
    const struct rule *first = NULL;
    for (struct rule *rule = rules; rule < rules + rule_count; rule++)
        if (rule->action == action && applies(rule, rule->call->name, device) && !first)
            first = rule;
    return first;
}

/* 0: go on. Else errno is set as the call sets it, and a call that gives an int gives this. */
static int refusal(const char *call, const struct fake_device *device)
{
    int before = errno, refused = 0;
    read_script();
    trace(call, device);
    errno = before;
    for (struct rule *rule = rules; rule < rules + rule_count; rule++) {
        if (rule->action >= COMPLETE_AS || !applies(rule, call, device) || refused)
            continue;
        perform(rule, device);
        errno = before;
        if (rule->action == GIVE_NULL)
            refused = -1;
        else if (rule->action == FAIL)
            refused = fail(call, (int)rule->number);
    }
    return refused;
}

/*
 * Handles. The pages of a retired one are closed and never given out again: whoever still
 * reads through it faults, and it is never mistaken for a newer one.
 */

enum kind { DEVICE_LIST, CONTEXT, PD, MR, CQ, QP, XRCD, SRQ, FLOW, CHANNEL, AH };

static const char *const kinds[] = {"device list", "context", "pd",  "mr",   "cq",
                                    "qp",          "xrcd",    "srq", "flow", "completion channel",
                                    "address handle"};

struct handle {
    enum kind kind;
    const struct fake_device *device; /* NULL: a list */
    void *memory;
    size_t size;
    int live;
    struct handle *next;
};

static struct handle *handles;

static _Noreturn void misuse(const char *call, const char *what, const char *of)
{
    fprintf(stderr, "fake_verbs: %s: %s%s\n", call, what, of);
    abort();
}

enum { BEFORE = 65536 }; /* bytes before a handle, whole pages of any size: a verbs_context's */

static void *grant(enum kind kind, const struct fake_device *device, size_t size)
{
    struct handle *made = malloc(sizeof *made);
    const int pages = PROT_READ | PROT_WRITE, anonymous = MAP_PRIVATE | MAP_ANON;
    char *memory = mmap(NULL, BEFORE + size, pages, anonymous, -1, 0);
    if (!made || memory == MAP_FAILED)
        abort();
    memory += BEFORE;
    *made = (struct handle){kind, device, memory, size, 1, handles};
    handles = made;
    return memory;
}

static struct handle *granted(enum kind kind, const void *memory, const char *call)
{
    struct handle *handle = handles;
    while (handle && (handle->kind != kind || handle->memory != memory))
        handle = handle->next;
    if (!handle || !handle->live)
        misuse(call, handle ? "used after its end: a " : "not a ", kinds[kind]);
    return handle;
}

static void retire(enum kind kind, const void *memory, const char *call)
{
    struct handle *handle = granted(kind, memory, call);
    handle->live = 0;
    mprotect(handle->memory, handle->size, PROT_NONE);
}

/* How many are there; device NULL: of all devices. */
static int live(enum kind kind, const struct fake_device *device)
{
    int count = 0;
    for (const struct handle *handle = handles; handle; handle = handle->next)
        count += handle->live && handle->kind == kind && (!device || handle->device == device);
    return count;
}

static struct fake_device *opened(const struct ibv_context *context, const char *call)
{
    granted(CONTEXT, context, call);
    return (struct fake_device *)context->device;
}

/* A device is there for as long as a list or a context of it is. */
static int held(const struct fake_device *device)
{
    return live(DEVICE_LIST, NULL) || live(CONTEXT, device);
}

static struct fake_device *listed(const struct ibv_device *device, const char *call)
{
    for (int i = 0; i < device_count; i++)
        if (&devices[i].device == device && held(&devices[i]))
            return &devices[i];
    misuse(call, "a device that no list holds", "");
}

__attribute__((destructor)) static void tell_what_is_open(void)
{
    int pds = live(PD, NULL), mrs = live(MR, NULL), cqs = live(CQ, NULL), qps = live(QP, NULL);
    int contexts = live(CONTEXT, NULL);
    for (enum kind kind = XRCD; kind <= FLOW; kind++)
        if (live(kind, NULL))
            fprintf(stderr, "fake_verbs: %d of %s open\n", live(kind, NULL), kinds[kind]);
    if (pds || mrs || cqs || qps || contexts)
        fprintf(stderr, "fake_verbs: %d pds, %d mrs, %d cqs, %d qps, %d contexts open\n", pds, mrs,
                cqs, qps, contexts);
    if (live(CHANNEL, NULL))
        fprintf(stderr, "fake_verbs: %d completion channels open\n", live(CHANNEL, NULL));
}

#include "fake_queue_pairs.h"

static int has_events(const struct fake_device *device)
{
    int count = 0;
    for (const struct rule *rule = rules; rule < rules + rule_count; rule++)
        count += rule->action == EVENT;
    return count || device->attr.device_cap_flags & AUTO_PATH_MIG;
}

/* Devices and contexts. */

struct ibv_device **ibv_get_device_list(int *count)
{
    if (count)
        *count = 0;
    if (refusal(__func__, NULL))
        return NULL;
    struct ibv_device **list = grant(DEVICE_LIST, NULL, (MAX_DEVICES + 1) * sizeof *list);
    for (int i = 0; i < device_count; i++)
        list[i] = &devices[i].device;
    if (count)
        *count = device_count;
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    refusal(__func__, NULL);
    retire(DEVICE_LIST, list, __func__);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return refusal(__func__, listed(device, __func__)) ? NULL : device->name;
}

#ifndef DARWIN
uint64_t ibv_get_device_guid(struct ibv_device *device)
{
    struct fake_device *fake = listed(device, __func__);
    return refusal(__func__, fake) ? 0 : fake->attr.node_guid;
}
#endif

#ifndef DARWIN
static int query_port(struct ibv_context *context, uint8_t port_number, struct ibv_port_attr *attr,
                      size_t size);
static int query_device_ex(struct ibv_context *context, const void *input,
                           struct ibv_device_attr_ex *attr, size_t size);

static void extend(struct ibv_context *context, uint64_t sz)
{
    struct verbs_context *whole =
        (struct verbs_context *)((char *)context - offsetof(struct verbs_context, context));
    whole->query_port = query_port;
    whole->query_device_ex = query_device_ex;
    extend_rare(whole, (const struct fake_device *)context->device);
    whole->sz = sz;
    context->abi_compat = (void *)UINTPTR_MAX;
}
#endif

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    const struct fake_device *fake = listed(device, __func__);
    if (refusal(__func__, fake))
        return NULL;
    struct ibv_context *context = grant(CONTEXT, fake, sizeof *context);
    context->device = device;
    context->ops.poll_cq = poll_cq;
    context->ops.post_send = post_send;
    context->ops.post_recv = post_recv;
    context->cmd_fd = context->async_fd = -1;
    if (has_events(fake))
        open_events(context);
    context->num_comp_vectors = 1;
#ifndef DARWIN
    context->ops.req_notify_cq = req_notify_cq;
    if (fake->is_extended)
        extend(context, fake->sz);
#endif
    return context;
}

int ibv_close_device(struct ibv_context *context)
{
    int refused = refusal(__func__, opened(context, __func__));
    if (!refused) {
        close_events(context);
        retire(CONTEXT, context, __func__);
    }
    return refused;
}

/* Queries. */

static int query(const char *call, const struct ibv_context *context, uint8_t port_number,
                 struct fake_port **port)
{
    struct fake_device *device = opened(context, call);
    int refused = refusal(call, device);
    *port = find_port(device, port_number);
    return refused || *port ? refused : fail(call, EINVAL);
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    struct fake_device *device = opened(context, __func__);
    int refused = refusal(__func__, device);
    if (!refused)
        *attr = device->attr;
    return refused;
}

int ibv_query_port(struct ibv_context *context, uint8_t port_number, struct ibv_port_attr *attr)
{
    struct fake_port *port;
    int refused = query(__func__, context, port_number, &port);
    if (!refused)
        memcpy(attr, &port->attr, PORT_ATTR_WRITTEN);
    return refused;
}

#ifndef DARWIN
static int query_port(struct ibv_context *context, uint8_t port_number, struct ibv_port_attr *attr,
                      size_t size)
{
    struct fake_port *port;
    int refused = query("ibv_query_port", context, port_number, &port);
    if (!refused)
        memcpy(attr, &port->attr, size < sizeof port->attr ? size : sizeof port->attr);
    return refused;
}

static int query_device_ex(struct ibv_context *context, const void *input,
                           struct ibv_device_attr_ex *attr, size_t size)
{
    struct fake_device *device = opened(context, "ibv_query_device_ex");
    int refused = refusal("ibv_query_device_ex", device);
    if (input || size > sizeof *attr)
        return EINVAL;
    if (!refused) {
        memcpy(attr, &device->extended, size);
        attr->orig_attr = device->attr;
    }
    return refused;
}
#endif

int ibv_query_gid(struct ibv_context *context, uint8_t port_number, int index, union ibv_gid *gid)
{
    struct fake_port *port;
    int refused = query(__func__, context, port_number, &port);
    if (refused)
        return refused;
    if (index < 0 || index >= port->attr.gid_tbl_len)
        return fail(__func__, EINVAL);
    struct fake_gid *found = find_gid(port, (uint64_t)index);
    *gid = found ? found->entry.gid : (union ibv_gid){{0}};
    return 0;
}

/* The default partition is in the first slot, and nothing in the others. */
int ibv_query_pkey(struct ibv_context *context, uint8_t port_number, int index, uint16_t *pkey)
{
    struct fake_port *port;
    int refused = query(__func__, context, port_number, &port);
    if (refused)
        return refused;
    if (index < 0 || index >= port->attr.pkey_tbl_len)
        return fail(__func__, EINVAL);
    *pkey = index ? 0 : 0xffff;
    return 0;
}

#if !defined DARWIN && !defined NO_GID_TABLE
/* The rows that are not empty; that they do not fit is an error, as it is in the kernel. */
ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                             size_t max_entries, uint32_t flags, size_t entry_size)
{
    struct fake_device *device = opened(context, __func__);
    int refused = refusal(__func__, device);
    size_t count = 0;
    if (refused)
        return refused;
    if (flags || entry_size != sizeof *entries)
        return fail(__func__, EINVAL);
    for (int i = 0; i < device->port_count; i++)
        for (struct fake_gid *gid = device->ports[i].gids; gid; gid = gid->next) {
            if (!gid->entry.gid.halves[0] && !gid->entry.gid.halves[1])
                continue;
            if (count == max_entries)
                return fail(__func__, EINVAL);
            entries[count++] = gid->entry;
        }
    return (ssize_t)count;
}
#endif
