/* Lets a process see a wall clock that is ahead, by the milliseconds that the file in AIOLOCK_STEPPED_CLOCK says: 8 bytes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t ahead_us(void) {
    static volatile int64_t *ms;
    static int looked;
    if (!looked) {
        const char *path = getenv("AIOLOCK_STEPPED_CLOCK");
        int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        void *seen = file < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
        if (seen != MAP_FAILED) ms = seen;
        if (file >= 0) close(file);
        looked = 1;
    }
    return ms ? *ms * 1000 : 0;
}

int gettimeofday(struct timeval *now, void *zone) {
    static int (*real)(struct timeval *, void *);
    if (!real) real = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
    int failed = real(now, zone);
    int64_t us = (int64_t)now->tv_sec * 1000000 + now->tv_usec + ahead_us();
    now->tv_sec = us / 1000000;
    now->tv_usec = us % 1000000;
    return failed;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
        int64_t us = (int64_t)now->tv_sec * 1000000 + now->tv_nsec / 1000 + ahead_us();
        now->tv_sec = us / 1000000;
        now->tv_nsec = us % 1000000 * 1000 + now->tv_nsec % 1000;
    }
    return failed;
}

time_t time(time_t *into) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into) *into = now.tv_sec;
    return now.tv_sec;
}
