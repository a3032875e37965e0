/*
 * A verbs library without hardware: libibverbs of Linux, or with -DDARWIN Apple's librdma.
 * -DNO_GID_TABLE leaves out what libibverbs got in rdma-core 32.
 *
 * It answers from a script, the file that FAKE_VERBS names, read once at the first call.
 * No such file: no devices. A number that the script does not give is 0. A line that makes
 * no sense aborts. One directive a line; # begins a comment; a device comes before the lines
 * about it, a port before its GIDs:
 *
 *   device NAME node_type=N transport=N guid=0xN fw=TEXT FIELD=N...    fields of ibv_device_attr
 *   port NAME NUMBER FIELD=N...                                        fields of ibv_port_attr
 *   gid NAME NUMBER INDEX ADDRESS [type=N] [ifindex=N]
 *   on CALL [NAME] errno=N       fails in the way of that call
 *   on CALL [NAME] null          gives NULL and leaves errno alone
 *   on CALL [NAME] hang          never ends, and SIGTERM is ignored from then on
 *   on CALL [NAME] spin          never ends, and burns a core
 *   on CALL [NAME] crash         SIGSEGV
 *   on CALL [NAME] warn=A_TEXT   "libibverbs: Warning: A TEXT" on stderr, then goes on
 *   on CALL [NAME] slow=N        goes on after N milliseconds
 *
 * Several `on` lines about one call take effect in their order. The file that
 * FAKE_VERBS_TRACE names gets a line `CALL [NAME]` for every call. A misuse that the real
 * library may survive by luck aborts: a closed or unknown handle, a list freed twice, a
 * device of no list. A process that exits with contexts open says how many on stderr.
 *
 * Calls come from one thread at a time.
 */

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

#define CALLS(_)                                                                             \
    _(ibv_get_device_list, GIVES_NULL) _(ibv_free_device_list, CANNOT_FAIL)                  \
    _(ibv_get_device_name, GIVES_NULL) _(ibv_get_device_guid, GIVES_ZERO)                    \
    _(ibv_open_device, GIVES_NULL) _(ibv_close_device, GIVES_MINUS_ONE)                      \
    _(ibv_query_device, GIVES_ERRNO) _(ibv_query_port, GIVES_ERRNO)                          \
    _(ibv_query_gid, GIVES_MINUS_ONE) _(ibv_query_pkey, GIVES_MINUS_ONE)                     \
    _(_ibv_query_gid_table, GIVES_MINUS_ERRNO)

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

