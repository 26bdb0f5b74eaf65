/*
 * contract: what a built server shows to a tracer, and nothing else.
 * It stands between the runtime, which writes it, and the probes and the tracer, which read it.
 *
 * Units: ticks are raw time stamp counter readings (base/clock.h); bytes; items.
 * Owns: nothing; it all lies in the server's static memory.
 * Threads: each block says who writes it. A reader is always another process.
 * Errors: a reader treats every word as hostile: it checks magic, version, counts and addresses before use.
 *
 * The server exports `weir_contract` (struct weir_contract) in .dynsym. A tracer computes its address from the symbol and the
 * executable's PT_LOAD segments, reads the struct, and finds everything else through the addresses in it.
 *
 * Trace points. Each is one 1-byte nop behind a semaphore, with an ELF note as USDT has it (provider "weir"). Arguments are in
 * fixed registers, so that a probe needs no parser:
 *
 *   point          arguments (rdi, rsi, rdx)                  hit
 *   thread_start   slot index, thread id                      a pool thread took its slot
 *   items_flush    slot index, struct weir_contract_log *,    a thread's item log is full, or it is about to sleep
 *                  count of records
 *   trace_on       none                                       never; its semaphore asks for stamping
 *   trace_exact    none                                       never; its semaphore asks for every item and for tick counters
 *
 * Stamping. While trace_on's semaphore is up, a share of the items is stamped (while trace_exact's is up: all of them) on their
 * way: one record for each item and segment (the run of stages on one pool), in the log of the thread that ran the segment. The
 * share is thinned at random; a record's `weight` says for how many items it stands. An item without stamps that passes a
 * segment while trace_exact is up was pushed before the attach and counts in `unstamped`.
 */
#ifndef WEIR_PROBES_CONTRACT_H
#define WEIR_PROBES_CONTRACT_H

#ifdef __bpf__
typedef unsigned char weir_u8;
typedef unsigned short weir_u16;
typedef unsigned int weir_u32;
typedef unsigned long long weir_u64;
#else
#include <stdint.h>
typedef uint8_t weir_u8;
typedef uint16_t weir_u16;
typedef uint32_t weir_u32;
typedef uint64_t weir_u64;
#endif

#include "base/histogram_bucket.h"

#define WEIR_CONTRACT_SYMBOL "weir_contract"
#define WEIR_CONTRACT_MAGIC 0x3130524945573177ull
#define WEIR_CONTRACT_MAJOR 1
#define WEIR_CONTRACT_MINOR 2 /* 1: slots; 2: what threads take from queues, and requests that overlap */

#define WEIR_THREAD_SLOTS 256u
#define WEIR_LOG_RECORDS 64u
#define WEIR_RECORD_TICKS 10u
#define WEIR_NO_QUEUE 0xffffu

/* Why a thread sleeps: its `wait` word is kind | object << 8. The object is a queue's or a slot stage's index. */
enum weir_wait {
    WEIR_WAIT_NONE,
    WEIR_WAIT_IDLE,     /* for input: an empty queue (object: queue), or its event loop (object: 0xffffff) */
    WEIR_WAIT_FULL,     /* a full queue (object: queue) */
    WEIR_WAIT_SLOT,     /* a free slot (object: stage) */
    WEIR_WAIT_IO,
    WEIR_WAIT_LOCK,     /* object: queue whose lock it is */
    WEIR_WAIT_PAUSE,    /* a `busy … pause` sleeps */
    WEIR_WAIT_KINDS
};
#define WEIR_WAIT_WORD(kind, object) ((weir_u32)(kind) | (weir_u32)(object) << 8)
#define WEIR_WAIT_LOOP 0xffffffu
#define WEIR_WAIT_NOTHING 0xffffffu /* no object, or one that nobody told */

