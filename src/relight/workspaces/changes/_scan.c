/* Scan many directories in one call: names and stats of their entries, sorted, as one block per directory.
 *
 * The same blocks as scan.py makes in Python, byte for byte (a test compares them): u32 count, then per entry
 * u32 mode, u64 size, i64 mtime_ns, i64 ctime_ns, u64 inode; then the names, joined by '/'. Of a directory only mode
 * and inode are reported. A directory whose block equals the given one is only flagged as the same. No link is followed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#define RECORD 36
#define BATCH 8
#define MAX_THREADS 8

struct how { uint64_t flags, mode, resolve; };
struct result { int32_t error; int32_t same; uint64_t size; unsigned char *data; };
struct item { const char *name; uint16_t length; unsigned char stat[RECORD]; };
struct work {
    int root; uint32_t count; const char **paths; const char *before; const uint64_t *offsets;
    struct result *results; uint32_t next;
};
struct kernel_entry { uint64_t ino; int64_t off; unsigned short reclen; unsigned char type; char name[]; };
struct scratch { char *dents; struct item *items; size_t items_room; char *names; size_t names_room; };

static int open_directory(int root, const char *path) {
    struct how how = {O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW, 0, 0x08 | 0x04 | 0x02}; /* beneath, no links */
    return (int)syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof how);
}

static int by_name(const void *a, const void *b) {
    const struct item *x = a, *y = b;
    int order = memcmp(x->name, y->name, x->length < y->length ? x->length : y->length);
    return order ? order : (int)x->length - (int)y->length;
}

static void put(unsigned char *at, const struct stat *st) {
    uint32_t mode = st->st_mode;
    uint64_t size = st->st_size, ino = st->st_ino;
    int64_t mtime = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
    int64_t ctime = (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec;
    if (S_ISDIR(mode)) size = 0, mtime = 0, ctime = 0;
    memcpy(at, &mode, 4); memcpy(at + 4, &size, 8); memcpy(at + 12, &mtime, 8);
    memcpy(at + 20, &ctime, 8); memcpy(at + 28, &ino, 8);
}

/* All names into s->names (offsets first, pointers once the buffer has stopped moving), their stat into s->items. */
static long collect(int fd, struct scratch *s) {
    size_t count = 0, used = 0;
    for (;;) {
        long got = syscall(SYS_getdents64, fd, s->dents, 65536);
        if (got < 0) return -errno;
        if (got == 0) break;
        for (long at = 0; at < got;) {
            struct kernel_entry *e = (struct kernel_entry *)(s->dents + at);
            at += e->reclen;
            size_t length = strlen(e->name);
            if (e->name[0] == '.' && (length == 1 || (length == 2 && e->name[1] == '.'))) continue;
            struct stat st;
            if (fstatat(fd, e->name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT)) {
                if (errno == ENOENT) continue;
                memset(&st, 0, sizeof st);
            }
            if (count == s->items_room) {
                size_t room = s->items_room * 2;
                struct item *grown = realloc(s->items, room * sizeof *grown);
                if (!grown) return -ENOMEM;
                s->items = grown; s->items_room = room;
            }
            if (used + length > s->names_room) {
                size_t room = s->names_room * 2 + length;
                char *grown = realloc(s->names, room);
                if (!grown) return -ENOMEM;
                s->names = grown; s->names_room = room;
            }
            s->items[count].name = (const char *)used;
            s->items[count].length = (uint16_t)length;
            put(s->items[count].stat, &st);
            memcpy(s->names + used, e->name, length);
            used += length; count++;
        }
    }
    for (size_t i = 0; i < count; i++) s->items[i].name = s->names + (size_t)s->items[i].name;
    qsort(s->items, count, sizeof *s->items, by_name);
    return (long)count;
}

static void scan_one(struct work *w, uint32_t i, struct scratch *s) {
    struct result *r = &w->results[i];
    int fd = open_directory(w->root, w->paths[i]);
    if (fd < 0) { r->error = errno; return; }
    long count = collect(fd, s);
    close(fd);
    if (count < 0) { r->error = (int32_t)-count; return; }
    size_t size = 4 + (size_t)count * RECORD + (count ? (size_t)count - 1 : 0);
    for (long k = 0; k < count; k++) size += s->items[k].length;
    unsigned char *block = malloc(size);
    if (!block) { r->error = ENOMEM; return; }
    uint32_t n = (uint32_t)count;
    memcpy(block, &n, 4);
    unsigned char *stats = block + 4, *names = stats + (size_t)count * RECORD;
    for (long k = 0; k < count; k++) {
        memcpy(stats + (size_t)k * RECORD, s->items[k].stat, RECORD);
        if (k) *names++ = '/';
        memcpy(names, s->items[k].name, s->items[k].length);
        names += s->items[k].length;
    }
    uint64_t start = w->offsets[i], end = w->offsets[i + 1];
    if (end - start == size && size && !memcmp(w->before + start, block, size)) { r->same = 1; free(block); return; }
    r->data = block; r->size = size;
}

static void *worker(void *arg) {
    struct work *w = arg;
    struct scratch s = {malloc(65536), malloc(256 * sizeof(struct item)), 256, malloc(16384), 16384};
    for (;;) {
        uint32_t from = __atomic_fetch_add(&w->next, BATCH, __ATOMIC_RELAXED);
        if (from >= w->count) break;
        uint32_t to = from + BATCH < w->count ? from + BATCH : w->count;
        for (uint32_t i = from; i < to; i++) {
            if (!s.dents || !s.items || !s.names) w->results[i].error = ENOMEM;
            else scan_one(w, i, &s);
        }
    }
    free(s.dents); free(s.items); free(s.names);
    return NULL;
}

void relight_scan(int root, uint32_t count, const char **paths, const char *before, const uint64_t *offsets,
                  struct result *results, int threads) {
    struct work w = {root, count, paths, before, offsets, results, 0};
    pthread_t others[MAX_THREADS];
    int started = 0;
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    while (started < threads - 1 && count > (uint32_t)(started + 1) * BATCH * 2)
        if (pthread_create(&others[started], NULL, worker, &w)) break; else started++;
    worker(&w);
    for (int i = 0; i < started; i++) pthread_join(others[i], NULL);
}

void relight_release(uint32_t count, struct result *results) {
    for (uint32_t i = 0; i < count; i++) free(results[i].data);
}
