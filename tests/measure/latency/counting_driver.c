/* The functions of the CUDA driver that `orun.measure.streams` calls, on a stream that counts: an event that is recorded
   is as many milliseconds after the first as there were events between. There is one device, of number 0. */

#include <stddef.h>

static int now, events, stream, context, seen[64];

int cuInit(unsigned flags) { return flags ? 1 : 0; }

int cuDeviceGet(int *device, int number) {
    *device = number;
    return number ? 101 : 0;
}

int cuDevicePrimaryCtxRetain(void **made, int device) {
    *made = device ? NULL : &context;
    return 0;
}

int cuCtxSetCurrent(void *given) { return given == &context ? 0 : 201; }

int cuStreamCreate(void **made, unsigned flags) {
    *made = &stream;
    return flags == 1 ? 0 : 1;
}

int cuEventCreate(void **made, unsigned flags) {
    *made = &seen[events++];
    return flags ? 1 : 0;
}

int cuEventRecord(void *event, void *on) {
    *(int *)event = ++now;
    return on == &stream ? 0 : 400;
}

int cuEventSynchronize(void *event) { return *(int *)event ? 0 : 400; }

int cuEventElapsedTime(float *milliseconds, void *first, void *second) {
    *milliseconds = (float)(*(int *)second - *(int *)first);
    return *(int *)first ? 0 : 600;
}

int cuGetErrorString(int status, const char **text) {
    *text = status == 101 ? "invalid device ordinal" : status == 600 ? "device not ready" : NULL;
    return *text ? 0 : 1;
}
