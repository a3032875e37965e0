/* A reply to DCB_CMD_IEEE_GET by the kernel's own structures, on stdout; numbers are the test's. */
#include <linux/dcbnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>

static char buffer[4096];
static size_t length = NLMSG_HDRLEN;

static size_t put(int kind, const void *content, size_t size)
{
	struct nlattr *attribute = (struct nlattr *)(buffer + length);
	size_t at = length;

	attribute->nla_type = kind;
	attribute->nla_len = NLA_HDRLEN + size;
	if (size)
		memcpy(buffer + length + NLA_HDRLEN, content, size);
	length += NLA_ALIGN(NLA_HDRLEN + size);
	return at;
}

static void end(size_t at)
{
	((struct nlattr *)(buffer + at))->nla_len = length - at;
}

static void app(int selector, int protocol, int priority)
{
	struct dcb_app entry = {
		.selector = selector, .protocol = protocol, .priority = priority
	};

	put(DCB_ATTR_IEEE_APP, &entry, sizeof(entry));
}

int main(void)
{
	struct nlmsghdr *message = (struct nlmsghdr *)buffer;
	struct dcbmsg *head = (struct dcbmsg *)(buffer + length);
	struct ieee_ets ets = {
		.willing = 1, .ets_cap = 8, .cbs = 1,
		.tc_tx_bw = { 10, 20, 30, 40 }, .tc_rx_bw = { 9, 9, 9, 9 },
		.tc_tsa = { IEEE_8021QAZ_TSA_ETS, IEEE_8021QAZ_TSA_CB_SHAPER,
			    IEEE_8021QAZ_TSA_STRICT, IEEE_8021QAZ_TSA_VENDOR },
		.prio_tc = { 0, 1, 2, 3, 4, 5, 6, 7 },
	};
	struct ieee_pfc pfc = { .pfc_cap = 4, .pfc_en = 0x28, .mbc = 1, .delay = 32768 };
	struct ieee_pfc peer = { .pfc_cap = 8, .pfc_en = 0x08 };
	struct dcbnl_buffer sizes = {
		.prio2buffer = { 0, 0, 0, 1, 0, 2, 0, 0 },
		.buffer_size = { 10000, 200000, 300000 }, .total_size = 510000,
	};
	__u8 dcbx = DCB_CAP_DCBX_LLD_MANAGED | DCB_CAP_DCBX_VER_IEEE | DCB_CAP_DCBX_STATIC;
	size_t ieee, table;

	head->cmd = DCB_CMD_IEEE_GET;
	length += NLMSG_ALIGN(sizeof(*head));
	put(DCB_ATTR_IFNAME, "eth0", 5);
	ieee = put(DCB_ATTR_IEEE, 0, 0);
	put(DCB_ATTR_IEEE_ETS, &ets, sizeof(ets));
	put(DCB_ATTR_IEEE_PFC, &pfc, sizeof(pfc));
	put(DCB_ATTR_DCB_BUFFER, &sizes, sizeof(sizes));
	table = put(DCB_ATTR_IEEE_APP_TABLE, 0, 0);
	app(IEEE_8021QAZ_APP_SEL_DSCP, 26, 3);
	app(IEEE_8021QAZ_APP_SEL_ETHERTYPE, 0x8915, 3);
	app(IEEE_8021QAZ_APP_SEL_DGRAM, 4791, 5);
	end(table);
	put(DCB_ATTR_IEEE_PEER_PFC, &peer, sizeof(peer));
	table = put(DCB_ATTR_IEEE_PEER_APP, 0, 0);
	app(IEEE_8021QAZ_APP_SEL_ANY, 80, 1);
	end(table);
	end(ieee);
	put(DCB_ATTR_DCBX, &dcbx, 1);
	message->nlmsg_len = length;
	message->nlmsg_type = RTM_GETDCB;
	fwrite(buffer, 1, length, stdout);
	return 0;
}
