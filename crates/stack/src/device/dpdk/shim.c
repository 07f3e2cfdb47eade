/*
 * What of DPDK is macros and inline functions, as functions that another language can call.
 *
 * DPDK's data path (rte_eth_rx_burst, rte_eth_tx_burst, everything of an mbuf) exists in its headers only. This file
 * has one function for each step that mod.rs takes, and no decisions of its own; structures of DPDK do not leave it.
 * What EAL and the drivers print goes into a buffer: standard output belongs to the results.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>

/* ---- What was printed: the last of it, for messages. ---- */

static pthread_mutex_t printed_lock = PTHREAD_MUTEX_INITIALIZER;
static char printed[4096];
static size_t printed_len;

static ssize_t keep_printed(void *cookie, const char *text, size_t len) {
    const size_t given = len;
    (void)cookie;
    pthread_mutex_lock(&printed_lock);
    if (len > sizeof printed) {
        text += len - sizeof printed;
        len = sizeof printed;
    }
    if (printed_len + len > sizeof printed) {
        const size_t gone = printed_len + len - sizeof printed;
        memmove(printed, printed + gone, printed_len - gone);
        printed_len -= gone;
    }
    memcpy(printed + printed_len, text, len);
    printed_len += len;
    pthread_mutex_unlock(&printed_lock);
    return (ssize_t)given;
}

/* Copies what was printed since the last call to `into`, and returns its length. */
size_t prony_dpdk_printed(char *into, size_t len) {
    pthread_mutex_lock(&printed_lock);
    const size_t count = printed_len < len ? printed_len : len;
    memcpy(into, printed + printed_len - count, count);
    printed_len = 0;
    pthread_mutex_unlock(&printed_lock);
    return count;
}

/* ---- EAL and ports ---- */

/* Starts EAL; 0, or the error number. */
int prony_dpdk_start(int argc, char **argv) {
    static const cookie_io_functions_t keep = {.write = keep_printed};
    FILE *log = fopencookie(NULL, "w", keep);
    if (log == NULL)
        return errno;
    setvbuf(log, NULL, _IOLBF, 0);
    rte_openlog_stream(log);
    /* getopt(3) would print by itself, and EAL prints its whole usage to standard output. */
    opterr = 0;
    fflush(stdout);
    const int out = dup(STDOUT_FILENO), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (out >= 0 && nowhere >= 0)
        dup2(nowhere, STDOUT_FILENO);
    const int result = rte_eal_init(argc, argv);
    const int cause = rte_errno;
    fflush(stdout);
    if (out >= 0) {
        dup2(out, STDOUT_FILENO);
        close(out);
    }
    if (nowhere >= 0)
        close(nowhere);
    return result < 0 ? (cause ? cause : EINVAL) : 0;
}

/* The port of a device, which is probed when it is not there yet; below 0 the error number. */
int prony_dpdk_probe(const char *device) {
    struct rte_dev_iterator iterator;
    uint16_t port;
    const int result = rte_dev_probe(device);
    if (result < 0 && result != -EEXIST)
        return result;
    RTE_ETH_FOREACH_MATCHING_DEV(port, device, &iterator) {
        rte_eth_iterator_cleanup(&iterator);
        return port;
    }
    return -ENODEV;
}

/* As `Info` of mod.rs. */
struct prony_dpdk_info {
    char driver[32];
    uint8_t mac[6];
    uint16_t mtu_bytes;
    uint16_t queues_max;
    uint16_t segments_max;
    uint32_t room_bytes;
    uint8_t checksums;
    uint8_t cuts;
    uint8_t chains;
    uint8_t is_up;
};

#define CHECKSUMS (RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM)
#define CUTS (RTE_ETH_TX_OFFLOAD_TCP_TSO | RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_MULTI_SEGS | CHECKSUMS)
#define RX_CHECKSUMS (RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM)
#define RSS (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP)

static int all(uint64_t has, uint64_t wanted) { return (has & wanted) == wanted; }

/* What a port can do before it is configured. */
int prony_dpdk_look(uint16_t port, struct prony_dpdk_info *info) {
    struct rte_eth_dev_info device;
    struct rte_ether_addr mac;
    int result = rte_eth_dev_info_get(port, &device);
    if (result == 0)
        result = rte_eth_macaddr_get(port, &mac);
    if (result == 0)
        result = rte_eth_dev_get_mtu(port, &info->mtu_bytes);
    if (result != 0)
        return result;
    snprintf(info->driver, sizeof info->driver, "%s", device.driver_name);
    memcpy(info->mac, mac.addr_bytes, sizeof info->mac);
    info->queues_max = RTE_MIN(device.max_rx_queues, device.max_tx_queues);
    info->segments_max = device.tx_desc_lim.nb_seg_max;
    info->checksums = all(device.tx_offload_capa, CHECKSUMS);
    info->cuts = all(device.tx_offload_capa, CUTS);
    info->chains = all(device.tx_offload_capa, RTE_ETH_TX_OFFLOAD_MULTI_SEGS);
    return 0;
}

