//go:build ignore

/* A libnvidia-ml that reads the machine from the text file that FAKE_NVML names,
 * again whenever that file has changed. README.md describes the file.
 *
 * DRIVER is the release whose symbols it has. The releases are those of the
 * headers that first have a symbol, among those of CUDA 11.1, 11.6, 12.0, 12.4,
 * 12.9 and 13.0; the true one may lie between that and the header before. 570 is
 * the first driver of the GPUs that have platform information.
 *
 * One call runs at a time; one that hangs or waits lets others in.
 */
#define NVML_NO_UNVERSIONED_FUNC_DEFS 1
#include "nvml.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef DRIVER
#define DRIVER 580
#endif
#define HAS_MEMORY_AFFINITY (DRIVER >= 455)
#define HAS_REMOTE_DEVICE_TYPE (DRIVER >= 510)
#define HAS_MEMORY_V2 (DRIVER >= 510)
#define HAS_PROCESSES_V3 (DRIVER >= 510)
#define HAS_GPM (DRIVER >= 525)
#define HAS_FABRIC (DRIVER >= 525)
#define HAS_FABRIC_V2 (DRIVER >= 550)
#define HAS_PLATFORM (DRIVER >= 570)
#define HAS_FABRIC_V3 (DRIVER >= 580)

enum { MAX_GPUS = 16, MAX_LINKS = 18, MAX_MIG = 8, MAX_RULES = 32, MAX_XIDS = 8, MAX_SETS = 4, MAX_PIDS = 64, MAX_SAMPLES = 256, MAX_FIELDS = 96, MAX_EXCLUDED = 4, MASK_WORDS = 128, ANY = -1 };

/* What is absent is not supported. */
struct pids {
	bool there;
	int count;
	unsigned pid[MAX_PIDS];
};

/* gpm are shares of a hundred: of time in which a kernel ran, and of SMs. */
struct gpm {
	bool there;
	double graphics, sm;
};

struct mig {
	bool there;
	char uuid[80], name[96];
	unsigned gi, ci;
	unsigned long long memory, used;
	struct pids processes;
	struct gpm gpm;
};

struct gpu {
	bool there, lost;
	char uuid[80], name[96], pci[32];
	int minor; /* -1: absent */
	unsigned long long memory, used, reserved, energy;
	unsigned utilization, power;
	bool has_utilization, has_power, has_energy;
	struct pids processes, mps;
	struct gpm gpm;
	bool has_numa, has_cpus, has_links, has_mig, has_fabric, has_platform;
	unsigned long numa[MASK_WORDS], cpus[MASK_WORDS];
	struct {
		bool there, active;
		unsigned kind;
		char pci[32];
	} links[MAX_LINKS];
	bool mig_on;
	unsigned mig_most;
	struct mig mig[MAX_MIG];
	nvmlGpuFabricInfo_v3_t fabric;
	nvmlPlatformInfo_v2_t platform;
	bool has_events;
	unsigned xids[MAX_XIDS];
	int xid_count;
	struct field {
		unsigned id;
		nvmlReturn_t answer;
		unsigned long long value;
	} fields[MAX_FIELDS];
	int field_count;
};

enum action { OK, ERROR, HANG, EXIT, CRASH, ABORT };

struct rule {
	char function[64];
	int gpu;
	enum action action;
	int code;
};

static struct machine {
	char driver[80], nvml[80];
	int cuda; /* 0: absent */
	struct gpu every, gpus[MAX_GPUS];
	struct rule rules[MAX_RULES];
	int rule_count;
	char excluded[MAX_EXCLUDED][32]; /* PCI addresses */
	unsigned excluded_count;
	int become_in; /* calls until the machine is that of another file; 0: never */
	char become[256];
} machine;

/* A handle is the address of one of these: a GPU (mig 0) or the MIG device in
 * slot mig-1 of it, as long as the UUID is still there. */
struct nvmlDevice_st {
	int gpu, mig;
	char uuid[80];
};
static struct nvmlDevice_st handles[MAX_GPUS][1 + MAX_MIG];
static int initialized;

/* An event set delivers the Xids that came after a GPU was registered. A GPU that
 * is lost stays dead in the set when it is back, and every wait says so. A set
 * holds a descriptor, as the driver's do. */
enum registration { NO, YES, DEAD };
struct nvmlEventSet_st {
	bool there;
	int descriptor;
	enum registration registered[MAX_GPUS];
	int delivered[MAX_GPUS];
};
static struct nvmlEventSet_st sets[MAX_SETS];

#if HAS_GPM
/* A GPM sample is of a GPU, or of a GPU instance in it. */
struct nvmlGpmSample_st {
	bool there, taken;
	int gpu, gi; /* gi -1: the GPU */
	long long ms;
	struct gpm gpm;
};
static struct nvmlGpmSample_st samples[MAX_SAMPLES];
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool take(void) {
	pthread_mutex_lock(&lock);
	return true;
}

static void give(bool *taken) {
	(void)taken;
	pthread_mutex_unlock(&lock);
}

