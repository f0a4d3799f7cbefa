/* Lets one call to the C library's input and output fail, or every one from there on: to be preloaded. Which one says a
   file that all processes of a run have mapped, where they count together (see calls.py, which writes it). Only what
   concerns a path below one folder counts. */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { OPEN, READ, WRITE, SYNC, CLOSE, RENAME, LINK, UNLINK, MKDIR, MODE, SIZE, CLONE, STAT, LIST, LOCK, MAP, KINDS };
enum how { ONCE, FROM_THEN_ON, ONCE_DONE }; /* the last: the call does its work, and then says that it failed */
enum who { ALL, FIRST, OTHERS };

struct plan {
    int64_t kind;                        /* of the call that fails; -1 to let none fail and count them all */
    int64_t who;                         /* whose */
    int64_t number;                      /* its number among those, from 1 */
    int64_t error;                       /* its errno; 0 for a read or write of half of the bytes */
    int64_t how;
    _Atomic int64_t failed;              /* how many have failed */
    _Atomic int64_t first;               /* id of the process that began it all */
    _Atomic int64_t counts[OTHERS + 1][KINDS];
    char below[1024];           /* the folder, with a slash at its end */
    char told[1024];            /* the first call that failed */
};

static struct plan *plan;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("ORUN_FAILING_CALLS");
    int file = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    long mapped = syscall(SYS_mmap, NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
    if (mapped == -1) return;
    plan = (struct plan *)mapped;
    int64_t none = 0;
    atomic_compare_exchange_strong(&plan->first, &none, getpid());
}

/* The path behind a descriptor; empty where there is none, as of a socket. */
static void path_of(int file, char *found) {
    char name[32];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    long length = syscall(SYS_readlink, name, found, PATH_MAX - 1);
    found[length > 0 ? length : 0] = 0;
}

static void absolute(int folder, const char *path, char *found) {
    if (path && path[0] == '/') {
        snprintf(found, PATH_MAX, "%s", path);
        return;
    }
    if (folder != AT_FDCWD) path_of(folder, found);
    else if (syscall(SYS_getcwd, found, PATH_MAX) < 0) found[0] = 0;
    size_t length = strlen(found);
    if (path && path[0]) snprintf(found + length, PATH_MAX - length, "/%s", path);
}

/* Whether this call is to fail; errno is as it was otherwise. */
static int fails(enum kind kind, const char *call, int folder, const char *path) {
    if (!plan || (plan->kind >= 0 && plan->kind != kind)) return 0;
    int before = errno;
    char found[PATH_MAX] = "";
    if (path) absolute(folder, path, found);
    else path_of(folder, found);
    errno = before;
    if (strncmp(found, plan->below, strlen(plan->below))) return 0;
    enum who who = getpid() == plan->first ? FIRST : OTHERS;
    int64_t alone = atomic_fetch_add(&plan->counts[who][kind], 1) + 1;
    int64_t together = atomic_fetch_add(&plan->counts[ALL][kind], 1) + 1;
    if (plan->kind < 0 || (plan->who != ALL && plan->who != who)) return 0;
    int64_t number = plan->who == ALL ? together : alone;
    if (number < plan->number || (number > plan->number && plan->how != FROM_THEN_ON)) return 0;
    if (!atomic_fetch_add(&plan->failed, 1))
        snprintf(plan->told, sizeof plan->told, "%s %.900s, %s", call, found, who == FIRST ? "the run" : "a process of it");
    return 1;
}

/* What was to fail could not. */
static void nothing_failed(void) {
    atomic_fetch_sub(&plan->failed, 1);
    memset(plan->told, 0, sizeof plan->told);
}

/* Keep half of what a read found for the next one. */
static ssize_t half_of(ssize_t found, int file, int back) {
    if (found < 2) {
        nothing_failed();
        return found;
    }
    if (back) syscall(SYS_lseek, file, -(found - found / 2), SEEK_CUR);
    return found / 2;
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)
/* What a call returns that may fail: `bad` is what it says of an error. */
#define TRY(kind, folder, path, work, bad)                                                    \
    do {                                                                                      \
        if (!fails(kind, __func__, folder, path)) return work;                                \
        if (plan->how == ONCE_DONE) (void)(work);                                             \
        errno = (int)plan->error;                                                             \
        return bad;                                                                           \
    } while (0)
/* A read or write that says that it failed, done or not. */
#define FAILED(work)                                                                          \
    do {                                                                                      \
        if (plan->how == ONCE_DONE) (void)!(work);                                            \
        errno = (int)plan->error;                                                             \
        return -1;                                                                            \
    } while (0)
#define READ_HALF(file, work, back)                                                           \
    do {                                                                                      \
        if (!fails(READ, __func__, file, NULL)) return work;                                  \
        if (plan->error) FAILED(work);                                                        \
        return half_of(work, file, back);                                                     \
    } while (0)
