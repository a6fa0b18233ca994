/* Makes states of file systems and fills them, for benches/prognosis_fills.py.
 *
 *   fill DIR SIZE NAME_BYTES counted|hashed   creates files in a new directory until ENOSPC; prints the number and the call that failed
 *   churn DIR PERCENT TURNS SEED              files of mixed sizes up to this fullness, then deletes and creates
 *   punch DIR HOLES EVERY                     one large file, from every EVERY blocks of which HOLES are freed
 *   trim DIR BYTES SEED                       files preallocated to BYTES, written in part and truncated, until ENOSPC
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static char zeros[1 << 20];
static uint64_t state;

static void fail(const char *what) { perror(what); exit(1); }

/* SplitMix64 (Steele et al., OOPSLA 2014). */
static uint64_t below(uint64_t limit) {
    uint64_t z = state += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return (z ^ (z >> 31)) % limit;
}

/* 0, or -1 with errno ENOSPC; every other failure ends the program. */
static int write_all(int file, size_t size) {
    while (size > 0) {
        ssize_t done = write(file, zeros, size < sizeof zeros ? size : sizeof zeros);
        if (done < 0 && errno != ENOSPC) fail("write");
        if (done < 0) return -1;
        size -= done;
    }
    return 0;
}

static int create(const char *name, size_t size, const char **call) {
    int file = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
    *call = "open";
    if (file < 0 && errno != ENOSPC) fail("open");
    if (file < 0) return -1;
    *call = "write";
    int failed = write_all(file, size);
    close(file);
    if (failed) unlink(name);
    return failed;
}

static void name_of(char *name, uint64_t number, int bytes, int hashed) {
    char digits[24];
    snprintf(digits, sizeof digits, hashed ? "%08llx" : "%08llu",
             hashed ? (unsigned long long)(number * 2654435761u % 4294967296u) : (unsigned long long)number);
    memset(name, 'x', bytes);
    memcpy(name, digits, 8);
    name[bytes] = 0;
}

static int fill(char **arguments) {
    size_t size = strtoull(arguments[1], NULL, 10);
    int bytes = atoi(arguments[2]), hashed = !strcmp(arguments[3], "hashed");
    const char *call = "mkdir";
    char name[256];
    uint64_t files = 0;
    if (chdir(arguments[0])) fail("chdir");
    if (mkdir(".senesce-probe", 0700)) {
        if (errno != ENOSPC) fail("mkdir");
    } else {
        if (chdir(".senesce-probe")) fail("chdir");
        for (;; files++) {
            name_of(name, files, bytes, hashed);
            if (create(name, size, &call)) break;
        }
    }
    printf("%llu %s\n", (unsigned long long)files, call);
    return 0;
}

static double used(void) {
    struct statvfs found;
    if (statvfs(".", &found)) fail("statvfs");
    return 1 - (double)found.f_bfree / found.f_blocks;
}

static void synchronise(void) {
    int here = open(".", O_RDONLY);
    if (here < 0 || syncfs(here)) fail("syncfs");
    close(here);
}

static int churn(char **arguments) {
    static const size_t sizes[] = {0, 1000, 4096, 12000, 40000, 130000, 600000};
    double full = atof(arguments[1]) / 100, turns = atof(arguments[2]);
    struct statvfs found;
    state = strtoull(arguments[3], NULL, 10);
    if (chdir(arguments[0]) || statvfs(".", &found)) fail("chdir");
    double capacity = (double)found.f_blocks * found.f_frsize, written = 0;
    uint64_t *live = malloc(sizeof *live << 22), count = 0, number = 0;
    char name[64];
    const char *call;
    for (int directory = 0; directory < 24; directory++) {
        snprintf(name, sizeof name, "d%d", directory);
        if (mkdir(name, 0700)) fail("mkdir");
    }
    for (;;) {
        for (int turn = 0; turn < 16; turn++, number++) {
            size_t size = sizes[below(7)];
            snprintf(name, sizeof name, "d%llu/f%llu", (unsigned long long)number % 24, (unsigned long long)number);
            if (create(name, size, &call)) return 0;
            live[count++] = number;
            written += size;
        }
        if (used() < full) continue;
        if (written > turns * capacity) return 0;
        for (int turn = 0; turn < 160 && count > 0; turn++) {
            uint64_t chosen = below(count);
            snprintf(name, sizeof name, "d%llu/f%llu", (unsigned long long)live[chosen] % 24, (unsigned long long)live[chosen]);
            if (unlink(name)) fail("unlink");
            live[chosen] = live[--count];
        }
        synchronise();
    }
}

static int punch(char **arguments) {
    uint64_t holes = strtoull(arguments[1], NULL, 10), every = strtoull(arguments[2], NULL, 10), length = 0;
    struct statvfs found;
    if (chdir(arguments[0]) || statvfs(".", &found)) fail("chdir");
    uint64_t block = found.f_frsize;
    int file = open("large", O_CREAT | O_WRONLY, 0600);
    ssize_t done;
    while ((done = write(file, zeros, sizeof zeros)) > 0) length += done;
    fsync(file);
    for (uint64_t at = 0; at < length / block / every; at++)
        if (fallocate(file, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, at * every * block, holes * block)) {
            if (errno != ENOSPC) fail("punch");
            break;
        }
    fsync(file);
    return 0;
}

static int trim(char **arguments) {
    enum { BATCH = 300 };
    int files[BATCH];
    uint64_t number = 0, bytes = strtoull(arguments[1], NULL, 10);
    char name[64];
    state = strtoull(arguments[2], NULL, 10);
    if (chdir(arguments[0])) fail("chdir");
    for (;;) {
        for (int one = 0; one < BATCH; one++) {
            snprintf(name, sizeof name, "c%07llu", (unsigned long long)number++);
            files[one] = open(name, O_RDWR | O_CREAT, 0644);
            if (files[one] < 0) return 0;
            if (fallocate(files[one], 0, 0, bytes)) {
                unlink(name);
                return 0;
            }
        }
        for (int one = 0; one < BATCH; one++) {
            size_t size = 200 + below(6801);
            if (pwrite(files[one], zeros, size, 0) < 0 || ftruncate(files[one], size)) return 0;
            close(files[one]);
        }
    }
}

int main(int count, char **arguments) {
    if (count == 6 && !strcmp(arguments[1], "fill")) return fill(arguments + 2);
    if (count == 6 && !strcmp(arguments[1], "churn")) return churn(arguments + 2);
    if (count == 5 && !strcmp(arguments[1], "punch")) return punch(arguments + 2);
    if (count == 5 && !strcmp(arguments[1], "trim")) return trim(arguments + 2);
    fprintf(stderr, "see the head of the source\n");
    return 2;
}