/* pause_call lets other threads in for a hundredth of a second. */
static void pause_call(void) {
	pthread_mutex_unlock(&lock);
	usleep(10000);
	pthread_mutex_lock(&lock);
}

/* Reading the file. */

static const char *file;
static int line_number;

static void die(const char *format, ...) {
	va_list args;
	va_start(args, format);
	fprintf(stderr, "%s:%d: ", file ? file : "FAKE_NVML", line_number);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	_exit(3);
}

static void copy(char *to, size_t size, const char *from) {
	if ((size_t)snprintf(to, size, "%s", from) >= size)
		die("%s: longer than %zu", from, size - 1);
}

static int one_of(const char *word, const char *const *names) {
	for (int i = 0; names[i]; i++)
		if (!strcmp(word, names[i]))
			return i;
	die("%s: unknown word", word);
	return 0;
}

static void hex(unsigned char *to, int size, const char *digits) {
	memset(to, 0, size);
	for (int n = 0; *digits; digits++) {
		unsigned digit;
		if (*digits == '-')
			continue;
		if (n >= 2 * size || sscanf((char[]){*digits, 0}, "%x", &digit) != 1)
			die("%s: want at most %d hex digits", digits, 2 * size);
		to[n / 2] |= digit << (n % 2 ? 0 : 4);
		n++;
	}
}

/* read_mask reads a list of numbers. */
static bool read_mask(unsigned long *mask, const char *list) {
	memset(mask, 0, MASK_WORDS * sizeof *mask);
	for (const char *p = list; *p;) {
		unsigned from, to;
		int n = 0;
		if (sscanf(p, "%u%n-%u%n", &from, &n, &to, &n) < 2)
			to = from;
		if (!n || from > to || to >= MASK_WORDS * 64)
			die("%s: want a list of numbers such as 0-35,72", list);
		for (; from <= to; from++)
			mask[from / 64] |= 1UL << from % 64;
		p += n;
		p += *p == ',';
	}
	return true;
}

static void read_links(struct gpu *g, const char *value) {
	static const char *const kinds[] = {"gpu", "ibmnpu", "switch", "unknown", "off", NULL};
	unsigned from, to;
	char kind[16], pci[32] = "";
	if (sscanf(value, "%u-%u %15s %31s", &from, &to, kind, pci) < 3) {
		if (sscanf(value, "%u %15s %31s", &from, kind, pci) < 2)
			die("links: want FIRST-LAST or ONE, a kind, and a PCI address");
		to = from;
	}
	if (to >= MAX_LINKS)
		die("links: want less than %d", MAX_LINKS);
	g->has_links = true;
	for (; from <= to; from++) {
		int k = one_of(kind, kinds);
		g->links[from].there = true;
		g->links[from].active = k < 4;
		g->links[from].kind = k == 3 ? NVML_NVLINK_DEVICE_TYPE_UNKNOWN : k;
		copy(g->links[from].pci, sizeof g->links[from].pci, pci);
	}
}

static void read_mig(struct gpu *g, const char *value) {
	static const char *const modes[] = {"off", "on", NULL};
	char mode[8];
	if (sscanf(value, "%7s %u", mode, &g->mig_most) != 2 || g->mig_most > MAX_MIG)
		die("mig: want on or off, and the most devices, up to %d", MAX_MIG);
	g->has_mig = true;
	g->mig_on = one_of(mode, modes);
}

static void read_migdevice(struct gpu *g, const char *value) {
	unsigned slot;
	int n = 0;
	struct mig m = {.there = true};
	if (!strcmp(value, "none")) {
		memset(g->mig, 0, sizeof g->mig);
		return;
	}
	if (sscanf(value, "%u %79s %u %u %n", &slot, m.uuid, &m.gi, &m.ci, &n) != 4 || !n || slot >= MAX_MIG)
		die("migdevice: want none, or slot, UUID, GPU instance, compute instance and name");
	copy(m.name, sizeof m.name, value + n);
	g->mig[slot] = m;
}

static void read_fabric(struct gpu *g, const char *value) {
	static const char *const states[] = {"notSupported", "notStarted", "inProgress", "completed", NULL};
	char state[16], uuid[40] = "";
	unsigned status = 0, clique = 0, summary = 0, mask = 0;
	if (sscanf(value, "%15s %u %39s %u %u %i", state, &status, uuid, &clique, &summary, (int *)&mask) < 1)
		die("fabric: want state, status, cluster UUID, clique, health summary and mask");
	g->has_fabric = true;
	g->fabric = (nvmlGpuFabricInfo_v3_t){.status = status, .cliqueId = clique, .healthMask = mask, .healthSummary = summary};
	g->fabric.state = strspn(state, "0123456789") ? atoi(state) : one_of(state, states);
	hex(g->fabric.clusterUuid, sizeof g->fabric.clusterUuid, uuid);
}

