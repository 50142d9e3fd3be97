/* Messages on their way: flows over links.
 *
 * A flow begins when both sides are there, or at once if it is eager. It waits for the latency of its links, and then
 * moves its bytes at a rate that its links share among all flows on them, as the classes of running entities share
 * theirs (sharing.c). Shares of a link go with 1 / penalty, so that a flow over a longer way gets less, as with TCP
 * (Velho and Legrand, SIMUTools 2009). Links are resources of one capacity.
 *
 * Topologies, with links numbered from the network's first one:
 *   crossbar  node n has a link up, 2n, and one down, 2n + 1, and all share the backbone behind them, if there is one
 *   torus     node n has for each dimension d a link to its next neighbour, n x dimensions + d, which has two directions
 *             (2 x that, and 2 x that + 1); dimension by dimension, the shorter way round
 *   fat tree  two for each link, up and down: see fat_tree() */
#include <math.h>
#include <string.h>

#include "engine.h"

static const double LEAST_BYTES = 1e-9; /* of a flow: rounding leaves so little */

static bool add(struct ft_engine *e, int *n, int32_t link, double weight)
{
    if (!ft_reserve(&e->route, &e->tie_room, (uint32_t)*n, sizeof *e->route)) {
        e->out_of_memory = true;
        return false;
    }
    for (int i = 0; i < *n; i++)
        if (e->route[i].resource == e->network.first_link + link) {
            e->route[i].weight += weight;
            return true;
        }
    e->route[(*n)++] = (struct ft_tie){e->network.first_link + link, -1, weight};
    return true;
}

/* Adds the links of a direction; their number on the way, links of a backbone not counted. */
static int crossbar(struct ft_engine *e, int *n, int32_t from, int32_t to, double weight)
{
    add(e, n, 2 * from, weight);
    if (e->network.has_backbone)
        add(e, n, 2 * e->network.nodes, weight);
    add(e, n, 2 * to + 1, weight);
    return 2;
}

static int torus(struct ft_engine *e, int *n, int32_t from, int32_t to, double weight)
{
    const struct ft_network *net = &e->network;
    int hops = 0;
    int32_t at = from, product = 1;
    for (int32_t d = 0; d < net->dimensions; product *= net->dimension[d], d++) {
        const int32_t size = net->dimension[d], own = from / product % size, target = to / product % size;
        const bool up =
            (target > own && target <= own + size / 2) || (own > size / 2 && (own + size / 2) % size >= target);
        while (at / product % size != target) {
            const int32_t here = at / product % size;
            int32_t next;
            if (up)
                next = here == size - 1 ? at + product - product * size : at + product;
            else
                next = here == 0 ? at - product + product * size : at - product;
            const int32_t link = (up ? at : next) * net->dimensions + d;
            add(e, n, 2 * link + !up, weight);
            at = next;
            hops++;
        }
    }
    return hops;
}

/* Levels of switches: dimension[l] are the children of each node of level l + 1, up[l] the parents of a node of level
 * l, parallel[l] the links between two such. Up by the destination's number (D-mod-k), to a common ancestor; then down,
 * on the parallel link of the source's number. A node of level l is (a, b): a the number of a leaf below it divided by
 * the leaves below, b which of the switches above the same leaves. Links are numbered level by level, by child, parent
 * and parallel link. */
static int fat_tree(struct ft_engine *e, int *n, int32_t from, int32_t to, double weight)
{
    const struct ft_network *net = &e->network;
    int32_t first[FT_MAX_DIMENSIONS], copies[FT_MAX_DIMENSIONS], copy[FT_MAX_DIMENSIONS + 1], way[FT_MAX_DIMENSIONS];
    int32_t below = 1, levels = 0;
    copy[0] = 0;
    for (int32_t l = 0, links = 0, switches = 1; l < net->dimensions; l++) {
        first[l] = links;
        copies[l] = switches;
        links += net->nodes / below * switches * net->up[l] * net->parallel[l];
        below *= net->dimension[l];
        switches *= net->up[l];
    }
    below = 1;
    for (int32_t l = 0, paths = 1; from / below != to / below; l++) {
        const int32_t port = to / paths % (net->up[l] * net->parallel[l]), child = from / below * copies[l] + copy[l];
        way[l] = port % net->up[l];
        const int32_t link = (child * net->up[l] + way[l]) * net->parallel[l] + port / net->up[l];
        add(e, n, 2 * (first[l] + link), weight);
        copy[l + 1] = copy[l] * net->up[l] + way[l];
        paths *= net->up[l];
        below *= net->dimension[l];
        levels = l + 1;
    }
    for (int32_t l = levels; l-- > 0;) {
        below /= net->dimension[l];
        const int32_t child = to / below * copies[l] + copy[l];
        const int32_t link = (child * net->up[l] + way[l]) * net->parallel[l] + from % net->parallel[l];
        add(e, n, 2 * (first[l] + link) + 1, weight);
    }
    return 2 * levels;
}

