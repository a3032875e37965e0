// SPDX-License-Identifier: GPL-2.0-only
/*
 * A netdev whose Data Center Bridging is all memory: soft RoCE runs on it, and what a DCB-capable
 * NIC would answer is set on it.
 *
 *     ip link add dcb0 type dcbtest
 *     dcb pfc set dev dcb0 prio-pfc 3:on
 *     echo 'pfc buffer' > /sys/class/net/dcb0/dcbtest/refused    # as a driver that has neither
 *     echo '8 8' > /sys/class/net/dcb0/dcbtest/peer_pfc          # pfc_cap, pfc_en of the peer
 *     echo '5:26:3 1:35093:3' > .../dcbtest/peer_app             # selector:protocol:priority
 *     echo '0 0 0 1 0 0 0 0  40 60 0 0 0 0 0 0' > .../peer_ets   # prio_tc, then tc_tx_bw
 *
 * And what ethtool shows of a link: pause and FEC are set by ethtool -A and --set-fec, the carrier
 * by ip link set dev dcb0 carrier off.
 *
 *     echo '4' > .../down_because          # ETHTOOL_LINK_EXT_STATE_*, and perhaps a substate
 *     echo '36,31' > .../supported         # ETHTOOL_LINK_MODE_*_BIT; advertised, peer_modes alike
 *     echo '25000 1' > .../speed           # Mb/s, lanes
 *     echo '100 0 160' > .../fec_stats     # blocks corrected, and not; perhaps bits corrected
 *     echo '10 0 150 0' > .../fec_lanes    # bits corrected, by lane; none: not counted by lane
 *     echo '7' > .../symbol_errors         # SymbolErrorDuringCarrier; -: not counted
 *     echo '0x50 0 0 1106' > .../eeprom    # I2C address, page, offset, bytes; -: no module
 *     echo '2 1' > .../power_mode          # ETHTOOL_MODULE_POWER_MODE_POLICY_*, _MODE_*; -: neither
 *
 * What is sent on it is dropped; a queue pair reaches others on the same netdev, since rxe loops
 * back what it sends to its own address.
 */
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#if __has_include(<linux/hex.h>)
#include <linux/hex.h>
#else
#include <linux/kernel.h>
#endif
#include <linux/linkmode.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/version.h>
#include <net/dcbnl.h>
#include <net/rtnetlink.h>

#define MOST 64
#define PAGES 48

enum { ETS, PFC, BUFFER, TRUST, DCBX, FEATURES };
static const char *const feature_names[FEATURES] = { "ets", "pfc", "buffer", "trust", "dcbx" };

struct dcbtest {
	unsigned long refused; /* bits of the enum */
	struct ieee_ets ets, peer_ets;
	struct ieee_pfc pfc, peer_pfc;
	struct dcbnl_buffer buffer;
	struct dcb_app peer_app[MOST];
	u16 peer_apps;
	bool has_peer_ets, has_peer_pfc, has_peer_app;
	u8 dcbx;
	u8 trust[MOST];
	int trusted;
	u8 down_because[2];
	int down_because_given; /* how many of the two */
	__ETHTOOL_DECLARE_LINK_MODE_MASK(supported);
	__ETHTOOL_DECLARE_LINK_MODE_MASK(advertised);
	__ETHTOOL_DECLARE_LINK_MODE_MASK(peer_modes);
	u32 speed, lanes;
	u32 fec;
	u64 fec_corrected, fec_uncorrectable, fec_bits;
	u64 fec_lanes[ETHTOOL_MAX_LANES];
	int fec_counted, fec_lanes_counted; /* how many of the numbers are given */
	u64 symbol_errors;
	bool has_symbol_errors;
	bool has_module;
	u8 eeprom[2][PAGES][256]; /* 0x50 and 0x51; the lower half of each page is that of page 0 */
	u8 power_mode[2];
	bool has_power_mode;
	bool pause_rx, pause_tx;
};

#define REFUSED(dev, what) test_bit(what, &((struct dcbtest *)netdev_priv(dev))->refused)

#define ACCESSORS(name, type, what)                                       \
	static int get_##name(struct net_device *dev, type *value)        \
	{                                                                 \
		if (REFUSED(dev, what))                                   \
			return -EOPNOTSUPP;                               \
		*value = ((struct dcbtest *)netdev_priv(dev))->name;      \
		return 0;                                                 \
	}                                                                 \
	static int set_##name(struct net_device *dev, type *value)        \
	{                                                                 \
		if (REFUSED(dev, what))                                   \
			return -EOPNOTSUPP;                               \
		((struct dcbtest *)netdev_priv(dev))->name = *value;      \
		return 0;                                                 \
	}