static void read_platform(struct gpu *g, const char *value) {
	char chassis[40];
	unsigned slot, tray, host;
	if (sscanf(value, "%39s %u %u %u", chassis, &slot, &tray, &host) != 4)
		die("platform: want chassis, slot, tray and host");
	g->has_platform = true;
	g->platform = (nvmlPlatformInfo_v2_t){.slotNumber = slot, .trayIndex = tray, .hostId = host};
	unsigned char *to = g->platform.chassisSerialNumber;
	size_t length = strlen(chassis), size = sizeof g->platform.chassisSerialNumber;
	if (!strncmp(chassis, "0x", 2))
		hex(to, size, chassis + 2);
	else if (length > size)
		die("platform: %s: longer than %zu", chassis, size);
	else
		memcpy(to, chassis, length);
}

/* read_pids reads a list of numbers of processes. */
static void read_pids(struct pids *to, const char *list) {
	*to = (struct pids){.there = true};
	if (!strcmp(list, "none"))
		return;
	for (const char *p = list; *p;) {
		int n = 0;
		if (sscanf(p, "%u%n", &to->pid[to->count], &n) != 1 || ++to->count == MAX_PIDS)
			die("%s: want none, or a list of numbers such as 1000,1007, less than %d", list, MAX_PIDS);
		p += n;
		p += *p == ',';
	}
}

static bool read_gpm(struct gpm *to, const char *value) {
	to->there = sscanf(value, "%lf %lf", &to->graphics, &to->sm) == 2;
	return to->there;
}

static void read_miguse(struct gpu *g, const char *value) {
	unsigned slot;
	char pids[256];
	int n = 0;
	unsigned long long memory, used;
	if (sscanf(value, "%u %llu %llu %255s %n", &slot, &memory, &used, pids, &n) != 4 || slot >= MAX_MIG)
		die("miguse: want slot, bytes of memory, bytes used, processes, and what GPM says");
	struct mig *m = &g->mig[slot];
	m->memory = memory;
	m->used = used;
	read_pids(&m->processes, pids);
	if (n && value[n] && !read_gpm(&m->gpm, value + n))
		die("miguse: %s: want two shares of a hundred for GPM", value + n);
}

/* read_use reads a statement about what a GPU does; false is none. */
static bool read_use(struct gpu *g, const char *key, const char *value) {
	if (!strcmp(key, "used"))
		g->used = strtoull(value, NULL, 10);
	else if (!strcmp(key, "reserved"))
		g->reserved = strtoull(value, NULL, 10);
	else if (!strcmp(key, "utilization"))
		g->has_utilization = sscanf(value, "%u", &g->utilization) == 1;
	else if (!strcmp(key, "power"))
		g->has_power = sscanf(value, "%u", &g->power) == 1;
	else if (!strcmp(key, "energy"))
		g->has_energy = sscanf(value, "%llu", &g->energy) == 1;
	else if (!strcmp(key, "processes"))
		read_pids(&g->processes, value);
	else if (!strcmp(key, "mps"))
		read_pids(&g->mps, value);
	else if (!strcmp(key, "gpm"))
		read_gpm(&g->gpm, value);
	else if (!strcmp(key, "miguse"))
		read_miguse(g, value);
	else
		return false;
	return true;
}

static void read_xid(struct gpu *g, const char *value) {
	g->has_events = true;
	if (!strcmp(value, "none"))
		return;
	if (atoi(value) <= 0 || g->xid_count == MAX_XIDS)
		die("xid: want none or a code, %d times at most", MAX_XIDS);
	g->xids[g->xid_count++] = atoi(value);
}

/* read_field reads the value of a field. */
static void read_field(struct gpu *g, const char *value) {
	struct field f = {0};
	int n = 0;
	if (sscanf(value, "%u%n", &f.id, &n) < 1 || g->field_count == MAX_FIELDS)
		die("field: want NUMBER, and a value or error CODE, %d times at most", MAX_FIELDS);
	if (sscanf(value + n, " error %d", (int *)&f.answer) != 1 && sscanf(value + n, "%llu", &f.value) != 1)
		die("field: %s: want a value, or error CODE", value);
	g->fields[g->field_count++] = f;
}

static void read_cuda(const char *value) {
	int major, minor;
	if (sscanf(value, "%d.%d", &major, &minor) != 2 || major < 0 || major > 999 || minor < 0 || minor > 99)
		die("cuda: want such as 13.0");
	machine.cuda = major * 1000 + minor * 10;
}

static void read_become(const char *value) {
	char path[256];
	if (sscanf(value, "%d %255s", &machine.become_in, path) != 2 || machine.become_in <= 0)
		die("become: want a number of calls and a file");
	copy(machine.become, sizeof machine.become, path);
}

static void read_excluded(const char *value) {
	if (machine.excluded_count == MAX_EXCLUDED)
		die("excluded: %d times at most", MAX_EXCLUDED);
	copy(machine.excluded[machine.excluded_count++], sizeof machine.excluded[0], value);
}

