// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel itself says what it is told, as the drivers of adapters do that a machine has not:
 *
 *     echo '<3>mlx5_core 0000:81:00.0: health: compromised' >/sys/module/printk_line/parameters/say
 *
 * <0> to <7> is the level; 6 where none is given. What a process writes to /dev/kmsg has the
 * facility of a user's program instead, and is not believed by who reads the log with care.
 */
#include <linux/kern_levels.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/printk.h>
#include <linux/string.h>

static int say(const char *text, const struct kernel_param *param)
{
	char level = '6';

	if (text[0] == '<' && text[1] >= '0' && text[1] <= '7' && text[2] == '>') {
		level = text[1];
		text += 3;
	}
	/* Where the text begins with a level, as it does here, printk takes it. */
	printk("%s%c%.*s\n", KERN_SOH, level, (int)strcspn(text, "\n"), text);
	return 0;
}

static const struct kernel_param_ops ops = { .set = say };
module_param_cb(say, &ops, NULL, 0200);
MODULE_PARM_DESC(say, "a line for the kernel's log");
MODULE_DESCRIPTION("lines of the kernel's log, as asked for");
MODULE_LICENSE("GPL");
