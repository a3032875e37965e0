/* Replies of devlink by the kernel's own names, on stdout; numbers are the test's. */
#include <linux/devlink.h>
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

static void text(int kind, const char *value)
{
	put(kind, value, strlen(value) + 1);
}

static void u8(int kind, __u8 value)
{
	put(kind, &value, sizeof(value));
}

static void u32(int kind, __u32 value)
{
	put(kind, &value, sizeof(value));
}

static void u64(int kind, __u64 value)
{
	put(kind, &value, sizeof(value));
}

static void begin(int command)
{
	memset(buffer, 0, sizeof(buffer));
	((struct genlmsghdr *)(buffer + NLMSG_HDRLEN))->cmd = command;
	length = NLMSG_HDRLEN + GENL_HDRLEN;
	text(DEVLINK_ATTR_BUS_NAME, "pci");
	text(DEVLINK_ATTR_DEV_NAME, "0000:08:00.0");
}

static void done(void)
{
	((struct nlmsghdr *)buffer)->nlmsg_len = length;
	((struct nlmsghdr *)buffer)->nlmsg_type = 22;
	fwrite(buffer, 1, length, stdout);
}

static void version(int kind, const char *name, const char *value)
{
	size_t at = nest(kind);

	text(DEVLINK_ATTR_INFO_VERSION_NAME, name);
	text(DEVLINK_ATTR_INFO_VERSION_VALUE, value);
	end(at);
}

int main(void)
{
	size_t outer, list, value;
	__u16 mode = DEVLINK_ESWITCH_MODE_SWITCHDEV;

	begin(DEVLINK_CMD_HEALTH_REPORTER_GET);
	u32(DEVLINK_ATTR_PORT_INDEX, 1);
	outer = nest(DEVLINK_ATTR_HEALTH_REPORTER);
	text(DEVLINK_ATTR_HEALTH_REPORTER_NAME, "tx");
	u8(DEVLINK_ATTR_HEALTH_REPORTER_STATE, 1); /* ..._STATE_ERROR of net/devlink.h */
	u64(DEVLINK_ATTR_HEALTH_REPORTER_ERR_COUNT, 7);
	u64(DEVLINK_ATTR_HEALTH_REPORTER_RECOVER_COUNT, 6);
	u64(DEVLINK_ATTR_HEALTH_REPORTER_GRACEFUL_PERIOD, 500);
	end(outer);
	done();

	begin(DEVLINK_CMD_INFO_GET);
	text(DEVLINK_ATTR_INFO_DRIVER_NAME, "mlx5_core");
	text(DEVLINK_ATTR_INFO_SERIAL_NUMBER, "secret");
	version(DEVLINK_ATTR_INFO_VERSION_FIXED, "fw.psid", "MT_1");
	version(DEVLINK_ATTR_INFO_VERSION_RUNNING, "fw.version", "1.2.3");
	version(DEVLINK_ATTR_INFO_VERSION_RUNNING, "fw", "1.2.3");
	version(DEVLINK_ATTR_INFO_VERSION_STORED, "fw.version", "1.2.4");
	done();

	begin(DEVLINK_CMD_PARAM_GET);
	outer = nest(DEVLINK_ATTR_PARAM);
	text(DEVLINK_ATTR_PARAM_NAME, "enable_roce");
	put(DEVLINK_ATTR_PARAM_GENERIC, NULL, 0);
	u8(DEVLINK_ATTR_PARAM_TYPE, 6 /* NLA_FLAG of the kernel, net/netlink.h */);
	list = nest(DEVLINK_ATTR_PARAM_VALUES_LIST);
	value = nest(DEVLINK_ATTR_PARAM_VALUE);
	put(DEVLINK_ATTR_PARAM_VALUE_DATA, NULL, 0);
	u8(DEVLINK_ATTR_PARAM_VALUE_CMODE, DEVLINK_PARAM_CMODE_RUNTIME);
	end(value);
	value = nest(DEVLINK_ATTR_PARAM_VALUE);
	u8(DEVLINK_ATTR_PARAM_VALUE_CMODE, DEVLINK_PARAM_CMODE_DRIVERINIT);
	end(value);
	end(list);
	end(outer);
	done();

	begin(DEVLINK_CMD_ESWITCH_GET);
	put(DEVLINK_ATTR_ESWITCH_MODE, &mode, sizeof(mode));
	done();
	return 0;
}