static void read_call(int gpu, const char *value) {
	static const char *const actions[] = {"ok", "error", "hang", "exit", "crash", "abort", NULL};
	struct rule r = {.gpu = gpu};
	char action[16];
	if (sscanf(value, "%63s %15s %d", r.function, action, &r.code) < 2 || machine.rule_count == MAX_RULES)
		die("call: want a function and what it does, %d times at most", MAX_RULES);
	r.action = one_of(action, actions);
	machine.rules[machine.rule_count++] = r;
}

/* read_gpu reads a statement about a GPU; false is none. */
static bool read_gpu(struct gpu *g, const char *key, const char *value) {
	if (!strcmp(key, "uuid"))
		copy(g->uuid, sizeof g->uuid, value);
	else if (!strcmp(key, "name"))
		copy(g->name, sizeof g->name, value);
	else if (!strcmp(key, "pci"))
		copy(g->pci, sizeof g->pci, value);
	else if (!strcmp(key, "minor"))
		g->minor = atoi(value);
	else if (!strcmp(key, "numa"))
		g->has_numa = read_mask(g->numa, value);
	else if (!strcmp(key, "memory"))
		g->memory = strtoull(value, NULL, 10);
	else if (!strcmp(key, "cpus"))
		g->has_cpus = read_mask(g->cpus, value);
	else if (!strcmp(key, "links"))
		read_links(g, value);
	else if (!strcmp(key, "mig"))
		read_mig(g, value);
	else if (!strcmp(key, "migdevice"))
		read_migdevice(g, value);
	else if (!strcmp(key, "fabric"))
		read_fabric(g, value);
	else if (!strcmp(key, "platform"))
		read_platform(g, value);
	else if (!strcmp(key, "xid"))
		read_xid(g, value);
	else if (!strcmp(key, "field"))
		read_field(g, value);
	else if (!strcmp(key, "lost"))
		g->lost = strcmp(value, "no");
	else
		return read_use(g, key, value);
	return true;
}

static int read_section(const char *value) {
	char *end;
	if (!strcmp(value, "*"))
		return ANY;
	long gpu = strtol(value, &end, 10);
	if (end == value || *end || gpu < 0 || gpu >= MAX_GPUS)
		die("gpu %s: want * or 0 to %d", value, MAX_GPUS - 1);
	if (!machine.gpus[gpu].there)
		machine.gpus[gpu] = machine.every;
	machine.gpus[gpu].there = true;
	return gpu;
}

static void read_statement(char *line, int *gpu) {
	line[strcspn(line, "#\n")] = 0;
	for (size_t n = strlen(line); n && line[n - 1] == ' ';)
		line[--n] = 0;
	char key[32];
	int n = 0;
	if (sscanf(line, "%31s %n", key, &n) != 1)
		return;
	const char *value = line + n;
	if (!strcmp(key, "driver"))
		copy(machine.driver, sizeof machine.driver, value);
	else if (!strcmp(key, "nvml"))
		copy(machine.nvml, sizeof machine.nvml, value);
	else if (!strcmp(key, "cuda"))
		read_cuda(value);
	else if (!strcmp(key, "socket"))
		; /* of the kernel's files, not NVML's */
	else if (!strcmp(key, "gpu"))
		*gpu = read_section(value);
	else if (!strcmp(key, "call"))
		read_call(*gpu, value);
	else if (!strcmp(key, "excluded"))
		read_excluded(value);
	else if (!strcmp(key, "become"))
		read_become(value);
	else {
		bool known = read_gpu(*gpu == ANY ? &machine.every : &machine.gpus[*gpu], key, value);
		for (int i = 0; known && *gpu == ANY && i < MAX_GPUS; i++)
			if (machine.gpus[i].there)
				read_gpu(&machine.gpus[i], key, value);
		if (!known)
			die("%s: no such statement", key);
	}
}

/* load makes the machine that of a file. Event sets learn which GPUs are gone. */
static void load(const char *path) {
	FILE *f = fopen(path, "r");
	if (!f)
		die("cannot read %s: %s", path, strerror(errno));
	machine = (struct machine){.every = {.minor = -1}};
	char line[512];
	line_number = 0;
	for (int gpu = ANY; fgets(line, sizeof line, f);) {
		line_number++;
		read_statement(line, &gpu);
	}
	fclose(f);
	for (int s = 0; s < MAX_SETS; s++)
		for (int i = 0; i < MAX_GPUS; i++)
			if (sets[s].registered[i] && (!machine.gpus[i].there || machine.gpus[i].lost))
				sets[s].registered[i] = DEAD;
}

/* refresh reads the file when it is another than the last time. */
static void refresh(void) {
	static struct stat last;
	struct stat now;
	file = getenv("FAKE_NVML");
	line_number = 0;
	if (!file || stat(file, &now))
		die("cannot read the machine: %s", strerror(errno));
	if (now.st_ino == last.st_ino && now.st_size == last.st_size && now.st_mtim.tv_sec == last.st_mtim.tv_sec && now.st_mtim.tv_nsec == last.st_mtim.tv_nsec)
		return;
	last = now;
	load(file);
}

