/* Uses each call of PAPI's interface, and prints what it returns and what PAPI reads of it. */
#include <papi.h>
#include <sde_lib.h>
#include <stdio.h>
#include <string.h>

static long long whole = 3;
static int narrow = 4;
static double real = 2.5;
static float narrow_real = 1.25f;

static long long ten_times(void *parameter)
{
    return *(long long *)parameter * 10;
}

static const char *names[] = {
    "sde:::l::whole",        "sde:::l::instant",     "sde:::l::narrow",       "sde:::l::real",
    "sde:::l::narrow_real",  "sde:::l::callback",    "sde:::l::created",      "sde:::l::recorder:CNT",
    "sde:::l::recorder:MIN", "sde:::l::recorder:Q1", "sde:::l::recorder:MED", "sde:::l::recorder:Q3",
    "sde:::l::recorder:MAX", "sde:::l::recorder",    "sde:::l::set",          "sde:::l::sum",
    "sde:::l::most",         "sde:::l::of_groups",   "sde:::later::whole",
};
enum { NUM_EVENTS = sizeof names / sizeof *names };

static void print(const char *when, int events)
{
    long long values[NUM_EVENTS] = {0};
    printf("%s %d\n", when, PAPI_read(events, values));
    for (int i = 0; i < NUM_EVENTS; i++) {
        const char *name = strstr(names[i], "::") + 1;
        printf("  %s", names[i]);
        if (strstr(name, "recorder") && !strstr(name, "CNT")) {
            printf(" %g\n", values[7] ? *(double *)values[i] : -1);
        } else if (strstr(name, "real")) {
            printf(" %g\n", *(double *)&values[i]);
        } else if (strstr(name, "set")) {
            long long number = 0, sum = 0, types = 0;
            for (cset_list_object_t *at = (cset_list_object_t *)values[i]; at; at = at->next) {
                number++;
                sum += at->count * *(long *)at->ptr;
                types += at->type_id * at->type_size;
            }
            printf(" %lld %lld %lld\n", number, sum, types);
        } else {
            printf(" %lld\n", values[i]);
        }
    }
}

papi_handle_t papi_sde_hook_list_events(papi_sde_fptr_struct_t *f)
{
    papi_handle_t listed = f->init("listed");
    f->register_counter(listed, "iterations", PAPI_SDE_RO, PAPI_SDE_long_long, &whole);
    f->describe_counter(listed, "iterations", "iterations of the solver");
    return listed;
}

int main(void)
{
    void *created, *recorder, *set;
    papi_handle_t library = papi_sde_init("l");
    printf("%d", library == papi_sde_init("l"));
    printf(" %d",
           papi_sde_register_counter(library, "whole", PAPI_SDE_RO | PAPI_SDE_DELTA, PAPI_SDE_long_long, &whole));
    printf(" %d",
           papi_sde_register_counter(library, "instant", PAPI_SDE_RW | PAPI_SDE_INSTANT, PAPI_SDE_long_long, &whole));
    printf(" %d", papi_sde_register_counter(library, "narrow", PAPI_SDE_RO | PAPI_SDE_DELTA, PAPI_SDE_int, &narrow));
    printf(" %d", papi_sde_register_counter(library, "real", PAPI_SDE_RO | PAPI_SDE_DELTA, PAPI_SDE_double, &real));
    printf(" %d", papi_sde_register_counter(library, "narrow_real", PAPI_SDE_INSTANT, PAPI_SDE_float, &narrow_real));
    printf(" %d",
           papi_sde_register_fp_counter(library, "callback", PAPI_SDE_DELTA, PAPI_SDE_long_long, ten_times, &whole));
    printf(" %d", papi_sde_describe_counter(library, "callback", "ten times as many"));
    printf(" %d", papi_sde_create_counter(library, "created", PAPI_SDE_RO | PAPI_SDE_DELTA, &created));
    printf(" %d", papi_sde_create_recorder(library, "recorder", sizeof(double), papi_sde_compare_double, &recorder));
    printf(" %d", papi_sde_create_counting_set(library, "set", &set));
    printf(" %d", papi_sde_add_counter_to_group(library, "instant", "sum", PAPI_SDE_SUM));
    printf(" %d", papi_sde_add_counter_to_group(library, "created", "sum", PAPI_SDE_SUM));
    printf(" %d", papi_sde_add_counter_to_group(library, "instant", "most", PAPI_SDE_MAX));
    printf(" %d", papi_sde_add_counter_to_group(library, "created", "most", PAPI_SDE_MAX));
    printf(" %d", papi_sde_add_counter_to_group(library, "sum", "of_groups", PAPI_SDE_SUM));
    printf(" %d", papi_sde_register_counter(library, "whole", PAPI_SDE_RO, PAPI_SDE_double, &real));
    printf(" %d", papi_sde_register_counter(NULL, "null", PAPI_SDE_RO, PAPI_SDE_double, &real));
    printf(" %d", papi_sde_unregister_counter(library, "absent"));
    printf(" %d", papi_sde_describe_counter(library, "absent", "there is none"));
    printf(" %d", papi_sde_add_counter_to_group(library, "absent", "sum", PAPI_SDE_SUM));
    printf(" %d", papi_sde_add_counter_to_group(library, "whole", "sum", PAPI_SDE_MAX));
    printf(" %d %d", papi_sde_inc_counter(recorder, 1), papi_sde_record(created, sizeof real, &real));
    printf(" %d\n", papi_sde_get_counter_handle(library, "created") == created);
    papi_sde_inc_counter(created, 7);
    if (PAPI_library_init(PAPI_VER_CURRENT) != PAPI_VER_CURRENT)
        return 1;
    int events = PAPI_NULL;
    PAPI_create_eventset(&events);
    for (int i = 0; i < NUM_EVENTS; i++)
        printf(" %d", PAPI_add_named_event(events, names[i]));
    printf("\n");
    printf("%d\n", PAPI_start(events));
    for (long i = 0; i < 30; i++) {
        long element = i % 7;
        papi_sde_counting_set_insert(set, sizeof element, sizeof element, &element, (uint32_t)(i % 2));
    }
    papi_sde_hook_list_events(&(papi_sde_fptr_struct_t){.init = papi_sde_init,
                                                        .register_counter = papi_sde_register_counter,
                                                        .describe_counter = papi_sde_describe_counter});
    whole += 5;
    narrow += 2;
    real += 0.5;
    narrow_real += 1;
    papi_sde_inc_counter(created, 100);
    for (int i = 0; i < 5000; i++) {
        double value = i * 7919 % 5000;
        papi_sde_record(recorder, sizeof value, &value);
    }
    for (long element = 0; element < 3; element++)
        papi_sde_counting_set_insert(set, sizeof element, sizeof element, &element, 5);
    long removed = 2;
    papi_sde_counting_set_remove(set, sizeof removed, &removed, 5);
    print("first", events);
    papi_handle_t later = papi_sde_init("later");
    papi_sde_register_counter(later, "whole", PAPI_SDE_INSTANT, PAPI_SDE_long_long, &whole);
    whole += 1;
    papi_sde_inc_counter(created, 1);
    print("second", events);
    papi_sde_reset_recorder(recorder);
    papi_sde_reset_counter(created);
    print("third", events);
    long long values[NUM_EVENTS];
    printf("%d\n", PAPI_stop(events, values));
    return 0;
}