#define WRITE_HALF(file, count, work)                                                         \
    do {                                                                                      \
        if (!fails(WRITE, __func__, file, NULL)) return work;                                 \
        if (plan->error) FAILED(work);                                                        \
        if (count > 1) count /= 2;                                                            \
        else nothing_failed();                                                                \
        return work;                                                                          \
    } while (0)
#define MODE_OF(flags) mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) {                  \
        va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); }

#define OPENING(name) int name(const char *path, int flags, ...) {                            \
        MODE_OF(flags) REAL(name); TRY(OPEN, AT_FDCWD, path, real(path, flags, mode), -1); }
OPENING(open) OPENING(open64)
#define OPENING_AT(name) int name(int folder, const char *path, int flags, ...) {             \
        MODE_OF(flags) REAL(name); TRY(OPEN, folder, path, real(folder, path, flags, mode), -1); }
OPENING_AT(openat) OPENING_AT(openat64)

ssize_t read(int file, void *data, size_t count) { REAL(read); READ_HALF(file, real(file, data, count), 1); }
#define READING(name, where) ssize_t name(int file, void *data, size_t count, where place) {  \
        REAL(name); READ_HALF(file, real(file, data, count, place), 0); }
READING(pread, off_t) READING(pread64, off64_t)
ssize_t readv(int file, const struct iovec *parts, int count) {
    REAL(readv); READ_HALF(file, real(file, parts, count), 1); }
ssize_t write(int file, const void *data, size_t count) { REAL(write); WRITE_HALF(file, count, real(file, data, count)); }
#define WRITING(name, where) ssize_t name(int file, const void *data, size_t count, where place) { \
        REAL(name); WRITE_HALF(file, count, real(file, data, count, place)); }
WRITING(pwrite, off_t) WRITING(pwrite64, off64_t)
ssize_t writev(int file, const struct iovec *parts, int count) {
    REAL(writev); WRITE_HALF(file, count, real(file, parts, count)); }
ssize_t copy_file_range(int from, off64_t *start, int file, off64_t *place, size_t count, unsigned flags) {
    struct stat found; /* half of what there is: more is asked for */
    if (!syscall(SYS_fstat, from, &found) && (size_t)found.st_size < count) count = (size_t)found.st_size;
    REAL(copy_file_range); WRITE_HALF(file, count, real(from, start, file, place, count, flags)); }
#define SENDING(name, where) ssize_t name(int file, int from, where *start, size_t count) {   \
        REAL(name); WRITE_HALF(file, count, real(file, from, start, count)); }
SENDING(sendfile, off_t) SENDING(sendfile64, off64_t)

#define OF_FILE(name, kind) int name(int file) { REAL(name); TRY(kind, file, NULL, real(file), -1); }
OF_FILE(fsync, SYNC) OF_FILE(fdatasync, SYNC)
int close(int file) {
    REAL(close);
    int fail = fails(CLOSE, "close", file, NULL);
    int done = real(file); /* a descriptor is gone in any case */
    if (fail) errno = (int)plan->error;
    return fail ? -1 : done;
}

int rename(const char *from, const char *to) { REAL(rename); TRY(RENAME, AT_FDCWD, to, real(from, to), -1); }
int renameat(int one, const char *from, int two, const char *to) {
    REAL(renameat); TRY(RENAME, two, to, real(one, from, two, to), -1); }
int renameat2(int one, const char *from, int two, const char *to, unsigned flags) {
    REAL(renameat2); TRY(RENAME, two, to, real(one, from, two, to, flags), -1); }
int link(const char *from, const char *to) { REAL(link); TRY(LINK, AT_FDCWD, to, real(from, to), -1); }
int linkat(int one, const char *from, int two, const char *to, int flags) {
    REAL(linkat); TRY(LINK, two, to, real(one, from, two, to, flags), -1); }
int symlink(const char *from, const char *to) { REAL(symlink); TRY(LINK, AT_FDCWD, to, real(from, to), -1); }

#define OF_PATH(name, kind) int name(const char *path) { REAL(name); TRY(kind, AT_FDCWD, path, real(path), -1); }
OF_PATH(unlink, UNLINK) OF_PATH(rmdir, UNLINK)
int unlinkat(int folder, const char *path, int flags) {
    REAL(unlinkat); TRY(UNLINK, folder, path, real(folder, path, flags), -1); }
int mkdir(const char *path, mode_t mode) { REAL(mkdir); TRY(MKDIR, AT_FDCWD, path, real(path, mode), -1); }
int mkdirat(int folder, const char *path, mode_t mode) {
    REAL(mkdirat); TRY(MKDIR, folder, path, real(folder, path, mode), -1); }
int chmod(const char *path, mode_t mode) { REAL(chmod); TRY(MODE, AT_FDCWD, path, real(path, mode), -1); }
int fchmod(int file, mode_t mode) { REAL(fchmod); TRY(MODE, file, NULL, real(file, mode), -1); }
int fchown(int file, uid_t owner, gid_t group) { REAL(fchown); TRY(MODE, file, NULL, real(file, owner, group), -1); }
int fchmodat(int folder, const char *path, mode_t mode, int flags) {
    REAL(fchmodat); TRY(MODE, folder, path, real(folder, path, mode, flags), -1); }