/* count_call has the machine become another one at the call that the file names.
 * Calls about events are made at any time, so they do not count. */
static void count_call(const char *function) {
	if (!machine.become_in || strstr(function, "Event") || --machine.become_in)
		return;
	char path[256];
	copy(path, sizeof path, machine.become);
	load(path);
}

/* Answering. */

static const struct rule *rule_for(const char *function, int gpu) {
	const struct rule *found = NULL;
	for (int i = 0; i < machine.rule_count; i++) {
		const struct rule *r = &machine.rules[i];
		if (!strcmp(r->function, function) && (r->gpu == ANY || r->gpu == gpu))
			found = r;
	}
	return found;
}

/* say adds a byte to a file beside the machine's, which tells a test of a call. */
static void say(const char *what) {
	char path[512];
	snprintf(path, sizeof path, "%s.%s", file, what);
	FILE *f = fopen(path, "a");
	if (f) {
		fputc('.', f);
		fclose(f);
	}
}

/* enter begins every call. A call that hangs goes on when the file says so. */
static nvmlReturn_t enter(const char *function, int gpu) {
	const struct rule *r;
	int said = 0;
	refresh();
	count_call(function);
	for (; (r = rule_for(function, gpu)) && r->action == HANG; refresh()) {
		if (!said++)
			say("hung");
		pause_call();
	}
	switch (r ? r->action : OK) {
	case ERROR:
		return r->code;
	case EXIT:
		fprintf(stderr, "symbol lookup error: undefined symbol: %s\n", function);
		_exit(r->code);
	case CRASH:
		*(volatile int *)NULL = 0;
		break;
	case ABORT:
		abort();
	default:
		break;
	}
	if (!initialized && strncmp(function, "nvmlInit", strlen("nvmlInit")))
		return NVML_ERROR_UNINITIALIZED;
	if (gpu == ANY)
		return NVML_SUCCESS;
	if (gpu >= MAX_GPUS || !machine.gpus[gpu].there)
		return NVML_ERROR_INVALID_ARGUMENT;
	return machine.gpus[gpu].lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

/* ENTER begins a call, on a GPU or on ANY. */
#define ENTER(gpu)                                                     \
	__attribute__((cleanup(give), unused)) bool taken = take();    \
	nvmlReturn_t failed = enter(__func__, gpu)
/* BEGIN begins a call on a device: g is its GPU, m its MIG device or NULL. */
#define BEGIN(d)                                                       \
	ENTER((d).handle->gpu);                                        \
	if (failed != NVML_SUCCESS)                                    \
		return failed;                                         \
	struct gpu *g = &machine.gpus[(d).handle->gpu];                \
	struct mig *m = (d).handle->mig ? &g->mig[(d).handle->mig - 1] : NULL; \
	if (strcmp(m ? m->uuid : g->uuid, (d).handle->uuid))           \
		return m ? NVML_ERROR_NOT_FOUND : NVML_ERROR_GPU_IS_LOST
#define NEED(condition)                                                \
	if (!(condition))                                              \
		return NVML_ERROR_NOT_SUPPORTED

static nvmlReturn_t answer(char *to, unsigned size, const char *text) {
	return (unsigned)snprintf(to, size, "%s", text) < size ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

static nvmlReturn_t answer_pci(nvmlPciInfo_t *to, const char *bus_id) {
	memset(to, 0, sizeof *to);
	sscanf(bus_id, "%x:%x:%x", &to->domain, &to->bus, &to->device);
	snprintf(to->busIdLegacy, sizeof to->busIdLegacy, "%04x:%02X:%02X.0", to->domain & 0xffff, to->bus & 0xff, to->device & 0xff);
	return answer(to->busId, sizeof to->busId, bus_id);
}

static nvmlReturn_t answer_mask(unsigned long *to, unsigned size, const unsigned long *mask) {
	memset(to, 0, size * sizeof *to);
	for (unsigned i = 0; i < MASK_WORDS; i++) {
		if (i < size)
			to[i] = mask[i];
		else if (mask[i])
			return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	return NVML_SUCCESS;
}

/* hold keeps a file beside the machine's locked, as a process that has NVML keeps the GPUs'
 * device files open: the driver resets no GPU that somebody holds. */
static void hold(bool more) {
	static int held = -1;
	initialized += more ? 1 : -1;
	if (more && held < 0) {
		char path[512];
		snprintf(path, sizeof path, "%s.held", file);
		held = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
		if (held < 0 && errno == EROFS) /* as in a pod: no test resets a GPU there */
			return;
		if (held < 0 || flock(held, LOCK_SH))
			die("%s: %s", path, strerror(errno));
	} else if (!initialized && held >= 0) {
		close(held);
		held = -1;
	}
}

nvmlReturn_t nvmlInit_v2(void) {
	ENTER(ANY);
	if (failed == NVML_SUCCESS)
		hold(true);
	return failed;
}

/* NVIDIA's DRA driver calls it with NVML_INIT_FLAG_NO_GPUS, which forgives a machine without GPUs. */
nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
	ENTER(ANY);
	(void)flags;
	if (failed == NVML_SUCCESS)
		hold(true);
	return failed;
}

nvmlReturn_t nvmlShutdown(void) {
	ENTER(ANY);
	if (failed == NVML_SUCCESS && initialized)
		hold(false);
	return failed;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
	ENTER(ANY);
	return failed ? failed : answer(version, length, machine.driver);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length) {
	ENTER(ANY);
	return failed ? failed : answer(version, length, machine.nvml);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
	ENTER(ANY);
	if (failed)
		return failed;
	NEED(machine.cuda);
	*version = machine.cuda;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
	ENTER(ANY);
	if (failed)
		return failed;
	for (*count = MAX_GPUS; *count && !machine.gpus[*count - 1].there;)
		--*count;
	return NVML_SUCCESS;
}

static nvmlReturn_t open_handle(nvmlDevice_t *device, int gpu, int mig, const char *uuid) {
	struct nvmlDevice_st *handle = &handles[gpu][mig];
	*handle = (struct nvmlDevice_st){.gpu = gpu, .mig = mig};
	copy(handle->uuid, sizeof handle->uuid, uuid);
	device->handle = handle;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
	ENTER(index);
	if (failed)
		return failed;
	return open_handle(device, index, 0, machine.gpus[index].uuid);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length) {
	BEGIN(device);
	return answer(uuid, length, m ? m->uuid : g->uuid);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length) {
	BEGIN(device);
	return answer(name, length, m ? m->name : g->name);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor) {
	BEGIN(device);
	NEED(g->minor >= 0);
	*minor = g->minor;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
	BEGIN(device);
	return answer_pci(pci, g->pci);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
	BEGIN(device);
	unsigned long long total = m && m->memory ? m->memory : g->memory;
	unsigned long long used = m ? m->used : g->used + g->reserved;
	*memory = (nvmlMemory_t){.total = total, .used = used, .free = total - used};
	return NVML_SUCCESS;
}

#if HAS_MEMORY_V2
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
	BEGIN(device);
	if (memory->version != nvmlMemory_v2)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	memory->total = m && m->memory ? m->memory : g->memory;
	memory->used = m ? m->used : g->used;
	memory->reserved = m ? 0 : g->reserved;
	memory->free = memory->total - memory->used - memory->reserved;
	return NVML_SUCCESS;
}
#endif

/* With MIG on neither the GPU nor an instance has a utilisation. */
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization) {
	BEGIN(device);
	NEED(!m && g->has_utilization && !g->mig_on);
	*utilization = (nvmlUtilization_t){.gpu = g->utilization};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *power) {
	BEGIN(device);
	NEED(!m && g->has_power);
	*power = g->power;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *energy) {
	BEGIN(device);
	NEED(!m && g->has_energy);
	*energy = g->energy;
	return NVML_SUCCESS;
}

