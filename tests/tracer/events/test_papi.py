"""One program with PAPI's library for software-defined events and with ours, both read by PAPI.

Debian 12 has PAPI 7.0. It differs from PAPI's current source, and from ours, where the program below does not go: it does
not empty counting sets when they are reset or started, its minimum of a group starts at 0, and ending a group of groups or a set of
4-byte elements reads memory that is not its own.
"""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from foretrace.tracer.events import linking

PROGRAM = r"""
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
    "sde:::l::whole", "sde:::l::instant", "sde:::l::narrow", "sde:::l::real", "sde:::l::narrow_real", "sde:::l::callback",
    "sde:::l::created", "sde:::l::recorder:CNT", "sde:::l::recorder:MIN", "sde:::l::recorder:Q1",
    "sde:::l::recorder:MED", "sde:::l::recorder:Q3", "sde:::l::recorder:MAX", "sde:::l::recorder", "sde:::l::set",
    "sde:::l::sum", "sde:::l::most", "sde:::l::of_groups", "sde:::later::whole",
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
    printf(" %d", papi_sde_register_counter(library, "whole", PAPI_SDE_RO | PAPI_SDE_DELTA, PAPI_SDE_long_long, &whole));
    printf(" %d", papi_sde_register_counter(library, "instant", PAPI_SDE_RW | PAPI_SDE_INSTANT, PAPI_SDE_long_long, &whole));
    printf(" %d", papi_sde_register_counter(library, "narrow", PAPI_SDE_RO | PAPI_SDE_DELTA, PAPI_SDE_int, &narrow));
    printf(" %d", papi_sde_register_counter(library, "real", PAPI_SDE_RO | PAPI_SDE_DELTA, PAPI_SDE_double, &real));
    printf(" %d", papi_sde_register_counter(library, "narrow_real", PAPI_SDE_INSTANT, PAPI_SDE_float, &narrow_real));
    printf(" %d", papi_sde_register_fp_counter(library, "callback", PAPI_SDE_DELTA, PAPI_SDE_long_long, ten_times, &whole));
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
    papi_sde_hook_list_events(&(papi_sde_fptr_struct_t){.init = papi_sde_init, .register_counter = papi_sde_register_counter,
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
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program against PAPI's headers, not linked yet."""
    if not shutil.which("papi_avail") or not ctypes.util.find_library("papi"):
        pytest.skip("needs PAPI (Debian packages papi-tools and libpapi-dev)")
    folder = tmp_path_factory.mktemp("papi")
    (folder / "program.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-c", "program.c", "-o", "program.o"], cwd=folder, check=True)
    return folder / "program.o"


def printed_with(compiled: Path, library: str, **environment: str) -> str:
    program = compiled.with_suffix("")
    command = ["gcc", "-rdynamic", compiled, "-o", program, "-Wl,--no-as-needed", "-l:libsde.so.1", "-lpapi"]
    subprocess.run([*command, *([f"-L{library}"] if library else [])], check=True)
    done = subprocess.run([program], capture_output=True, text=True, env=os.environ | environment, check=True)
    return done.stdout


def test_papi_reads_the_same_values_of_both(compiled: Path) -> None:
    """Linked with PAPI's library; run with it, and with ours found first."""
    theirs = printed_with(compiled, "")
    ours = printed_with(compiled, "", LD_LIBRARY_PATH=str(linking.drop_in()))
    assert theirs.count("\n") > 60
    assert "sde:::l::recorder:MED 2500" in theirs
    assert ours == theirs


def test_a_program_built_with_ours_runs_with_papis(compiled: Path) -> None:
    assert printed_with(compiled, str(linking.drop_in())) == printed_with(compiled, "")


def test_papis_tool_lists_events_with_either_library(compiled: Path, tmp_path: Path) -> None:
    source = PROGRAM[PROGRAM.index("papi_handle_t papi_sde_hook") : PROGRAM.index("int main")]
    library = tmp_path / "listed.so"
    header = "#include <sde_lib.h>\nstatic long long whole;\n"
    (tmp_path / "listed.c").write_text(header + source)
    subprocess.run(["gcc", "-shared", "-fPIC", tmp_path / "listed.c", "-o", library], check=True)

    def listed(**environment: str) -> str:
        command = ["papi_native_avail", "-sde", library]
        return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=True).stdout

    ours = listed(LD_LIBRARY_PATH=str(linking.drop_in()))
    assert "sde:::listed::iterations" in ours
    assert "iterations of the solver" in ours
    assert ours == listed()
