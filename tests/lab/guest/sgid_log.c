/* Preloaded into a program: writes the sgid_index of each address vector to the file that
 * SGID_LOG names, one "CALL IS_GLOBAL INDEX RESULT" a line. The offsets are given by the test, from
 * the package's own structures, so that no header is needed here. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IBV_QP_AV (1 << 7)

static void written(const char *call, const unsigned char *ah, int result)
{
	const char *path = getenv("SGID_LOG");
	char line[96];
	int file;

	if (!path)
		return;
	snprintf(line, sizeof(line), "%s %d %d %d\n", call, ah[IS_GLOBAL] != 0, ah[SGID_INDEX], result);
	file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
	if (file < 0)
		return;
	if (write(file, line, strlen(line)) < 0)
		abort();
	close(file);
}

/* UCX opens its modules for themselves alone, and libibverbs with them. */
static void *following(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (!found) {
		void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);

		found = library ? dlsym(library, name) : NULL;
	}
	if (!found)
		abort();
	return found;
}

int ibv_modify_qp(void *qp, void *attr, int mask)
{
	int (*next)(void *, void *, int) = (int (*)(void *, void *, int))following("ibv_modify_qp");
	int result = next(qp, attr, mask);

	if (mask & IBV_QP_AV)
		written("modify_qp", (unsigned char *)attr + AH_ATTR, result);
	return result;
}

void *ibv_create_ah(void *pd, void *attr)
{
	void *(*next)(void *, void *) = (void *(*)(void *, void *))following("ibv_create_ah");
	void *ah = next(pd, attr);

	written("create_ah", attr, ah ? 0 : 1);
	return ah;
}