/* room begins the answer to a question for processes. */
static nvmlReturn_t room(const struct pids *p, unsigned int *count) {
	NEED(p->there);
	unsigned most = *count;
	*count = p->count;
	return most < *count ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

/* share is the memory of each program of a list: all programs for compute have the same. */
static unsigned long long share(const struct gpu *g, const struct mig *m) {
	int programs = m ? m->processes.count : g->processes.count + g->mps.count;
	return !programs ? 0 : (m ? m->used : g->used) / programs;
}

static nvmlReturn_t answer_pids_v1(const struct gpu *g, const struct mig *m, const struct pids *p, unsigned int *count, nvmlProcessInfo_v1_t *infos) {
	nvmlReturn_t ret = room(p, count);
	for (unsigned i = 0; ret == NVML_SUCCESS && i < *count; i++)
		infos[i] = (nvmlProcessInfo_v1_t){.pid = p->pid[i], .usedGpuMemory = share(g, m)};
	return ret;
}

static nvmlReturn_t answer_pids(const struct gpu *g, const struct mig *m, const struct pids *p, unsigned int *count, nvmlProcessInfo_t *infos) {
	nvmlReturn_t ret = room(p, count);
	for (unsigned i = 0; ret == NVML_SUCCESS && i < *count; i++)
		infos[i] = (nvmlProcessInfo_t){.pid = p->pid[i], .usedGpuMemory = share(g, m), .gpuInstanceId = -1, .computeInstanceId = -1};
	return ret;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v1_t *infos) {
	BEGIN(device);
	return answer_pids_v1(g, m, m ? &m->processes : &g->processes, count, infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v2_t *infos) {
	BEGIN(device);
	return answer_pids(g, m, m ? &m->processes : &g->processes, count, infos);
}

/* No program in a MIG instance of this machine is a client of MPS. */
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v1_t *infos) {
	BEGIN(device);
	NEED(!m);
	return answer_pids_v1(g, m, &g->mps, count, infos);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v2_t *infos) {
	BEGIN(device);
	NEED(!m);
	return answer_pids(g, m, &g->mps, count, infos);
}

#if HAS_PROCESSES_V3
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos) {
	BEGIN(device);
	return answer_pids(g, m, m ? &m->processes : &g->processes, count, infos);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos) {
	BEGIN(device);
	NEED(!m);
	return answer_pids(g, m, &g->mps, count, infos);
}
#endif