static int way(struct ft_engine *e, int *n, int32_t from, int32_t to, double weight)
{
    switch (e->network.topology) {
    case FT_CROSSBAR: return crossbar(e, n, from, to, weight);
    case FT_TORUS: return torus(e, n, from, to, weight);
    default: return fat_tree(e, n, from, to, weight);
    }
}

/* The links between two nodes into e->route. Returns their number; their latency and narrowest bandwidth. */
int ft_route(struct ft_engine *e, int32_t from, int32_t to, double *latency_s, double *bytes_per_s)
{
    const struct ft_network *net = &e->network;
    int n = 0;
    if (from == to) {
        *latency_s = net->own_latency_s;
        *bytes_per_s = net->own_bytes_per_s;
        return 0;
    }
    const int hops = way(e, &n, from, to, 1);
    *latency_s = hops * net->link_latency_s;
    *bytes_per_s = net->link_bytes_per_s;
    if (net->topology == FT_CROSSBAR && net->has_backbone) {
        *latency_s += net->backbone_latency_s;
        *bytes_per_s = fmin(*bytes_per_s, net->backbone_bytes_per_s);
    }
    if (net->back_share > 0)
        way(e, &n, to, from, net->back_share);
    return n;
}

/* ---- flows ---- */

/* Room for one more flow, with its consumer and its place among what is due. */
static bool make_room(struct ft_engine *e)
{
    const uint32_t flow = e->n_flows, consumer = (uint32_t)e->n_classes + flow,
                   item = (uint32_t)e->n_entities + consumer;
    const uint32_t had = e->due_room;
    uint32_t path_room = e->flow_room, at_room = e->due_room, time_room = e->due_room;
    if (!ft_reserve(&e->flows, &e->flow_room, flow, sizeof *e->flows) ||
        !ft_reserve(&e->flow_paths, &path_room, flow, e->n_path * sizeof *e->flow_paths) ||
        !ft_reserve(&e->consumers, &e->consumer_room, consumer, sizeof *e->consumers) ||
        !ft_reserve(&e->due, &e->due_room, item, sizeof *e->due) ||
        !ft_reserve(&e->due_at, &at_room, item, sizeof *e->due_at) ||
        !ft_reserve(&e->due_s, &time_room, item, sizeof *e->due_s))
        return false;
    for (uint32_t i = had; i < e->due_room; i++)
        e->due_at[i] = -1;
    return true;
}

static const struct ft_regime *regime_of(const struct ft_engine *e, double bytes, bool is_own)
{
    static const struct ft_regime plain = {0, 1, 1, 0};
    const struct ft_network *net = &e->network;
    const bool has_own = is_own && net->n_own_regimes >= 0;
    const struct ft_regime *first = e->regimes + (has_own ? net->n_regimes : 0), *found = &plain;
    for (int32_t i = 0; i < (has_own ? net->n_own_regimes : net->n_regimes); i++)
        if (bytes > first[i].above_bytes || first[i].above_bytes <= 0)
            found = &first[i];
    return found;
}

static uint64_t hash_of_pair(const struct ft_pair *pair)
{
    return (((uint64_t)(uint32_t)pair->from << 32) | (uint32_t)pair->to) * FT_HASH_FACTOR >> 24;
}

static bool is_pair_used(const struct ft_pair *pair)
{
    return pair->at != 0;
}

static bool is_same_pair(const struct ft_pair *one, const struct ft_pair *other)
{
    return one->from == other->from && one->to == other->to;
}
FT_TABLE(ft_pair_table, struct ft_pair, 256, hash_of_pair, is_pair_used, is_same_pair)

/* Pair 0 sums up the messages of pairs for which the table has no room. */
static void count_pair(struct ft_engine *e, int32_t from, int32_t to, double bytes)
{
    const struct ft_pair like = {from, to, 0};
    uint32_t at = 0;
    if (ft_pair_table_make_room(&e->pairs)) {
        struct ft_pair *found = ft_pair_table_at(&e->pairs, &like);
        if (!found->at && e->n_pairs < FT_MAX_PAIRS &&
            ft_reserve(&e->of_pairs, &e->pair_room, 2 * e->n_pairs + 3, sizeof *e->of_pairs) &&
            ft_reserve(&e->pair_list, &e->pair_list_room, e->n_pairs, sizeof *e->pair_list)) {
            *found = (struct ft_pair){from, to, (int32_t)e->n_pairs + 1};
            e->pairs.used++;
            e->pair_list[e->n_pairs++] = *found;
        }
        at = (uint32_t)found->at;
    }
    if (!ft_reserve(&e->of_pairs, &e->pair_room, 1, sizeof *e->of_pairs)) {
        e->out_of_memory = true;
        return;
    }
    e->of_pairs[2 * at] += 1;
    e->of_pairs[2 * at + 1] += bytes;
}

