/* What a machine in virtual time has instead of the host's random numbers: getrandom(2), from a seed.
 *
 * User-Mode Linux seeds its own generator by the host's getrandom. So tables of its kernel are hashed, ports chosen and
 * sequence numbers begun otherwise in each machine, and a FIFO drops other packets. Preloaded before the kernel, this
 * gives the same bytes for the same WEIRLAB_SEED (SplitMix64, Steele, Lea and Flood 2014). It serves measurements and no
 * secret. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

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
