//go:build ignore

/* A libdcgm without a host engine: it reads the GPUs from the text file that
 * FAKE_DCGM names. README.md describes the file. OLD leaves out a function. */
#include "dcgm_agent.h"
#include "dcgm_fields.h"
#include "dcgm_structs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_GPUS = 32 };

static struct {
	unsigned id;
	char uuid[80];
} gpus[MAX_GPUS];
static int count;
static const dcgmHandle_t handle = 7;
static int connected;

static void die(const char *what) {
	fprintf(stderr, "FAKE_DCGM: %s\n", what);
	_exit(3);
}

/* Reads the file and does what it says of the function. */
static dcgmReturn_t enter(const char *function) {
	const char *file = getenv("FAKE_DCGM");
	FILE *f = file ? fopen(file, "r") : NULL;
	char line[256], name[64], word[96];
	dcgmReturn_t result = DCGM_ST_OK;
	if (!f)
		die("no such file");
	for (count = 0; fgets(line, sizeof line, f);) {
		int code = 0;
		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (sscanf(line, "gpu %u %79s", &gpus[count % MAX_GPUS].id, gpus[count % MAX_GPUS].uuid) == 2) {
			if (++count > MAX_GPUS)
				die("too many GPUs");
			continue;
		}
		if (sscanf(line, "call %63s %95s %d", name, word, &code) < 2)
			die(line);
		if (strcmp(name, function))
			continue;
		if (!strcmp(word, "hang"))
			for (;;)
				pause();
		else if (!strcmp(word, "exit"))
			_exit(code);
		else if (!strcmp(word, "crash"))
			*(volatile int *)0 = 1;
		else if (!strcmp(word, "print"))
			(void)!write(1, "libdcgm: a word\n", 16);
		else if (!strcmp(word, "error"))
			result = (dcgmReturn_t)code;
		else
			die(line);
	}
	fclose(f);
	return result;
}

dcgmReturn_t dcgmInit(void) { return enter(__func__); }
dcgmReturn_t dcgmShutdown(void) { return enter(__func__); }

dcgmReturn_t dcgmConnect_v2(const char *address, dcgmConnectV2Params_t *params, dcgmHandle_t *out) {
	dcgmReturn_t result = enter(__func__);
	if (params->version != dcgmConnectV2Params_version)
		return DCGM_ST_VER_MISMATCH;
	if (!address[0] || (address[0] == '/') != (params->addressIsUnixSocket == 1))
		return DCGM_ST_BADPARAM;
	if (result == DCGM_ST_OK) {
		*out = handle;
		connected = 1;
	}
	return result;
}

dcgmReturn_t dcgmDisconnect(dcgmHandle_t h) {
	(void)h;
	connected = 0;
	return enter(__func__);
}

dcgmReturn_t dcgmGetEntityGroupEntities(dcgmHandle_t h, dcgm_field_entity_group_t group, dcgm_field_eid_t *ids, int *most, unsigned flags) {
	dcgmReturn_t result = enter(__func__);
	(void)flags;
	if (!connected || h != handle)
		return DCGM_ST_CONNECTION_NOT_VALID;
	if (group != DCGM_FE_GPU || *most < count)
		return DCGM_ST_BADPARAM;
	for (int i = 0; i < count; i++)
		ids[i] = gpus[i].id;
	*most = count;
	return result;
}

#ifndef OLD
dcgmReturn_t dcgmEntitiesGetLatestValues(dcgmHandle_t h, dcgmGroupEntityPair_t entities[], unsigned n, unsigned short fields[], unsigned field_count,
					 unsigned flags, dcgmFieldValue_v2 values[]) {
	dcgmReturn_t result = enter(__func__);
	if (!connected || h != handle)
		return DCGM_ST_CONNECTION_NOT_VALID;
	if (field_count != 1 || fields[0] != DCGM_FI_DEV_GPU_UUID || !(flags & DCGM_FV_FLAG_LIVE_DATA))
		return DCGM_ST_BADPARAM;
	for (unsigned i = 0; i < n; i++) {
		dcgmFieldValue_v2 *v = &values[i];
		memset(v, 0, sizeof *v);
		v->version = dcgmFieldValue_version2;
		v->entityGroupId = entities[i].entityGroupId;
		v->entityId = entities[i].entityId;
		v->fieldId = fields[0];
		v->fieldType = DCGM_FT_STRING;
		v->status = DCGM_ST_BADPARAM;
		for (int j = 0; j < count; j++)
			if (gpus[j].id == entities[i].entityId) {
				v->status = strcmp(gpus[j].uuid, "lost") ? DCGM_ST_OK : DCGM_ST_GPU_IS_LOST;
				strcpy(v->value.str, strcmp(gpus[j].uuid, "lost") ? gpus[j].uuid : DCGM_STR_BLANK);
			}
	}
	return result;
}
#endif

const char *errorString(dcgmReturn_t result) {
	switch (result) {
	case DCGM_ST_OK:
		return "Success";
	case DCGM_ST_BADPARAM:
		return "Bad parameter passed to function";
	case DCGM_ST_VER_MISMATCH:
		return "API version mismatch";
	case DCGM_ST_CONNECTION_NOT_VALID:
		return "Host engine connection invalid/disconnected";
	default:
		return "Unknown error";
	}
}