int utimensat(int folder, const char *path, const struct timespec times[2], int flags) {
    REAL(utimensat); TRY(MODE, folder, path, real(folder, path, times, flags), -1); }
int futimens(int file, const struct timespec times[2]) { REAL(futimens); TRY(MODE, file, NULL, real(file, times), -1); }

#define SIZING(name, type) int name(int file, type size) { REAL(name); TRY(SIZE, file, NULL, real(file, size), -1); }
SIZING(ftruncate, off_t) SIZING(ftruncate64, off64_t)
#define CUTTING(name, type) int name(const char *path, type size) {                           \
        REAL(name); TRY(SIZE, AT_FDCWD, path, real(path, size), -1); }
CUTTING(truncate, off_t) CUTTING(truncate64, off64_t)
#define RESERVING(name, type) int name(int file, type start, type size) {                     \
        REAL(name); TRY(SIZE, file, NULL, real(file, start, size), (int)plan->error); }
RESERVING(posix_fallocate, off_t) RESERVING(posix_fallocate64, off64_t)
#define STATVFS(name, type) int name(const char *path, struct type *found) {                  \
        REAL(name); TRY(SIZE, AT_FDCWD, path, real(path, found), -1); }
STATVFS(statvfs, statvfs) STATVFS(statvfs64, statvfs64)

int ioctl(int file, unsigned long request, ...) {
    REAL(ioctl);
    va_list rest;
    va_start(rest, request);
    void *given = va_arg(rest, void *);
    va_end(rest);
    if (request != FICLONE) return real(file, request, given);
    TRY(CLONE, file, NULL, real(file, request, given), -1);
}

#define OF_STATE(name, type) int name(const char *path, struct type *found) {                 \
        REAL(name); TRY(STAT, AT_FDCWD, path, real(path, found), -1); }
OF_STATE(stat, stat) OF_STATE(stat64, stat64) OF_STATE(lstat, stat) OF_STATE(lstat64, stat64)
#define OF_OPEN(name, type) int name(int file, struct type *found) { REAL(name); TRY(STAT, file, NULL, real(file, found), -1); }
OF_OPEN(fstat, stat) OF_OPEN(fstat64, stat64)
#define OF_PLACE(name, type) int name(int folder, const char *path, struct type *found, int flags) { \
        REAL(name); TRY(STAT, folder, path, real(folder, path, found, flags), -1); }
OF_PLACE(fstatat, stat) OF_PLACE(fstatat64, stat64)
int statx(int folder, const char *path, int flags, unsigned wanted, struct statx *found) {
    REAL(statx); TRY(STAT, folder, path, real(folder, path, flags, wanted, found), -1); }
int access(const char *path, int mode) { REAL(access); TRY(STAT, AT_FDCWD, path, real(path, mode), -1); }
int faccessat(int folder, const char *path, int mode, int flags) {
    REAL(faccessat); TRY(STAT, folder, path, real(folder, path, mode, flags), -1); }
ssize_t readlink(const char *path, char *found, size_t most) {
    REAL(readlink); TRY(STAT, AT_FDCWD, path, real(path, found, most), -1); }
ssize_t readlinkat(int folder, const char *path, char *found, size_t most) {
    REAL(readlinkat); TRY(STAT, folder, path, real(folder, path, found, most), -1); }

DIR *opendir(const char *path) { REAL(opendir); TRY(LIST, AT_FDCWD, path, real(path), NULL); }
DIR *fdopendir(int file) { REAL(fdopendir); TRY(LIST, file, NULL, real(file), NULL); }
#define LISTING(name, type) struct type *name(DIR *folder) { REAL(name); TRY(LIST, dirfd(folder), NULL, real(folder), NULL); }
LISTING(readdir, dirent) LISTING(readdir64, dirent64)

int flock(int file, int operation) { REAL(flock); TRY(LOCK, file, NULL, real(file, operation), -1); }
#define CONTROLLING(name) int name(int file, int command, ...) {                              \
        REAL(name); va_list rest; va_start(rest, command); void *given = va_arg(rest, void *); va_end(rest); \
        if (command != F_SETLK && command != F_SETLKW) return real(file, command, given);     \
        TRY(LOCK, file, NULL, real(file, command, given), -1); }
CONTROLLING(fcntl) CONTROLLING(fcntl64)

#define MAPPING(name, where) void *name(void *place, size_t length, int allowed, int flags, int file, where start) { \
        REAL(name);                                                                           \
        if (file < 0) return real(place, length, allowed, flags, file, start);                \
        TRY(MAP, file, NULL, real(place, length, allowed, flags, file, start), MAP_FAILED); }
MAPPING(mmap, off_t) MAPPING(mmap64, off64_t)
