//go:build ignore

/*
 * A slurmd loads this library before all others. Then the slurmd finds in /proc/PID/cgroup the line of version 2 alone.
 *
 * If the kernel has hierarchies of version 1 beside that of version 2, a slurmd without this library ends with
 * "Hybrid mode is not supported", even if no constraint needs them. No mount hides these lines, because the kernel
 * writes them for each process.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int open(const char *path, int flags, ...)
{
	va_list more;
	va_start(more, flags);
	mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
	va_end(more);

	int fd = openat(AT_FDCWD, path, flags, mode);
	const char *name = strrchr(path, '/');
	if (fd < 0 || strncmp(path, "/proc/", 6) || strcmp(name, "/cgroup"))
		return fd;

	FILE *all = fdopen(fd, "r");
	int kept = memfd_create("cgroup", MFD_CLOEXEC);
	char line[8192];
	while (fgets(line, sizeof line, all))
		if (!strncmp(line, "0::", 3))
			dprintf(kept, "%s", line);
	fclose(all);
	lseek(kept, 0, SEEK_SET);
	return kept;
}