/* Configures and starts a port; `wanted_room` are the bytes of a frame that one buffer must hold. */
int prony_dpdk_open(uint16_t port, uint16_t queues, uint16_t entries, uint32_t wanted_room,
                    struct prony_dpdk_info *info, struct rte_mempool **pools) {
    struct rte_eth_dev_info device;
    struct rte_eth_conf how;
    uint16_t rx_entries = entries, tx_entries = entries;
    int result = rte_eth_dev_info_get(port, &device);
    if (result != 0)
        return result;
    memset(&how, 0, sizeof how);
    how.rxmode.mtu = info->mtu_bytes;
    how.rxmode.offloads = device.rx_offload_capa & (RX_CHECKSUMS | RTE_ETH_RX_OFFLOAD_SCATTER);
    how.txmode.offloads = device.tx_offload_capa & (CUTS | RTE_ETH_TX_OFFLOAD_MULTI_SEGS);
    if (!info->cuts)
        how.txmode.offloads &= ~(uint64_t)RTE_ETH_TX_OFFLOAD_TCP_TSO;
    if (queues > 1) {
        how.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        how.rx_adv_conf.rss_conf.rss_hf = device.flow_type_rss_offloads & RSS;
        if (how.rx_adv_conf.rss_conf.rss_hf == 0)
            how.rxmode.mq_mode = RTE_ETH_MQ_RX_NONE;
    }
    result = rte_eth_dev_configure(port, queues, queues, &how);
    if (result == 0)
        result = rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx_entries, &tx_entries);
    const int socket = rte_eth_dev_socket_id(port);
    for (uint16_t queue = 0; result == 0 && queue < queues; queue++) {
        char name[RTE_MEMPOOL_NAMESIZE];
        snprintf(name, sizeof name, "prony%u.%u", port, queue);
        /* Twice what both rings hold: frames wait in our hands and in the driver's. */
        pools[queue] = rte_pktmbuf_pool_create(name, 2u * (rx_entries + tx_entries) + 511, 256, 0,
                                               wanted_room + RTE_PKTMBUF_HEADROOM, socket);
        if (pools[queue] == NULL)
            return -rte_errno;
        result = rte_eth_rx_queue_setup(port, queue, rx_entries, socket, NULL, pools[queue]);
        if (result == 0)
            result = rte_eth_tx_queue_setup(port, queue, tx_entries, socket, NULL);
    }
    if (result == 0)
        result = rte_eth_dev_start(port);
    if (result != 0)
        return result;
    /* Neighbour solicitations are sent to groups. Not every driver filters, and not every one can be told. */
    if (rte_eth_allmulticast_enable(port) != 0)
        (void)rte_eth_promiscuous_enable(port);
    info->room_bytes = wanted_room;
    struct rte_eth_link link;
    info->is_up = rte_eth_link_get(port, &link) != 0 || link.link_status == RTE_ETH_LINK_UP;
    return 0;
}

/* Stops a port and lets the device go; its pools too. */
void prony_dpdk_close(uint16_t port, uint16_t queues, struct rte_mempool **pools) {
    struct rte_eth_dev_info device;
    struct rte_device *handle = rte_eth_dev_info_get(port, &device) == 0 ? device.device : NULL;
    (void)rte_eth_dev_stop(port);
    (void)rte_eth_dev_close(port);
    if (handle != NULL)
        (void)rte_dev_remove(handle);
    for (uint16_t queue = 0; queue < queues; queue++)
        rte_mempool_free(pools[queue]);
}

/* Frames that the port has lost on their way in, and could not send. */
void prony_dpdk_lost(uint16_t port, uint64_t *in, uint64_t *out) {
    struct rte_eth_stats stats;
    *in = *out = 0;
    if (rte_eth_stats_get(port, &stats) == 0) {
        *in = stats.imissed + stats.ierrors + stats.rx_nombuf;
        *out = stats.oerrors;
    }
}

/* Gives the calling thread a number, by which pools keep buffers at hand for it; without one all goes on, slower. */
int prony_dpdk_enter(void) { return rte_lcore_id() == LCORE_ID_ANY ? rte_thread_register() : -EEXIST; }