/* One thread. Written by that thread alone, each word by a relaxed store, tag and wait with a signal fence. */
struct weir_contract_thread {
    weir_u32 tid;        /* as its own PID namespace has it; 0: the slot is free */
    weir_u32 generation; /* counts the threads that have had this slot */
    weir_u32 tag;        /* WEIR_TAG of base/topology.h: where it is now */
    weir_u32 wait;       /* WEIR_WAIT_WORD: what it waits for, when it sleeps */
    weir_u32 pool;
    weir_u32 takes;      /* with WEIR_CONTRACT_TAKES: items that it took from queues; wraps */
    weir_u64 unstamped;  /* items without stamps that passed a segment while trace_exact was up */
    weir_u64 tag_ticks;  /* with WEIR_CONTRACT_TAG_TICKS: since when the tag's ticks are not yet in its cell; 0: they don't count */
    weir_u64 padding[3];
};

/* One thread and tag. Written by that thread alone; monotonic, never reset. */
struct weir_contract_cell {
    weir_u64 entries; /* items that entered the stage (part 0), always counted */
    weir_u64 ticks;   /* time there, off-CPU time included; grows only while trace_exact is up */
    weir_u64 own_cpu_ns; /* thread CPU time that the stage measured by itself: `busy`; the truth that tests hold weir against */
    weir_u64 events;  /* events in those items, where the stage knows them */
};

/* One queue, or one event loop's share of a reply ring. Written under the queue's lock as a seqlock: `sequence` is odd while a
 * write is under way. in = out + dropped + rejected + queued_items, in every snapshot. */
struct weir_contract_queue {
    weir_u32 sequence;
    weir_u32 reserved;
    weir_u64 in, out, dropped, rejected;
    weir_u64 queued_items, queued_bytes;
    weir_u64 parked;    /* items that wait outside, not offered yet (`full block` in front of an event loop) */
    weir_u64 in_bytes;
    weir_u64 padding[7];
};

/* One way in, one event loop's share. Written by that loop's thread alone, as a seqlock.
 * accepted = answered + abandoned + discarded + in_flight, in every snapshot. */
struct weir_contract_way {
    weir_u32 sequence;
    weir_u32 connections;  /* open now */
    weir_u64 accepted, answered, abandoned, discarded, in_flight;
    weir_u64 accepted_bytes;
    weir_u64 malformed;    /* whole frames, datagrams or lines that did not parse (answered ok=false where a reply is owed) */
    weir_u64 bad_lengths;  /* frames (connection closed) and lines (skipped) above the limit */
    weir_u64 opened;       /* connections ever */
    weir_u64 events;       /* decoded events in accepted items */
    weir_u64 truncated;    /* datagrams above the limit; last lines without their end */
    weir_u64 kernel_drops; /* datagrams that the kernel dropped at the full socket */
    weir_u64 refused;      /* connections and datagrams whose sender may not come */
    weir_u64 failed_handshakes; /* of TLS (connection closed) */
    weir_u64 overlapped;   /* accepted while an earlier request of the same connection was not answered yet */
};

/* One pool of slots: the connections of a `forward` or `store`, each with so many requests in flight. Written under its lock as a
 * seqlock. taken = finished + failed + lost + in_use, in every snapshot. What is sent again after a lost connection keeps its
 * slot and was taken once. */
struct weir_contract_slots {
    weir_u32 sequence;
    weir_u32 stage;         /* index in the topology's stages */
    weir_u64 taken, finished;
    weir_u64 failed;        /* answered with an error, or never sent: all connections were down */
    weir_u64 lost;          /* with its connection, and reported */
    weir_u64 retried, in_use;
    weir_u64 open;          /* connections that are up */
    weir_u64 reconnects;
    weir_u64 unfilled;      /* slots of connections that are down */
    weir_u64 waits, waited_ns; /* of workers, for a slot: those that are over */
    weir_u64 full_ns;       /* with every slot in use: without the time since full_since_ns */
    weir_u64 full_since_ns; /* CLOCK_MONOTONIC; 0: a slot is free */
    weir_u64 times;         /* address: struct weir_contract_slot_times; outside of the seqlock, and never changes */
    weir_u64 alone_ns;      /* the shortest time of a request that had its connection to itself; 0: there was none yet */
};

