/* The request for TCP connections, and two answers, by the kernel's own structures, on stdout. */
#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <stdio.h>
#include <string.h>

static void answer(int family, int state, const char *from, const char *to, unsigned inode,
		   const struct tcp_info *info)
{
	char buffer[1024] = { 0 };
	struct nlmsghdr *head = (struct nlmsghdr *)buffer;
	struct inet_diag_msg *body = (struct inet_diag_msg *)(buffer + NLMSG_HDRLEN);
	struct nlattr *attribute = (struct nlattr *)(body + 1);

	head->nlmsg_type = SOCK_DIAG_BY_FAMILY;
	head->nlmsg_flags = NLM_F_MULTI;
	head->nlmsg_len = NLMSG_HDRLEN + sizeof(*body);
	body->idiag_family = family;
	body->idiag_state = state;
	body->id.idiag_sport = htons(40112);
	body->id.idiag_dport = htons(5001);
	inet_pton(family, from, body->id.idiag_src);
	inet_pton(family, to, body->id.idiag_dst);
	body->idiag_inode = inode;
	if (info) {
		attribute->nla_type = INET_DIAG_INFO;
		attribute->nla_len = NLA_HDRLEN + sizeof(*info);
		memcpy(attribute + 1, info, sizeof(*info));
		head->nlmsg_len += attribute->nla_len;
	}
	fwrite(buffer, 1, NLMSG_ALIGN(head->nlmsg_len), stdout);
}

int main(void)
{
	struct tcp_info info = { .tcpi_bytes_acked = 1048577, .tcpi_bytes_received = 17 };
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 body;
	} request = {
		.head = { sizeof(request), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 0, 0 },
		.body = {
			.sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP,
			.idiag_ext = 1 << (INET_DIAG_INFO - 1),
			/* ESTABLISHED, SYN_SENT, SYN_RECV, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK,
			   CLOSING */
			.idiag_states = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 |
					1 << 11,
		},
	};

	fwrite(&request, 1, sizeof(request), stdout);
	answer(AF_INET, 1, "192.0.2.1", "192.0.2.2", 71344, &info);
	answer(AF_INET6, 8, "2001:db8::1", "2001:db8::2", 71345, NULL);
	answer(AF_INET6, 1, "::ffff:192.0.2.1", "::ffff:192.0.2.2", 71346, &info);
	return 0;
}