void prony_dpdk_leave(void) { rte_thread_unregister(); }

/* ---- Frames ---- */

uint16_t prony_dpdk_receive(uint16_t port, uint16_t queue, struct rte_mbuf **into, uint16_t count) {
    return rte_eth_rx_burst(port, queue, into, count);
}

/* As `Piece` of mod.rs. */
struct prony_dpdk_piece {
    const uint8_t *bytes;
    size_t len;
};

/* The pieces of a frame, 0 when it has more than `max`; `checksum`: 0 nothing known, 1 verified. */
uint32_t prony_dpdk_look_at(const struct rte_mbuf *frame, struct prony_dpdk_piece *pieces, uint32_t max,
                            uint32_t *checksum) {
    const uint64_t l4 = frame->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
    const uint64_t ip = frame->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK;
    *checksum = ip != RTE_MBUF_F_RX_IP_CKSUM_BAD &&
                (l4 == RTE_MBUF_F_RX_L4_CKSUM_GOOD || l4 == RTE_MBUF_F_RX_L4_CKSUM_NONE);
    uint32_t count = 0;
    for (; frame != NULL; frame = frame->next) {
        if (count == max)
            return 0;
        pieces[count].bytes = rte_pktmbuf_mtod(frame, const uint8_t *);
        pieces[count].len = rte_pktmbuf_data_len(frame);
        count++;
    }
    return count;
}

void prony_dpdk_free(struct rte_mbuf **frames, uint32_t count) { rte_pktmbuf_free_bulk(frames, count); }

/* An empty frame and where its bytes go; null when the pool has none. */
struct rte_mbuf *prony_dpdk_room(struct rte_mempool *pool, uint8_t **bytes) {
    struct rte_mbuf *frame = rte_pktmbuf_alloc(pool);
    if (frame != NULL)
        *bytes = rte_pktmbuf_mtod(frame, uint8_t *);
    return frame;
}

/* A frame in as many buffers of `room` bytes as it takes; null when the pool has not so many. */
struct rte_mbuf *prony_dpdk_chain(struct rte_mempool *pool, uint32_t room, const uint8_t *bytes, uint32_t len) {
    struct rte_mbuf *first = NULL, *last = NULL;
    for (uint32_t at = 0; at < len;) {
        struct rte_mbuf *piece = rte_pktmbuf_alloc(pool);
        if (piece == NULL) {
            rte_pktmbuf_free(first);
            return NULL;
        }
        const uint32_t part = RTE_MIN(room, len - at);
        memcpy(rte_pktmbuf_mtod(piece, uint8_t *), bytes + at, part);
        piece->data_len = (uint16_t)part;
        if (first == NULL) {
            first = piece;
        } else {
            last->next = piece;
            first->nb_segs++;
        }
        last = piece;
        at += part;
    }
    if (first != NULL)
        first->pkt_len = len;
    return first;
}

void prony_dpdk_set_len(struct rte_mbuf *frame, uint32_t len) {
    frame->data_len = (uint16_t)len;
    frame->pkt_len = len;
}

/* Leaves the sum of UDP or TCP to the port, and the cut into segments of `segment` bytes unless that is 0. */
void prony_dpdk_offload(struct rte_mbuf *frame, int is_ipv6, int is_udp, uint16_t l3_bytes, uint16_t l4_bytes,
                        uint16_t segment) {
    frame->l2_len = RTE_ETHER_HDR_LEN;
    frame->l3_len = l3_bytes;
    frame->l4_len = l4_bytes;
    frame->tso_segsz = segment;
    frame->ol_flags |= is_ipv6 ? RTE_MBUF_F_TX_IPV6 : RTE_MBUF_F_TX_IPV4;
    frame->ol_flags |= is_udp ? RTE_MBUF_F_TX_UDP_CKSUM : RTE_MBUF_F_TX_TCP_CKSUM;
    if (segment != 0)
        frame->ol_flags |= RTE_MBUF_F_TX_TCP_SEG | (is_ipv6 ? 0 : RTE_MBUF_F_TX_IP_CKSUM);
}

/* Sends the first of the frames; returns how many are gone, of which `refused` were nothing for the driver. */
uint16_t prony_dpdk_send(uint16_t port, uint16_t queue, struct rte_mbuf **frames, uint16_t count, uint16_t *refused) {
    const uint16_t ready = rte_eth_tx_prepare(port, queue, frames, count);
    *refused = 0;
    if (ready == 0 && count > 0) {
        rte_pktmbuf_free(frames[0]);
        *refused = 1;
        return 1;
    }
    return rte_eth_tx_burst(port, queue, frames, ready);
}
