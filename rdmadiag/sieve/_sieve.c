/*
 * The sieve of lines.py, which has the same in Python: which segments of a text hold words of
 * both kinds. A segment ends at '\n' or '\r' and is cut around its first word if it is long.
 *
 * Words have four bytes or more. Of each the four that are rarest in text stand in a table by
 * their hash, and a word is compared only where those are seen. ASCII case is folded on both
 * sides. Nothing is allocated, nothing is kept.
 */

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

enum { LAYOUT_REVISION = 5 };
enum { BUCKET_BITS = 18, BOTH = 3, STRIDE = 4 };
enum { LONGEST = 128 }; /* bytes: no word has more */

struct word {
    const uint8_t *text; /* folded */
    uint32_t length;
    uint32_t bits;
};

struct entry {
    uint32_t group; /* its four rarest bytes, as `group` folds them */
    uint16_t word;
    uint16_t offset; /* of those in the word */
    uint32_t next;   /* entry of the same bucket; 0: none */
};

struct table {
    uint8_t *seen;         /* a byte for each bucket, and three spare ones: is there an entry? */
    uint32_t *heads;       /* the first entry of each; 0: none */
    struct entry *entries; /* the first is not used */
    const struct word *words;
    uint32_t before; /* bytes of a segment that are kept before its first word */
    uint32_t behind; /* and after its start */
};

struct hit {
    uint64_t start;
    uint64_t end;
    uint64_t newlines; /* before start, from the beginning of the text */
};

struct progress {
    uint64_t at;      /* where to go on */
    uint64_t counted; /* newlines are counted up to here */
    uint64_t newlines;
    uint64_t segment_end; /* up to here the text belongs to a segment that is done */
};

uint32_t rdmadiag_sieve_layout(void) { return LAYOUT_REVISION; }

static inline uint8_t fold(uint8_t byte) {
    return (uint8_t)(byte - 'A') < 26 ? byte | 0x20 : byte;
}

/* More than case is folded: is_word has the last word. Little endian on every machine. */
static inline uint32_t group_at(const uint8_t *at) {
    uint32_t four = at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    return four | 0x20202020;
}

static const uint32_t FACTOR = 0x9E3779B1u;

static inline uint32_t bucket_of(uint32_t group) { return (group * FACTOR) >> (32 - BUCKET_BITS); }

/* By how often they stand in logs. */
static const char COMMON[] = " etaoinsrhldcumfpgwybv0123456789.,:[]()_-/=kxjqz";
/* Four that stand in many lines, however rare each byte is. */
static const char OFTEN[] = "ncclnet/et/it/ibtimeimeomeoueoutinforankrdmawarn00001000000:, ti"
                            "requ reqequequeswaitconnpackckag errerrorrorfailailedevievicenginginginepid=] re"
                            " infccl d 0. 0. ) waorchtorcfilekageror:imedr: {nnec";

/* Where the four bytes of a word begin that are seen least; of the same, the first. */
static uint32_t rarest(const struct word *word) {
    uint32_t best = 0, most = 0;
    for (uint32_t at = 0; at + 4 <= word->length; at++) {
        uint32_t sum = 1;
        int has_letter = 0; /* else it is of times, numbers of ranks and the like */
        for (uint32_t i = at; i < at + 4; i++) {
            const char *found = memchr(COMMON, word->text[i], sizeof COMMON - 1);
            sum += found ? (uint32_t)(found - COMMON) : 63;
            has_letter |= word->text[i] >= 'a';
        }
        if (!has_letter)
            sum = 1;
        for (const char *four = OFTEN; *four; four += 4)
            if (!memcmp(word->text + at, four, 4))
                sum = 1;
        if (sum > most) {
            most = sum;
            best = at;
        }
    }
    return best;
}