/* The last statement about a field counts. A field without one is not supported. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values) {
	BEGIN(device);
	NEED(!m);
	for (int i = 0; i < count; i++) {
		nvmlFieldValue_t *v = &values[i];
		v->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
		for (int n = 0; n < g->field_count; n++) {
			const struct field *f = &g->fields[n];
			if (f->id != v->fieldId)
				continue;
			v->nvmlReturn = f->answer;
			v->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
			v->value.ullVal = f->value;
		}
	}
	return NVML_SUCCESS;
}

#if HAS_GPM
nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support) {
	BEGIN(device);
	if (support->version != NVML_GPM_SUPPORT_VERSION)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	support->isSupportedDevice = g->gpm.there;
	return m ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample) {
	ENTER(ANY);
	if (failed)
		return failed;
	for (int i = 0; i < MAX_SAMPLES; i++)
		if (!samples[i].there) {
			samples[i] = (struct nvmlGpmSample_st){.there = true};
			sample->handle = &samples[i];
			return NVML_SUCCESS;
		}
	return NVML_ERROR_INSUFFICIENT_RESOURCES;
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample) {
	ENTER(ANY);
	if (failed)
		return failed;
	if (!sample.handle->there)
		abort(); /* freed twice */
	sample.handle->there = false;
	return NVML_SUCCESS;
}

static nvmlReturn_t take_sample(nvmlGpmSample_t sample, int gpu, int gi, const struct gpm *gpm) {
	struct timespec now;
	NEED(gpm->there);
	clock_gettime(CLOCK_MONOTONIC, &now);
	*sample.handle = (struct nvmlGpmSample_st){.there = true, .taken = true, .gpu = gpu, .gi = gi, .gpm = *gpm, .ms = now.tv_sec * 1000LL + now.tv_nsec / 1000000};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample) {
	BEGIN(device);
	NEED(!m);
	return take_sample(sample, device.handle->gpu, -1, &g->gpm);
}

nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned int gi, nvmlGpmSample_t sample) {
	BEGIN(device);
	NEED(!m && g->mig_on);
	for (int i = 0; i < MAX_MIG; i++)
		if (g->mig[i].there && g->mig[i].gi == gi)
			return take_sample(sample, device.handle->gpu, gi, &g->mig[i].gpm);
	return NVML_ERROR_INVALID_ARGUMENT;
}

/* The values are those of the second sample, which must be of the same device, and
 * a tenth of a second later. */
nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *get) {
	const struct nvmlGpmSample_st *a = get->sample1.handle, *b = get->sample2.handle;
	ENTER(b->gpu);
	if (failed)
		return failed;
	if (get->version != NVML_GPM_METRICS_GET_VERSION)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (!a->taken || !b->taken || a->gpu != b->gpu || a->gi != b->gi || b->ms - a->ms < 100)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (unsigned i = 0; i < get->numMetrics; i++) {
		nvmlGpmMetric_t *metric = &get->metrics[i];
		metric->nvmlReturn = NVML_SUCCESS;
		if (metric->metricId == NVML_GPM_METRIC_GRAPHICS_UTIL)
			metric->value = b->gpm.graphics;
		else if (metric->metricId == NVML_GPM_METRIC_SM_UTIL)
			metric->value = b->gpm.sm;
		else
			metric->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
	}
	return NVML_SUCCESS;
}
#endif

nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int size, unsigned long *set) {
	BEGIN(device);
	NEED(g->has_cpus);
	return answer_mask(set, size, g->cpus);
}

#if HAS_MEMORY_AFFINITY
nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int size, unsigned long *set, nvmlAffinityScope_t scope) {
	BEGIN(device);
	(void)scope;
	NEED(g->has_numa);
	return answer_mask(set, size, g->numa);
}
#endif

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, nvmlEnableState_t *active) {
	BEGIN(device);
	NEED(g->has_links);
	if (link >= MAX_LINKS || !g->links[link].there)
		return NVML_ERROR_INVALID_ARGUMENT;
	*active = g->links[link].active ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
	return NVML_SUCCESS;
}