ACCESSORS(ets, struct ieee_ets, ETS)
ACCESSORS(pfc, struct ieee_pfc, PFC)
ACCESSORS(buffer, struct dcbnl_buffer, BUFFER)

static int peer_getets(struct net_device *dev, struct ieee_ets *ets)
{
	struct dcbtest *own = netdev_priv(dev);

	*ets = own->peer_ets;
	return own->has_peer_ets ? 0 : -EOPNOTSUPP;
}

static int peer_getpfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct dcbtest *own = netdev_priv(dev);

	*pfc = own->peer_pfc;
	return own->has_peer_pfc ? 0 : -EOPNOTSUPP;
}

static int peer_getappinfo(struct net_device *dev, struct dcb_peer_app_info *info, u16 *count)
{
	struct dcbtest *own = netdev_priv(dev);

	memset(info, 0, sizeof(*info));
	*count = own->peer_apps;
	return own->has_peer_app ? 0 : -EOPNOTSUPP;
}

static int peer_getapptable(struct net_device *dev, struct dcb_app *table)
{
	struct dcbtest *own = netdev_priv(dev);

	memcpy(table, own->peer_app, own->peer_apps * sizeof(*table));
	return 0;
}

static u8 get_dcbx(struct net_device *dev)
{
	return ((struct dcbtest *)netdev_priv(dev))->dcbx;
}

