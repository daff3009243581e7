/* What a machine in virtual time has instead of the host's random numbers: getrandom(2) and /dev/random, from a seed.
 *
 * User-Mode Linux seeds its own generator by the host's getrandom, and goes on to feed it from the host's /dev/random, of
 * which it takes note at each reseeding, seconds after the start. So tables of its kernel are hashed, ports chosen and
 * sequence numbers begun otherwise in each machine, and a FIFO drops other packets. Preloaded before the kernel, this
 * gives the same bytes for the same WEIRLAB_SEED (SplitMix64, Steele, Lea and Flood 2014). It serves measurements and no
 * secret. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static uint64_t next_word(void) {
    static uint64_t state;
    static int is_seeded;
    if (!is_seeded) {
        const char *seed = getenv("WEIRLAB_SEED");
        state = seed ? strtoull(seed, NULL, 10) : 0;
        is_seeded = 1;
    }
    uint64_t word = state += 0x9e3779b97f4a7c15;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
    word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
    return word ^ (word >> 31);
}

ssize_t getrandom(void *buffer, size_t length, unsigned int flags) {
    unsigned char *bytes = buffer;
    uint64_t word = 0;
    (void)flags;
    for (size_t at = 0; at < length; at++) {
        if (at % 8 == 0) word = next_word();
        bytes[at] = (unsigned char)(word >> (at % 8 * 8));
    }
    return (ssize_t)length;
}

/* The kernel's file of /dev/random, which it opens once and keeps. */
static int random_file = -1;

int open64(const char *path, int flags, ...) {
    va_list mode;
    va_start(mode, flags);
    int file = (int)syscall(SYS_openat, AT_FDCWD, path, flags, va_arg(mode, int));
    va_end(mode);
    if (file >= 0 && strcmp(path, "/dev/random") == 0) random_file = file;
    return file;
}

ssize_t read(int file, void *buffer, size_t length) {
    if (file >= 0 && file == random_file) return getrandom(buffer, length, 0);
    return syscall(SYS_read, file, buffer, length);
}
