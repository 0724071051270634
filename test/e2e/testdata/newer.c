// Runs PROGRAM, which was made for a newer C library, with the libraries of FOLDER.
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	const char *all[argc + 6];
	const char *first[] = {FOLDER "/ld-linux-x86-64.so.2", "--argv0", argv[0], "--library-path", FOLDER ":" FOLDER "/slurm-wlm", PROGRAM};

	memcpy(all, first, sizeof first);
	memcpy(all + 6, argv + 1, argc * sizeof *argv); // with the NULL at their end
	execv(first[0], (char **)all);
	return 127;
}