struct ibv_context {
    struct ibv_device *device;
    void *ops[32];
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

struct ibv_port_attr {
    PORT_NUMBERS(MEMBER)
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
_Static_assert(offsetof(struct ibv_context, abi_compat) == 280 + MUTEX_SIZE, "struct ibv_context");
_Static_assert(sizeof(struct ibv_device_attr) == 232, "struct ibv_device_attr");
_Static_assert(offsetof(struct ibv_port_attr, port_cap_flags2) == 48, "struct ibv_port_attr");
_Static_assert(sizeof(struct ibv_port_attr) == 56, "struct ibv_port_attr");
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

enum action { FAIL, GIVE_NULL, HANG, SPIN, CRASH, WARN, SLOW };

struct rule {
    const struct call *call;
    const struct fake_device *device; /* NULL: whatever the device */
    enum action action;
    uint64_t number;
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
} actions[] = {
    {"errno", FAIL, 1},  {"null", GIVE_NULL, 0}, {"hang", HANG, 0}, {"spin", SPIN, 0},
    {"crash", CRASH, 0}, {"warn", WARN, 1},      {"slow", SLOW, 1},
};

static void read_action(struct rule *made, char *pair)
{
    char *name = strsep(&pair, "=");
    size_t i = 0, count = sizeof actions / sizeof *actions;
    while (i < count && (strcmp(actions[i].word, name) || actions[i].has_value != !!pair))
        i++;
    if (i == count)
        bad("unknown action");
    made->action = actions[i].action;
    if (made->action == WARN)
        made->text = strdup(pair);
    else if (pair)
        made->number = to_number(pair);
}

static void check_rule(const struct rule *made)
{
    enum convention failure = made->call->failure;
    if (made->action == FAIL && (failure == CANNOT_FAIL || !made->number))
        bad("not a failure of this call");
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
    char *first = word(), *second = maybe_word();
    if (second && !(made->device = find_device(first)))
        bad("no such device above");
    read_action(made, second ? second : first);
    if (maybe_word())
        bad("too many words");
    check_rule(made);
}

static void read_line(void)
{
    char *directive = maybe_word();
    if (!directive)
        return;
    if (!strcmp(directive, "device"))
        read_device();
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

static void trace(const char *call, const struct fake_device *device)
{
    const char *path = getenv("FAKE_VERBS_TRACE");
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

static void perform(const struct rule *rule)
{
    switch (rule->action) {
    case HANG: hang();
    case SPIN: spin();
    case CRASH: raise(SIGSEGV); break;
    case WARN: warn(rule->text); break;
    case SLOW: wait_milliseconds(rule->number); break;
    case FAIL:
    case GIVE_NULL: break;
    }
}

/* 0: go on. Else errno is set as the call sets it, and a call that gives an int gives this. */
static int refusal(const char *call, const struct fake_device *device)
{
    int before = errno;
    read_script();
    trace(call, device);
    for (const struct rule *rule = rules; rule < rules + rule_count; rule++) {
        if (strcmp(rule->call->name, call) || (rule->device && rule->device != device))
            continue;
        perform(rule);
        errno = before;
        if (rule->action == GIVE_NULL)
            return -1;
        if (rule->action == FAIL)
            return fail(call, (int)rule->number);
    }
    errno = before;
    return 0;
}

/*
 * Handles. The pages of a retired one are closed and never given out again: whoever still
 * reads through it faults, and it is never mistaken for a newer one.
 */

enum kind { DEVICE_LIST, CONTEXT };

static const char *const kinds[] = {"device list", "context"};

struct handle {
    enum kind kind;
    void *memory;
    size_t size;
    int live;
    struct handle *next;
};

static struct handle *handles;

static void *grant(enum kind kind, size_t size)
{
    struct handle *made = malloc(sizeof *made);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    if (!made || memory == MAP_FAILED)
        abort();
    *made = (struct handle){kind, memory, size, 1, handles};
    handles = made;
    return memory;
}

static struct handle *granted(enum kind kind, const void *memory, const char *call)
{
    struct handle *handle = handles;
    while (handle && (handle->kind != kind || handle->memory != memory))
        handle = handle->next;
    if (handle && handle->live)
        return handle;
    fprintf(stderr, "fake_verbs: %s: %s %s\n", call, handle ? "used after its end: a" : "not a",
            kinds[kind]);
    abort();
}

static void retire(enum kind kind, const void *memory, const char *call)
{
    struct handle *handle = granted(kind, memory, call);
    handle->live = 0;
    mprotect(handle->memory, handle->size, PROT_NONE);
}

static int live(enum kind kind)
{
    int count = 0;
    for (const struct handle *handle = handles; handle; handle = handle->next)
        count += handle->live && handle->kind == kind;
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
    for (const struct handle *handle = handles; handle; handle = handle->next) {
        if (!handle->live)
            continue;
        if (handle->kind == DEVICE_LIST)
            return 1;
        if (((struct ibv_context *)handle->memory)->device == &device->device)
            return 1;
    }
    return 0;
}

static struct fake_device *listed(const struct ibv_device *device, const char *call)
{
    for (int i = 0; i < device_count; i++)
        if (&devices[i].device == device && held(&devices[i]))
            return &devices[i];
    fprintf(stderr, "fake_verbs: %s: a device that no list holds\n", call);
    abort();
}

__attribute__((destructor)) static void tell_what_is_open(void)
{
    int count = live(CONTEXT);
    if (count)
        fprintf(stderr, "fake_verbs: %d contexts open\n", count);
}

/* Devices and contexts. */

struct ibv_device **ibv_get_device_list(int *count)
{
    if (count)
        *count = 0;
    if (refusal(__func__, NULL))
        return NULL;
    struct ibv_device **list = grant(DEVICE_LIST, (MAX_DEVICES + 1) * sizeof *list);
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

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    if (refusal(__func__, listed(device, __func__)))
        return NULL;
    struct ibv_context *context = grant(CONTEXT, sizeof *context);
    context->device = device;
    context->cmd_fd = context->async_fd = -1;
    context->num_comp_vectors = 1;
    return context;
}

int ibv_close_device(struct ibv_context *context)
{
    int refused = refusal(__func__, opened(context, __func__));
    if (!refused)
        retire(CONTEXT, context, __func__);
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