static u8 set_dcbx(struct net_device *dev, u8 mode)
{
	if (REFUSED(dev, DCBX))
		return 1;
	((struct dcbtest *)netdev_priv(dev))->dcbx = mode;
	return 0;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
static int get_trust(struct net_device *dev, u8 *selectors, int *count)
{
	struct dcbtest *own = netdev_priv(dev);

	if (REFUSED(dev, TRUST) || own->trusted < 0)
		return -EOPNOTSUPP;
	memcpy(selectors, own->trust, own->trusted);
	*count = own->trusted;
	return 0;
}

static int set_trust(struct net_device *dev, u8 *selectors, int count)
{
	struct dcbtest *own = netdev_priv(dev);

	if (REFUSED(dev, TRUST) || count > MOST)
		return -EOPNOTSUPP;
	memcpy(own->trust, selectors, count);
	own->trusted = count;
	return 0;
}
#endif

static const struct dcbnl_rtnl_ops dcb_ops = {
	.ieee_getets = get_ets,
	.ieee_setets = set_ets,
	.ieee_getpfc = get_pfc,
	.ieee_setpfc = set_pfc,
	.ieee_peer_getets = peer_getets,
	.ieee_peer_getpfc = peer_getpfc,
	.peer_getappinfo = peer_getappinfo,
	.peer_getapptable = peer_getapptable,
	.dcbnl_getbuffer = get_buffer,
	.dcbnl_setbuffer = set_buffer,
	.getdcbx = get_dcbx,
	.setdcbx = set_dcbx,
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
	.dcbnl_getapptrust = get_trust,
	.dcbnl_setapptrust = set_trust,
#endif
};

/* --- what ethtool shows -------------------------------------------------------------------- */

static int link_ext_state(struct net_device *dev, struct ethtool_link_ext_state_info *info)
{
	struct dcbtest *own = netdev_priv(dev);

	if (!own->down_because_given)
		return -ENODATA;
	info->link_ext_state = own->down_because[0];
	if (own->down_because_given > 1)
		info->__link_ext_substate = own->down_because[1];
	return 0;
}

static int link_modes(struct net_device *dev, struct ethtool_link_ksettings *into)
{
	struct dcbtest *own = netdev_priv(dev);

	if (linkmode_empty(own->supported))
		return -EOPNOTSUPP;
	linkmode_copy(into->link_modes.supported, own->supported);
	linkmode_copy(into->link_modes.advertising, own->advertised);
	linkmode_copy(into->link_modes.lp_advertising, own->peer_modes);
	into->base.speed = netif_carrier_ok(dev) ? own->speed : SPEED_UNKNOWN;
	into->base.duplex = netif_carrier_ok(dev) ? DUPLEX_FULL : DUPLEX_UNKNOWN;
	into->base.autoneg = AUTONEG_ENABLE;
	into->lanes = own->lanes;
	return 0;
}

static void get_pause(struct net_device *dev, struct ethtool_pauseparam *pause)
{
	struct dcbtest *own = netdev_priv(dev);

	pause->rx_pause = own->pause_rx;
	pause->tx_pause = own->pause_tx;
}

static int set_pause(struct net_device *dev, struct ethtool_pauseparam *pause)
{
	struct dcbtest *own = netdev_priv(dev);

	own->pause_rx = pause->rx_pause;
	own->pause_tx = pause->tx_pause;
	return 0;
}

static int get_fec(struct net_device *dev, struct ethtool_fecparam *fec)
{
	fec->fec = fec->active_fec = ((struct dcbtest *)netdev_priv(dev))->fec;
	return 0;
}

static int set_fec(struct net_device *dev, struct ethtool_fecparam *fec)
{
	((struct dcbtest *)netdev_priv(dev))->fec = fec->fec;
	return 0;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0)
static void fec_stats(struct net_device *dev, struct ethtool_fec_stats *stats,
		      struct ethtool_fec_hist *hist)
#else
static void fec_stats(struct net_device *dev, struct ethtool_fec_stats *stats)
#endif
{
	struct dcbtest *own = netdev_priv(dev);

	if (!own->fec_counted)
		return;
	stats->corrected_blocks.total = own->fec_corrected;
	stats->uncorrectable_blocks.total = own->fec_uncorrectable;
	if (own->fec_counted > 2)
		stats->corrected_bits.total = own->fec_bits;
	memcpy(stats->corrected_bits.lanes, own->fec_lanes,
	       own->fec_lanes_counted * sizeof(*own->fec_lanes));
}

static void eth_phy_stats(struct net_device *dev, struct ethtool_eth_phy_stats *stats)
{
	struct dcbtest *own = netdev_priv(dev);

	if (own->has_symbol_errors)
		stats->SymbolErrorDuringCarrier = own->symbol_errors;
}

static int module_eeprom(struct net_device *dev, const struct ethtool_module_eeprom *wanted,
			 struct netlink_ext_ack *extack)
{
	struct dcbtest *own = netdev_priv(dev);
	u8(*pages)[256] = own->eeprom[wanted->i2c_address == 0x51];

	if (!own->has_module)
		return -ENODEV;
	if (wanted->bank || wanted->page >= PAGES || wanted->offset + wanted->length > 256)
		return -EINVAL;
	memcpy(wanted->data, pages[wanted->offset < 128 ? 0 : wanted->page] + wanted->offset,
	       wanted->length);
	return wanted->length;
}

static int module_power_mode(struct net_device *dev, struct ethtool_module_power_mode_params *into,
			     struct netlink_ext_ack *extack)
{
	struct dcbtest *own = netdev_priv(dev);

	if (!own->has_power_mode)
		return -EOPNOTSUPP;
	into->policy = own->power_mode[0];
	into->mode = own->power_mode[1];
	return 0;
}

static const struct ethtool_ops ethtool_ops = {
	.cap_link_lanes_supported = true,
	.get_link = ethtool_op_get_link,
	.get_link_ext_state = link_ext_state,
	.get_link_ksettings = link_modes,
	.get_pauseparam = get_pause,
	.set_pauseparam = set_pause,
	.get_fecparam = get_fec,
	.set_fecparam = set_fec,
	.get_fec_stats = fec_stats,
	.get_eth_phy_stats = eth_phy_stats,
	.get_module_eeprom_by_page = module_eeprom,
	.get_module_power_mode = module_power_mode,
};

/* --- what no tool can set ------------------------------------------------------------------ */

static int numbers(const char *text, u8 *into, int most)
{
	int count = 0, taken, value;

	while (count < most && sscanf(text, "%i%n", &value, &taken) == 1) {
		into[count++] = value;
		text += taken;
	}
	return count;
}

static ssize_t refused_store(struct device *device, struct device_attribute *attribute,
			     const char *text, size_t size)
{
	struct dcbtest *own = netdev_priv(to_net_dev(device));
	int each;

	own->refused = 0;
	for (each = 0; each < FEATURES; each++)
		if (strstr(text, feature_names[each]))
			set_bit(each, &own->refused);
	return size;
}

static ssize_t peer_pfc_store(struct device *device, struct device_attribute *attribute,
			      const char *text, size_t size)
{
	struct dcbtest *own = netdev_priv(to_net_dev(device));
	u8 found[2];

	own->has_peer_pfc = numbers(text, found, 2) == 2;
	if (own->has_peer_pfc) {
		own->peer_pfc.pfc_cap = found[0];
		own->peer_pfc.pfc_en = found[1];
	}
	return size;
}

static ssize_t peer_ets_store(struct device *device, struct device_attribute *attribute,
			      const char *text, size_t size)
{
	struct dcbtest *own = netdev_priv(to_net_dev(device));
	u8 found[2 * IEEE_8021QAZ_MAX_TCS];

	own->has_peer_ets = numbers(text, found, sizeof(found)) == sizeof(found);
	if (own->has_peer_ets) {
		memset(&own->peer_ets, 0, sizeof(own->peer_ets));
		own->peer_ets.ets_cap = IEEE_8021QAZ_MAX_TCS;
		memcpy(own->peer_ets.prio_tc, found, IEEE_8021QAZ_MAX_TCS);
		memcpy(own->peer_ets.tc_tx_bw, found + IEEE_8021QAZ_MAX_TCS, IEEE_8021QAZ_MAX_TCS);
	}
	return size;
}

static ssize_t peer_app_store(struct device *device, struct device_attribute *attribute,
			      const char *text, size_t size)
{
	struct dcbtest *own = netdev_priv(to_net_dev(device));
	int selector, protocol, priority, taken;

	own->peer_apps = 0;
	while (own->peer_apps < MOST &&
	       sscanf(text, " %i:%i:%i%n", &selector, &protocol, &priority, &taken) == 3) {
		own->peer_app[own->peer_apps++] = (struct dcb_app){
			.selector = selector,
			.priority = priority,
			.protocol = protocol,
		};
		text += taken;
	}
	own->has_peer_app = own->peer_apps > 0;
	return size;
}

static ssize_t down_because_store(struct device *device, struct device_attribute *attribute,
				  const char *text, size_t size)
{
	struct dcbtest *own = netdev_priv(to_net_dev(device));

	own->down_because_given = numbers(text, own->down_because, 2);
	return size;
}

#define MODES(name)                                                                           \
	static ssize_t name##_store(struct device *device, struct device_attribute *attribute, \
				    const char *text, size_t size)                             \
	{                                                                                      \
		struct dcbtest *own = netdev_priv(to_net_dev(device));                         \
		int error = bitmap_parselist(text, own->name, __ETHTOOL_LINK_MODE_MASK_NBITS); \
                                                                                               \
		return error ? error : size;                                                   \
	}                                                                                      \
	static DEVICE_ATTR_WO(name)