/* Of words, and of a table that has but zeros. */
void rdmadiag_sieve_fill(struct table *table, uint32_t words) {
    for (uint32_t word = 0; word < words; word++) {
        uint32_t offset = rarest(&table->words[word]);
        uint32_t group = group_at(table->words[word].text + offset);
        uint32_t bucket = bucket_of(group);
        table->entries[word + 1] = (struct entry){group, (uint16_t)word, (uint16_t)offset, table->heads[bucket]};
        table->heads[bucket] = word + 1;
        table->seen[bucket] = 1;
    }
}

static uint64_t count_newlines(const uint8_t *text, uint64_t from, uint64_t to) {
    uint64_t total = 0;
    while (from < to) {
        uint64_t stop = to - from > 255 ? from + 255 : to;
        uint8_t some = 0;
        for (; from < stop; from++)
            some = (uint8_t)(some + (text[from] == '\n'));
        total += some;
    }
    return total;
}

static int is_word(const struct word *word, const uint8_t *at) {
    for (uint32_t i = 0; i < word->length; i++)
        if (fold(at[i]) != word->text[i])
            return 0;
    return 1;
}

static uint64_t segment_start(const uint8_t *text, uint64_t at, uint64_t lowest) {
    while (at > lowest && text[at - 1] != '\n' && text[at - 1] != '\r')
        at--;
    return at;
}

/* Where the first '\n' or '\r' is, from `at` on; else `highest`. */
static uint64_t segment_end(const uint8_t *text, uint64_t at, uint64_t highest) {
    const uint8_t *found = memchr(text + at, '\n', highest - at);
    if (found)
        highest = (uint64_t)(found - text);
    found = memchr(text + at, '\r', highest - at);
    return found ? (uint64_t)(found - text) : highest;
}

/* At which of the STRIDE bytes from here on a group stands that may be a word's: a bit for each. */
static inline uint32_t seen_here(const struct table *table, const uint8_t *at) {
    uint64_t eight = 0;
    for (int i = 0; i < 8; i++)
        eight |= (uint64_t)at[i] << (8 * i);
    eight |= 0x2020202020202020u;
    uint32_t seen = 0;
    for (int i = 0; i < STRIDE; i++)
        seen |= (uint32_t)table->seen[bucket_of((uint32_t)(eight >> (8 * i)))] << i;
    return seen;
}

/*
 * From `at` on, a place up to which no group is seen: at most eight bytes before one, or sixteen
 * before `stop`. With eight bytes at a time the text is read in four fifths of the time.
 */
#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2"))) static uint64_t unseen_avx2(const uint8_t *seen, const uint8_t *text,
                                                            uint64_t at, uint64_t stop) {
    const __m256i groups_of_11 =
        _mm256_setr_epi8(0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6, /* … and of the other half */
                         4, 5, 6, 7, 5, 6, 7, 8, 6, 7, 8, 9, 7, 8, 9, 10);
    const __m256i folded = _mm256_set1_epi8(0x20), one_byte = _mm256_set1_epi32(0xFF);
    const __m256i factor = _mm256_set1_epi32((int)FACTOR);
    for (; at + 16 <= stop; at += 8) {
        __m256i both = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(text + at)));
        __m256i groups = _mm256_or_si256(_mm256_shuffle_epi8(both, groups_of_11), folded);
        __m256i buckets = _mm256_srli_epi32(_mm256_mullo_epi32(groups, factor), 32 - BUCKET_BITS);
        if (!_mm256_testz_si256(_mm256_i32gather_epi32((const int *)seen, buckets, 1), one_byte))
            break;
    }
    return at;
}

static uint64_t unseen(const uint8_t *seen, const uint8_t *text, uint64_t at, uint64_t stop) {
    return __builtin_cpu_supports("avx2") ? unseen_avx2(seen, text, at, stop) : at;
}
#else
static uint64_t unseen(const uint8_t *seen, const uint8_t *text, uint64_t at, uint64_t stop) {
    (void)seen, (void)text, (void)stop;
    return at;
}
#endif

/*
 * Where the first word begins of those around `first`, which begins at or behind `lowest`: the four
 * bytes by which one is found may stand behind those of a word that begins later.
 */