#if HAS_REMOTE_DEVICE_TYPE
nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link, nvmlIntNvLinkDeviceType_t *kind) {
	BEGIN(device);
	NEED(g->has_links);
	if (link >= MAX_LINKS || !g->links[link].active)
		return NVML_ERROR_INVALID_ARGUMENT;
	*kind = g->links[link].kind;
	return NVML_SUCCESS;
}
#endif

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci) {
	BEGIN(device);
	NEED(g->has_links);
	if (link >= MAX_LINKS || !g->links[link].active)
		return NVML_ERROR_INVALID_ARGUMENT;
	return answer_pci(pci, g->links[link].pci);
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending) {
	BEGIN(device);
	NEED(g->has_mig);
	*current = *pending = g->mig_on;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count) {
	BEGIN(device);
	*count = g->has_mig ? g->mig_most : 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *mig) {
	BEGIN(device);
	NEED(g->has_mig);
	if (index >= g->mig_most)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!g->mig_on || !g->mig[index].there)
		return NVML_ERROR_NOT_FOUND;
	return open_handle(mig, device.handle->gpu, 1 + index, g->mig[index].uuid);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id) {
	BEGIN(device);
	NEED(m);
	*id = m->gi;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id) {
	BEGIN(device);
	NEED(m);
	*id = m->ci;
	return NVML_SUCCESS;
}

#if HAS_FABRIC
nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info) {
	BEGIN(device);
	NEED(g->has_fabric);
	*info = (nvmlGpuFabricInfo_t){.status = g->fabric.status, .cliqueId = g->fabric.cliqueId, .state = g->fabric.state};
	memcpy(info->clusterUuid, g->fabric.clusterUuid, sizeof info->clusterUuid);
	return NVML_SUCCESS;
}
#endif

#if HAS_FABRIC_V2
/* The third version is the second and a field more. */
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *info) {
	BEGIN(device);
	unsigned version = info->version;
	size_t size = sizeof(nvmlGpuFabricInfo_v2_t);
	if (HAS_FABRIC_V3 && version == nvmlGpuFabricInfo_v3)
		size = sizeof(nvmlGpuFabricInfo_v3_t);
	else if (version != nvmlGpuFabricInfo_v2)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	NEED(g->has_fabric);
	memcpy(info, &g->fabric, size);
	info->version = version;
	return NVML_SUCCESS;
}
#endif

#if HAS_PLATFORM
/* Both versions are laid out alike. */
nvmlReturn_t nvmlDeviceGetPlatformInfo(nvmlDevice_t device, nvmlPlatformInfo_t *info) {
	BEGIN(device);
	unsigned version = info->version;
	if (version != nvmlPlatformInfo_v1 && version != nvmlPlatformInfo_v2)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	NEED(g->has_platform);
	*info = g->platform;
	info->version = version;
	return NVML_SUCCESS;
}
#endif

nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned int *count) {
	ENTER(ANY);
	if (failed)
		return failed;
	*count = machine.excluded_count;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGetExcludedDeviceInfoByIndex(unsigned int index, nvmlExcludedDeviceInfo_t *info) {
	ENTER(ANY);
	if (failed)
		return failed;
	if (index >= machine.excluded_count)
		return NVML_ERROR_INVALID_ARGUMENT;
	info->uuid[0] = 0;
	return answer_pci(&info->pciInfo, machine.excluded[index]);
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) {
	ENTER(ANY);
	if (failed)
		return failed;
	for (int i = 0; i < MAX_SETS; i++)
		if (!sets[i].there) {
			sets[i] = (struct nvmlEventSet_st){.there = true, .descriptor = eventfd(0, EFD_CLOEXEC)};
			set->handle = &sets[i];
			return NVML_SUCCESS;
		}
	return NVML_ERROR_INSUFFICIENT_RESOURCES;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
	ENTER(ANY);
	if (failed)
		return failed;
	close(set.handle->descriptor);
	*set.handle = (struct nvmlEventSet_st){.there = false};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types) {
	BEGIN(device);
	NEED(g->has_events);
	*types = nvmlEventTypeXidCriticalError;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set) {
	BEGIN(device);
	NEED(g->has_events && types == nvmlEventTypeXidCriticalError);
	say("registered");
	set.handle->registered[device.handle->gpu] = YES;
	set.handle->delivered[device.handle->gpu] = g->xid_count;
	return NVML_SUCCESS;
}

/* next_event takes an event that the set has not delivered. */
static bool next_event(struct nvmlEventSet_st *set, nvmlEventData_t *data) {
	for (int i = 0; i < MAX_GPUS; i++) {
		struct gpu *g = &machine.gpus[i];
		if (!set->registered[i])
			continue;
		if (set->delivered[i] > g->xid_count)
			set->delivered[i] = g->xid_count;
		if (set->delivered[i] == g->xid_count)
			continue;
		*data = (nvmlEventData_t){.device.handle = &handles[i][0], .eventType = nvmlEventTypeXidCriticalError,
			.eventData = g->xids[set->delivered[i]++], .gpuInstanceId = -1, .computeInstanceId = -1};
		return true;
	}
	return false;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms) {
	ENTER(ANY);
	for (unsigned ms = 0; !failed; ms += 10) {
		if (next_event(set.handle, data))
			return NVML_SUCCESS;
		for (int i = 0; i < MAX_GPUS; i++)
			if (set.handle->registered[i] == DEAD)
				return NVML_ERROR_GPU_IS_LOST;
		if (ms >= timeout_ms)
			return NVML_ERROR_TIMEOUT;
		pause_call();
		failed = enter(__func__, ANY);
	}
	return failed;
}