MODES(supported);
MODES(advertised);
MODES(peer_modes);

static ssize_t speed_store(struct device *device, struct device_attribute *attribute,
			   const char *text, size_t size)
{
	struct dcbtest *own = netdev_priv(to_net_dev(device));

	return sscanf(text, "%u %u", &own->speed, &own->lanes) == 2 ? size : -EINVAL;
}

static ssize_t fec_stats_store(struct device *device, struct device_attribute *attribute,
			       const char *text, size_t size)
{
	struct dcbtest *own = netdev_priv(to_net_dev(device));

	own->fec_counted = sscanf(text, "%llu %llu %llu", &own->fec_corrected,
				  &own->fec_uncorrectable, &own->fec_bits);
	return own->fec_counted >= 2 ? size : -EINVAL;
}

static ssize_t fec_lanes_store(struct device *device, struct device_attribute *attribute,
			       const char *text, size_t size)
{
	struct dcbtest *own = netdev_priv(to_net_dev(device));
	int taken;

	own->fec_lanes_counted = 0;
	while (own->fec_lanes_counted < ETHTOOL_MAX_LANES &&
	       sscanf(text, "%llu%n", &own->fec_lanes[own->fec_lanes_counted], &taken) == 1) {
		own->fec_lanes_counted++;
		text += taken;
	}
	return size;
}

static ssize_t symbol_errors_store(struct device *device, struct device_attribute *attribute,
				   const char *text, size_t size)
{
	struct dcbtest *own = netdev_priv(to_net_dev(device));

	own->has_symbol_errors = sscanf(text, "%llu", &own->symbol_errors) == 1;
	return size;
}

