/* Replies of ethtool netlink by the kernel's own names, on stdout; numbers are the test's. */
#include <linux/ethtool_netlink.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <string.h>

static char buffer[4096];
static size_t length;

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

static size_t nest(int kind)
{
	return put(kind | NLA_F_NESTED, NULL, 0);
}

static void end(size_t at)
{
	((struct nlattr *)(buffer + at))->nla_len = length - at;
}

static void u8(int kind, __u8 value)
{
	put(kind, &value, sizeof(value));
}

static void u32(int kind, __u32 value)
{
	put(kind, &value, sizeof(value));
}

static void bit(__u32 index, const char *name, int set)
{
	size_t at = nest(ETHTOOL_A_BITSET_BITS_BIT);

	u32(ETHTOOL_A_BITSET_BIT_INDEX, index);
	put(ETHTOOL_A_BITSET_BIT_NAME, name, strlen(name) + 1);
	if (set)
		put(ETHTOOL_A_BITSET_BIT_VALUE, NULL, 0);
	end(at);
}

static size_t bits(int kind, int listed, size_t *inner)
{
	size_t at = nest(kind);

	if (listed)
		put(ETHTOOL_A_BITSET_NOMASK, NULL, 0);
	u32(ETHTOOL_A_BITSET_SIZE, 93);
	*inner = nest(ETHTOOL_A_BITSET_BITS);
	return at;
}

static void begin(int command, int header)
{
	struct genlmsghdr *generic = (struct genlmsghdr *)(buffer + NLMSG_HDRLEN);
	size_t at;

	memset(buffer, 0, sizeof(buffer));
	generic->cmd = command;
	length = NLMSG_HDRLEN + GENL_HDRLEN;
	at = nest(header);
	u32(ETHTOOL_A_HEADER_DEV_INDEX, 7);
	put(ETHTOOL_A_HEADER_DEV_NAME, "eth0", 5);
	end(at);
}

static void done(void)
{
	((struct nlmsghdr *)buffer)->nlmsg_len = length;
	((struct nlmsghdr *)buffer)->nlmsg_type = 21;
	fwrite(buffer, 1, length, stdout);
}

int main(void)
{
	size_t outer, inner;

	begin(ETHTOOL_MSG_LINKSTATE_GET_REPLY, ETHTOOL_A_LINKSTATE_HEADER);
	u8(ETHTOOL_A_LINKSTATE_LINK, 0);
	u8(ETHTOOL_A_LINKSTATE_EXT_STATE, ETHTOOL_LINK_EXT_STATE_BAD_SIGNAL_INTEGRITY);
	u8(ETHTOOL_A_LINKSTATE_EXT_SUBSTATE, ETHTOOL_LINK_EXT_SUBSTATE_BSI_SERDES_ALOS);
	done();

	begin(ETHTOOL_MSG_LINKMODES_GET_REPLY, ETHTOOL_A_LINKMODES_HEADER);
	u8(ETHTOOL_A_LINKMODES_AUTONEG, AUTONEG_ENABLE);
	outer = bits(ETHTOOL_A_LINKMODES_OURS, 0, &inner);
	bit(ETHTOOL_LINK_MODE_Autoneg_BIT, "Autoneg", 1);
	bit(ETHTOOL_LINK_MODE_25000baseCR_Full_BIT, "25000baseCR/Full", 1);
	bit(ETHTOOL_LINK_MODE_100000baseCR4_Full_BIT, "100000baseCR4/Full", 0);
	end(inner);
	end(outer);
	outer = bits(ETHTOOL_A_LINKMODES_PEER, 1, &inner);
	bit(ETHTOOL_LINK_MODE_100000baseCR4_Full_BIT, "100000baseCR4/Full", 0);
	end(inner);
	end(outer);
	u32(ETHTOOL_A_LINKMODES_SPEED, SPEED_25000);
	u8(ETHTOOL_A_LINKMODES_DUPLEX, DUPLEX_FULL);
	u32(ETHTOOL_A_LINKMODES_LANES, 1);
	done();

	begin(ETHTOOL_MSG_PAUSE_GET_REPLY, ETHTOOL_A_PAUSE_HEADER);
	u8(ETHTOOL_A_PAUSE_AUTONEG, 0);
	u8(ETHTOOL_A_PAUSE_RX, 1);
	u8(ETHTOOL_A_PAUSE_TX, 0);
	done();

	begin(ETHTOOL_MSG_FEC_GET_REPLY, ETHTOOL_A_FEC_HEADER);
	outer = bits(ETHTOOL_A_FEC_MODES, 1, &inner);
	bit(ETHTOOL_LINK_MODE_FEC_BASER_BIT, "BASER", 0);
	bit(ETHTOOL_LINK_MODE_FEC_LLRS_BIT, "LLRS", 0);
	end(inner);
	end(outer);
	u8(ETHTOOL_A_FEC_AUTO, 1);
	u32(ETHTOOL_A_FEC_ACTIVE, ETHTOOL_LINK_MODE_FEC_RS_BIT);
	done();

	begin(ETHTOOL_MSG_RINGS_GET_REPLY, ETHTOOL_A_RINGS_HEADER);
	u32(ETHTOOL_A_RINGS_RX_MAX, 8192);
	u32(ETHTOOL_A_RINGS_TX_MAX, 4096);
	u32(ETHTOOL_A_RINGS_RX, 1024);
	u32(ETHTOOL_A_RINGS_TX, 512);
	done();

	begin(ETHTOOL_MSG_FEC_GET_REPLY, ETHTOOL_A_FEC_HEADER);
	u32(ETHTOOL_A_FEC_ACTIVE, ETHTOOL_LINK_MODE_FEC_RS_BIT);
	outer = nest(ETHTOOL_A_FEC_STATS);
	put(ETHTOOL_A_FEC_STAT_CORRECTED, (__u64[]){ 100 }, sizeof(__u64));
	put(ETHTOOL_A_FEC_STAT_UNCORR, NULL, 0);
	put(ETHTOOL_A_FEC_STAT_CORR_BITS, (__u64[]){ 1ULL << 40, 1ULL << 40, 0 }, 3 * sizeof(__u64));
	end(outer);
	done();

	begin(ETHTOOL_MSG_STATS_GET_REPLY, ETHTOOL_A_STATS_HEADER);
	outer = nest(ETHTOOL_A_STATS_GRP);
	u32(ETHTOOL_A_STATS_GRP_ID, ETHTOOL_STATS_ETH_PHY);
	u32(ETHTOOL_A_STATS_GRP_SS_ID, ETH_SS_STATS_ETH_PHY);
	inner = nest(ETHTOOL_A_STATS_GRP_STAT);
	put(ETHTOOL_A_STATS_ETH_PHY_5_SYM_ERR, (__u64[]){ 7 }, sizeof(__u64));
	end(inner);
	end(outer);
	done();

	/* The request for them: no reply, but the kernel's numbers all the same. */
	begin(ETHTOOL_MSG_STATS_GET, ETHTOOL_A_STATS_HEADER);
	outer = nest(ETHTOOL_A_STATS_GROUPS);
	put(ETHTOOL_A_BITSET_NOMASK, NULL, 0);
	inner = nest(ETHTOOL_A_BITSET_BITS);
	{
		size_t one = nest(ETHTOOL_A_BITSET_BITS_BIT);

		u32(ETHTOOL_A_BITSET_BIT_INDEX, ETHTOOL_STATS_ETH_PHY);
		end(one);
	}
	end(inner);
	end(outer);
	done();
	return 0;
}