static uint64_t earliest(const struct table *table, const uint8_t *text, uint64_t lowest,
                         uint64_t first, uint64_t at, uint64_t limit) {
    uint64_t stop = first + LONGEST < limit ? first + LONGEST : limit;
    for (uint64_t next = at; next + 3 < stop; next++) {
        uint32_t group = group_at(text + next);
        for (uint32_t i = table->heads[bucket_of(group)]; i; i = table->entries[i].next) {
            const struct entry *entry = &table->entries[i];
            const struct word *word = &table->words[entry->word];
            if (entry->group != group || next < lowest + entry->offset)
                continue;
            uint64_t from = next - entry->offset;
            if (from < first && from + word->length <= limit && is_word(word, text + from))
                first = from;
        }
    }
    return first;
}

/*
 * Looks at the words that start in text[progress->at .. end); text[lowest .. limit) may be read.
 * Returns how many hits it wrote; fewer than `most`: it came to the end.
 */
size_t rdmadiag_sieve(const struct table *table, const uint8_t *text, uint64_t lowest,
                      uint64_t end, uint64_t limit, struct progress *progress, struct hit *hits,
                      size_t most) {
    size_t found = 0;
    uint32_t bits = 0;         /* of the segment that `first` is in */
    uint64_t first = 0;        /* its first word */
    uint64_t last = 0;         /* its last one so far */
    uint64_t done = progress->segment_end;
    uint64_t at = progress->at;
    /* A segment that began before the end is looked at to its own end. */
    while ((at < end || (bits && at < first + table->behind)) && at + 3 < limit) {
        uint64_t highest = bits && first + table->behind > end ? first + table->behind : end;
        at = unseen(table->seen, text, at, highest < limit ? highest : limit);
        uint32_t seen = at + 8 <= limit ? seen_here(table, text + at) : (1u << STRIDE) - 1;
        if (!seen) {
            at += STRIDE;
            continue;
        }
        for (uint64_t stop_at = at + STRIDE; at < stop_at && at + 3 < limit; at++, seen >>= 1) {
            if (!(seen & 1))
                continue;
            uint32_t group = group_at(text + at);
            for (uint32_t next = table->heads[bucket_of(group)]; next; next = table->entries[next].next) {
                const struct entry *entry = &table->entries[next];
                const struct word *word = &table->words[entry->word];
                if (entry->group != group || at < lowest + entry->offset)
                    continue;
                uint64_t from = at - entry->offset;
                if (from < done || from + word->length > limit || !is_word(word, text + from))
                    continue;
                if (bits && from >= last) {
                    uint64_t ceiling = first + table->behind;
                    uint64_t ends = segment_end(text, last, from < ceiling ? from : ceiling);
                    if (ends < from || from >= ceiling) { /* another segment */
                        done = ends;
                        bits = 0;
                    }
                }
                if (bits && from + word->length > first + table->behind)
                    continue; /* cut in two where the segment ends */
                if (!bits) {
                    if (from >= end)
                        continue; /* of the next call */
                    first = last = from;
                }
                first = from < first ? from : first;
                last = from > last ? from : last;
                bits |= word->bits;
                if (bits != BOTH)
                    continue;
                first = earliest(table, text, lowest > done ? lowest : done, first, at, limit);
                uint64_t floor = first > lowest + table->before ? first - table->before : lowest;
                uint64_t start = segment_start(text, first, floor > done ? floor : done);
                uint64_t room = limit - first > table->behind ? first + table->behind : limit;
                uint64_t stop = segment_end(text, first, room);
                progress->newlines += count_newlines(text, progress->counted, start);
                progress->counted = start;
                hits[found++] = (struct hit){start, stop, progress->newlines};
                bits = 0;
                done = stop;
                at = stop - 1;
                if (found == most) {
                    progress->at = stop;
                    progress->segment_end = stop;
                    return found;
                }
                stop_at = 0;
                break;
            }
        }
    }
    progress->at = at;
    progress->segment_end = done;
    if (progress->counted < end) {
        progress->newlines += count_newlines(text, progress->counted, end);
        progress->counted = end;
    }
    return found;
}