static ssize_t eeprom_store(struct device *device, struct device_attribute *attribute,
			    const char *text, size_t size)
{
	struct dcbtest *own = netdev_priv(to_net_dev(device));
	const char *end = text + strcspn(text, "\n");
	int address, page, offset, taken;

	if (*text == '-') {
		own->has_module = false;
		memset(own->eeprom, 0, sizeof(own->eeprom));
		return size;
	}
	if (sscanf(text, "%i %i %i %n", &address, &page, &offset, &taken) != 3)
		return -EINVAL;
	if (page < 0 || page >= PAGES || offset < 0 || offset + (end - text - taken) / 2 > 256)
		return -EINVAL;
	if (hex2bin(own->eeprom[address == 0x51][page] + offset, text + taken,
		    (end - text - taken) / 2))
		return -EINVAL;
	own->has_module = true;
	return size;
}

static ssize_t power_mode_store(struct device *device, struct device_attribute *attribute,
				const char *text, size_t size)
{
	struct dcbtest *own = netdev_priv(to_net_dev(device));

	own->has_power_mode = numbers(text, own->power_mode, 2) == 2;
	return size;
}

static DEVICE_ATTR_WO(down_because);
static DEVICE_ATTR_WO(speed);
static DEVICE_ATTR_WO(fec_stats);
static DEVICE_ATTR_WO(fec_lanes);
static DEVICE_ATTR_WO(symbol_errors);
static DEVICE_ATTR_WO(eeprom);
static DEVICE_ATTR_WO(power_mode);
static DEVICE_ATTR_WO(refused);
static DEVICE_ATTR_WO(peer_pfc);
static DEVICE_ATTR_WO(peer_ets);
static DEVICE_ATTR_WO(peer_app);

static struct attribute *attributes[] = {
	&dev_attr_refused.attr,
	&dev_attr_peer_pfc.attr,
	&dev_attr_peer_ets.attr,
	&dev_attr_peer_app.attr,
	&dev_attr_down_because.attr,
	&dev_attr_supported.attr,
	&dev_attr_advertised.attr,
	&dev_attr_peer_modes.attr,
	&dev_attr_speed.attr,
	&dev_attr_fec_stats.attr,
	&dev_attr_fec_lanes.attr,
	&dev_attr_symbol_errors.attr,
	&dev_attr_eeprom.attr,
	&dev_attr_power_mode.attr,
	NULL,
};

static const struct attribute_group settings = { .name = "dcbtest", .attrs = attributes };

/* --- the netdev ---------------------------------------------------------------------------- */

static netdev_tx_t drop(struct sk_buff *skb, struct net_device *dev)
{
	dev_kfree_skb(skb);
	return NETDEV_TX_OK;
}

static int change_carrier(struct net_device *dev, bool on)
{
	if (on)
		netif_carrier_on(dev);
	else
		netif_carrier_off(dev);
	return 0;
}

static const struct net_device_ops net_ops = {
	.ndo_start_xmit = drop,
	.ndo_change_carrier = change_carrier,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

static void setup(struct net_device *dev)
{
	struct dcbtest *own = netdev_priv(dev);

	ether_setup(dev);
	dev->netdev_ops = &net_ops;
	dev->dcbnl_ops = &dcb_ops;
	dev->ethtool_ops = &ethtool_ops;
	dev->sysfs_groups[0] = &settings;
	dev->needs_free_netdev = true;
	dev->priv_flags |= IFF_LIVE_ADDR_CHANGE | IFF_NO_QUEUE;
	dev->max_mtu = 9978;
	eth_hw_addr_random(dev);
	own->trusted = -1; /* none until one is set, as most drivers */
	own->fec = ETHTOOL_FEC_OFF;
	own->dcbx = DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_IEEE;
	own->ets.ets_cap = IEEE_8021QAZ_MAX_TCS;
	own->pfc.pfc_cap = IEEE_8021QAZ_MAX_TCS;
}

static struct rtnl_link_ops link_ops = {
	.kind = "dcbtest",
	.priv_size = sizeof(struct dcbtest),
	.setup = setup,
};

static int __init dcbtest_init(void)
{
	return rtnl_link_register(&link_ops);
}

static void __exit dcbtest_exit(void)
{
	rtnl_link_unregister(&link_ops);
}

module_init(dcbtest_init);
module_exit(dcbtest_exit);
MODULE_DESCRIPTION("a netdev with settable Data Center Bridging, for tests");
MODULE_LICENSE("GPL");
