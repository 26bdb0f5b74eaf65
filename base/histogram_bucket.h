/*
 * histogram_bucket: which bucket a value falls into, for the kernel's programs and for user space alike.
 *
 * Buckets are log-linear: 16 for each power of two, so that a bucket is at most 1/16 = 6.25 % wide, and a value below 16
 * has a bucket of its own (the layout of HdrHistogram, with 4 significant bits).
 *
 * Units: whatever the value has; ns everywhere today.
 * Owns: nothing.
 * Threads: any.
 * Errors: values of 2^44 and more (4.9 hours in ns) fall into the last bucket.
 */
#ifndef WEIR_BASE_HISTOGRAM_BUCKET_H
#define WEIR_BASE_HISTOGRAM_BUCKET_H

#define WEIR_HISTOGRAM_BITS 4
#define WEIR_HISTOGRAM_TOP 44
#define WEIR_HISTOGRAM_BUCKETS ((WEIR_HISTOGRAM_TOP - WEIR_HISTOGRAM_BITS + 1) << WEIR_HISTOGRAM_BITS)

/* floor(log2(value)), 0 for 0; written out since BPF has no count-leading-zeros. */
static inline __attribute__((always_inline)) unsigned weir_histogram_log2(unsigned long long value)
{
    unsigned log = 0;
    if (value >> 32) { value >>= 32; log += 32; }
    if (value >> 16) { value >>= 16; log += 16; }
    if (value >> 8) { value >>= 8; log += 8; }
    if (value >> 4) { value >>= 4; log += 4; }
    if (value >> 2) { value >>= 2; log += 2; }
    if (value >> 1) log += 1;
    return log;
}

static inline __attribute__((always_inline)) unsigned weir_histogram_bucket(unsigned long long value)
{
    if (value < (1u << WEIR_HISTOGRAM_BITS))
        return (unsigned)value;
    if (value >> WEIR_HISTOGRAM_TOP)
        return WEIR_HISTOGRAM_BUCKETS - 1;
    unsigned log = weir_histogram_log2(value);
    unsigned shift = log - WEIR_HISTOGRAM_BITS;
    return ((shift + 1) << WEIR_HISTOGRAM_BITS) + (unsigned)((value >> shift) & ((1u << WEIR_HISTOGRAM_BITS) - 1));
}

/* The smallest value of a bucket. */
static inline unsigned long long weir_histogram_low(unsigned bucket)
{
    if (bucket < (1u << WEIR_HISTOGRAM_BITS))
        return bucket;
    unsigned shift = (bucket >> WEIR_HISTOGRAM_BITS) - 1;
    return ((1ull << WEIR_HISTOGRAM_BITS) + (bucket & ((1u << WEIR_HISTOGRAM_BITS) - 1))) << shift;
}

#endif