/* The message of a send begins its way; `last` is the entity that came to it last. Returns its flow, -1 if there is no
 * memory for it. */
int32_t ft_flow_begin(struct ft_engine *e, int32_t send, int32_t last)
{
    int32_t number;
    if (e->n_free_flows) {
        number = e->free_flows[--e->n_free_flows];
    } else {
        if (!make_room(e)) {
            e->out_of_memory = true;
            return -1;
        }
        number = (int32_t)e->n_flows++;
    }
    const struct ft_network *net = &e->network;
    struct ft_request *from = &e->requests[send];
    struct ft_consumer *one = &e->consumers[e->n_classes + (size_t)number];
    const double bytes = from->bytes + net->envelope_bytes;
    double latency_s, bytes_per_s;
    const int32_t source = e->entities[from->owner].node, target = e->entities[from->peer].node;
    const int n = ft_route(e, source, target, &latency_s, &bytes_per_s);
    const struct ft_regime *regime = regime_of(e, bytes, source == target);
    e->flows[number] = (struct ft_flow){.send = send,
                                        .receive = -1,
                                        .from = from->owner,
                                        .to = from->peer,
                                        .last = last,
                                        .number = e->flows_begun++,
                                        .bytes = bytes,
                                        .left = bytes,
                                        .begun = e->now,
                                        .is_used = true};
    from->flow = number;
    struct ft_tie *ties = one->ties;
    uint32_t room = (uint32_t)one->tie_room;
    if (n && !ft_reserve(&ties, &room, (uint32_t)n - 1, sizeof *ties))
        e->out_of_memory = true;
    else if (n)
        memcpy(ties, e->route, (size_t)n * sizeof *ties);
    *one = (struct ft_consumer){.ties = ties, .tie_room = (int32_t)room, .n_ties = e->out_of_memory ? 0 : n};
    one->penalty = latency_s;
    for (int i = 0; i < one->n_ties; i++)
        if (ties[i].weight >= 1)
            one->penalty += net->weight_bytes / e->points[e->resources[ties[i].resource].first_point];
    if (!(one->penalty > 0))
        one->penalty = 1;
    one->asked =
        latency_s > 0 && net->window_bytes > 0 ? fmin(bytes_per_s, net->window_bytes / (2 * latency_s)) : bytes_per_s;
    one->full_rate = one->asked * regime->bandwidth_factor;
    memcpy(&e->flow_paths[(size_t)number * e->n_path],
           e->posting < 0 ? &e->of_paths[(size_t)last * e->n_path] : &e->task_paths[(size_t)e->posting * e->n_path],
           e->n_path * sizeof *e->flow_paths);
    e->of_work[3] += bytes;
    count_pair(e, from->owner, from->peer, bytes);
    const double wait_s = fmax(latency_s * regime->latency_factor + regime->latency_s, 0);
    ft_due_set(e, (int32_t)(e->n_entities + e->n_classes) + number, e->now + wait_s);
    return number;
}

/* Its latency is over, or its bytes have arrived. */
void ft_flow_due(struct ft_engine *e, int32_t number)
{
    struct ft_flow *flow = &e->flows[number];
    const int32_t consumer = (int32_t)e->n_classes + number;
    struct ft_consumer *one = &e->consumers[consumer];
    if (!flow->moves) {
        flow->moves = true;
        one->n = 1;
        ft_due_drop(e, (int32_t)e->n_entities + consumer);
        ft_attach(e, consumer);
        return;
    }
    ft_settle(e, consumer);
    if (flow->left > LEAST_BYTES * flow->bytes) {
        const double seconds = flow->left / one->rate;
        if (e->now + seconds > e->now * (1 + LEAST_BYTES)) { /* it was made slower at this instant */
            ft_due_set(e, (int32_t)e->n_entities + consumer, e->now + seconds);
            return;
        }
    }
    e->of_work[4] += flow->left; /* rounding */
    flow->left = 0;
    one->n = 0;
    ft_detach(e, consumer);
    ft_due_drop(e, (int32_t)e->n_entities + consumer);
    ft_arrived(e, number);
}

void ft_flow_ended(struct ft_engine *e, int32_t number)
{
    e->flows[number].is_used = false;
    if (ft_reserve(&e->free_flows, &e->free_flow_room, e->n_free_flows, sizeof *e->free_flows))
        e->free_flows[e->n_free_flows++] = number;
    else
        e->out_of_memory = true;
}