/* How long, in the buckets of base/histogram_bucket.h; each word only grows. Of one pool of slots. */
struct weir_contract_slot_times {
    weir_u64 wait[WEIR_HISTOGRAM_BUCKETS];    /* of workers, for a slot */
    weir_u64 service[WEIR_HISTOGRAM_BUCKETS]; /* from the taking of a slot to its end; of stamped items, by their weight */
};

/* One item in one segment. */
struct weir_contract_record {
    weir_u64 push_ticks;  /* when it was put into the queue that led here; 0: it did not come through a queue, or unstamped then */
    weir_u64 bytes;       /* its size as the queue counted it; of a first segment: its payload */
    weir_u64 depth_bytes; /* of that queue right after the push */
    weir_u32 depth_items;
    weir_u32 weight;      /* items that it stands for */
    weir_u32 events;      /* 0 until it is decoded */
    weir_u16 queue;       /* index, or WEIR_NO_QUEUE */
    weir_u16 first;       /* instance id (with WEIR_INSTANCE_FIRST added) of the stage between ticks[0] and ticks[1] */
    weir_u8 tick_count;   /* 1..WEIR_RECORD_TICKS; stage first + i lies between ticks[i] and ticks[i + 1] */
    weir_u8 flags;        /* WEIR_RECORD_* */
    weir_u16 way;         /* index of its way in; 0xffff inside */
    weir_u32 reserved;
    weir_u64 ticks[WEIR_RECORD_TICKS]; /* [0]: start of the segment, which is the pop */
};
#define WEIR_RECORD_CHAINED 1u /* the same item's stages go on in the next record: count the item there no more */
#define WEIR_RECORD_CONTINUES 2u /* it goes on from the record before: push, queue and bytes are of that one */

/* One thread's log. The thread appends at records[count] and then stores count with release order. Handing over: it hits
 * items_flush, then stores 0 to count, then base + the old count to base, both with release order. A reader from outside reads base,
 * count, the records, then base again; when base is the same the records 0 .. count - 1 are good, and their sequence numbers
 * are base + index, so that none counts twice. */
struct weir_contract_log {
    weir_u64 base;
    weir_u32 count;
    weir_u32 reserved;
    weir_u64 oldest_ticks; /* when records[0] was written */
    weir_u64 padding[5];
    struct weir_contract_record records[WEIR_LOG_RECORDS];
};

#define WEIR_CONTRACT_TAG_TICKS 1u /* threads keep tag_ticks up to date */
#define WEIR_CONTRACT_TAKES 2u     /* threads keep takes up to date */

struct weir_contract {
    weir_u64 magic;
    weir_u16 major, minor;
    weir_u32 size;             /* of this struct */
    weir_u64 topology;         /* address: the topology, encoded as in a profile */
    weir_u32 topology_bytes;
    weir_u32 tag_count;        /* cells for each thread */
    weir_u64 threads;          /* address: struct weir_contract_thread [WEIR_THREAD_SLOTS] */
    weir_u64 cells;            /* address: struct weir_contract_cell [WEIR_THREAD_SLOTS][tag_count] */
    weir_u64 logs;             /* address: struct weir_contract_log [WEIR_THREAD_SLOTS] */
    weir_u64 queues;           /* address: struct weir_contract_queue [queue_count][shards] */
    weir_u64 ways;             /* address: struct weir_contract_way [way_count][shards] */
    weir_u32 queue_count, way_count;
    weir_u32 shards;           /* event loops that may share a ring or a way in; a handoff uses shard 0 */
    weir_u32 thread_overflow;  /* threads that found no free slot */
    weir_u64 slots;            /* address: struct weir_contract_slots [slot_count]; none in version 1.0 */
    weir_u32 slot_count;
    weir_u32 features;         /* WEIR_CONTRACT_* */
    weir_u64 start_ns;         /* CLOCK_MONOTONIC when the server started */
};

#endif
