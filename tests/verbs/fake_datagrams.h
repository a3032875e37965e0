/*
 * UD queue pairs, on Linux where a device has max_mcast_grp: SEND to an address handle, and
 * multicast groups of one subnet that all devices are in.
 *
 * A datagram is lost, and nobody learns of it, unless its address is the receiver's port, its
 * Q_Key the receiver's, both ports are ACTIVE and a receive is posted. Before it come 40 bytes:
 * a GRH, or 20 bytes of nothing and an IPv4 header where both GIDs are IPv4 addresses. Members
 * of a group get what they send themselves, as on soft RoCE.
 */

enum { GRH_SIZE = 40, IPV4_SIZE = 20, MULTICAST_QP = 0xffffff, WC_GRH = 1 };

struct fake_member {
    struct fake_qp *qp;
    union ibv_gid group;
    struct fake_member *next;
};

static struct fake_member *members;

static int is_member(const struct fake_qp *qp, const union ibv_gid *group)
{
    for (const struct fake_member *each = members; each; each = each->next)
        if (each->qp == qp && (!group || !memcmp(&each->group, group, sizeof *group)))
            return 1;
    return 0;
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *group, uint16_t lid)
{
    int refused = refusal(__func__, owner(QP, qp, __func__));
    (void)lid;
    if (refused || qp->qp_type != UD)
        return refused ? refused : EINVAL;
    struct fake_member *made = malloc(sizeof *made);
    if (!made)
        abort();
    *made = (struct fake_member){(struct fake_qp *)qp, *group, members};
    members = made;
    return 0;
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *group, uint16_t lid)
{
    int refused = refusal(__func__, owner(QP, qp, __func__));
    (void)lid;
    for (struct fake_member **at = &members; !refused && *at; at = &(*at)->next) {
        struct fake_member *found = *at;
        if (found->qp != (struct fake_qp *)qp || memcmp(&found->group, group, sizeof *group))
            continue;
        *at = found->next;
        free(found);
        return 0;
    }
    return refused ? refused : EINVAL;
}

static int is_ipv4(const uint8_t *gid)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    return !memcmp(gid, mapped, sizeof mapped);
}

static void put_header(uint8_t *grh, const uint8_t *source, const uint8_t *target)
{
    memset(grh, 0xa5, GRH_SIZE);
    if (is_ipv4(source) && is_ipv4(target)) {
        uint8_t *ip = grh + GRH_SIZE - IPV4_SIZE;
        uint32_t sum = 0;
        memset(ip, 0, IPV4_SIZE);
        ip[0] = 0x45;
        ip[8] = 64;
        ip[9] = 17;
        memcpy(ip + 12, source + 12, 4);
        memcpy(ip + 16, target + 12, 4);
        for (int at = 0; at < IPV4_SIZE; at += 2)
            sum += (uint32_t)ip[at] << 8 | ip[at + 1];
        sum = (sum & 0xffff) + (sum >> 16);
        ip[10] = (uint8_t)(~sum >> 8);
        ip[11] = (uint8_t)~sum;
        return;
    }
    grh[0] = 0x60;
    memcpy(grh + 8, source, 16);
    memcpy(grh + 24, target, 16);
}

static void receive_datagram(struct fake_qp *to, const struct fake_qp *from,
                             const struct ibv_ah_attr *way, const struct message *message,
                             const struct ibv_send_wr *wr)
{
    if (!to->receives || (to->qp.state != RTR && to->qp.state != RTS) ||
        to->attr.qkey != wr->wr.ud.remote_qkey || to->port->attr.state != PORT_ACTIVE)
        return;
    struct message *whole = calloc(1, sizeof *whole + GRH_SIZE + message->size);
    if (!whole)
        abort();
    whole->size = GRH_SIZE + message->size;
    memcpy(whole->bytes + GRH_SIZE, message->bytes, message->size);
    if (way->is_global) {
        const struct fake_gid *source = find_gid(from->port, way->sgid_index);
        put_header(whole->bytes, source->entry.gid.raw, way->dgid.raw);
    }
    struct receive *receive = take_receive(to);
    int status = scatter(to, receive, whole);
    struct ibv_wc wc = outcome(to, receive->wr_id, status);
    free(receive);
    if (!status) {
        wc.opcode = WC_RECV;
        wc.byte_len = (uint32_t)whole->size;
        wc.src_qp = from->qp.qp_num;
        wc.slid = (uint16_t)from->port->attr.lid;
        wc.wc_flags = way->is_global ? WC_GRH : 0;
    }
    complete(to, to->qp.recv_cq, wc, 0, wr->send_flags & SEND_SOLICITED);
    if (status)
        enter_error(to);
    free(whole);
}

static void transmit_datagram(struct fake_qp *from, const struct message *message,
                              const struct ibv_send_wr *wr)
{
    struct fake_ah *ah = (struct fake_ah *)(uintptr_t)wr->wr.ud.ah;
    granted(AH, ah, "post_send");
    if (from->port->attr.state != PORT_ACTIVE)
        return;
    for (struct handle *handle = handles, *next; handle; handle = next) {
        struct fake_qp *to = handle->memory;
        next = handle->next;
        if (!handle->live || handle->kind != QP || to->qp.qp_type != UD || !to->port)
            continue;
        if (wr->wr.ud.remote_qpn == MULTICAST_QP
                ? is_member(to, &ah->attr.dgid)
                : to->qp.qp_num == wr->wr.ud.remote_qpn && is_address_of(to->port, &ah->attr))
            receive_datagram(to, from, &ah->attr, message, wr);
    }
}
