/* A tool for Valgrind: writes down each access to a range of addresses, in order. See library_oracle.py.
 *
 * Valgrind's own lackey writes a line of text for each instruction of a whole run, some 600 million before NumPy is
 * imported; this writes nothing but what is asked for, 16 bytes an access: the address (64 bits), 0 (32), the size in
 * bytes (16) and whether it is a store (16).
 */
#include "pub_tool_basics.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_machine.h"
#include "pub_tool_options.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vki.h"

#define N_KEPT 4096
#define MAX_OPTION 0x7fffffffffffffffLL

struct access {
    ULong address;
    UInt unused;
    UShort size_bytes, is_store;
};

static const HChar *output = NULL;
static Long first_byte = 0, range_bytes = 0;
static struct access kept[N_KEPT];
static Int n_kept = 0;

/* The file is open no longer than this takes: the program's own descriptors are not to differ. */
static void write_kept(void)
{
    const Int fd = VG_(fd_open)(output, VKI_O_APPEND | VKI_O_WRONLY, 0);
    const HChar *from = (const HChar *)kept;
    Int left = n_kept * (Int)sizeof *kept;
    while (left > 0) {
        const Int written = VG_(write)(fd, from, left);
        if (written <= 0)
            VG_(tool_panic)("the accesses cannot be written");
        from += written;
        left -= written;
    }
    VG_(close)(fd);
    n_kept = 0;
}

/* `kind` is the size in bytes and, above 16 bits, whether it is a store. */
static VG_REGPARM(2) void touched(Addr address, HWord kind)
{
    if (address - (Addr)first_byte >= (Addr)range_bytes)
        return;
    kept[n_kept++] = (struct access){address, 0, (UShort)kind, (UShort)(kind >> 16)};
    if (n_kept == N_KEPT)
        write_kept();
}

static void add(IRSB *block, IRExpr *address, Int size_bytes, Bool is_store, IRExpr *guard)
{
    IRExpr **arguments = mkIRExprVec_2(address, mkIRExpr_HWord((HWord)size_bytes | (HWord)is_store << 16));
    IRDirty *call = unsafeIRDirty_0_N(2, "touched", VG_(fnptr_to_fnentry)(&touched), arguments);
    if (guard)
        call->guard = guard;
    addStmtToIRSB(block, IRStmt_Dirty(call));
}

static Int loaded_bytes(const IRLoadG *load)
{
    IRType type, widened;
    typeOfIRLoadGOp(load->cvt, &widened, &type);
    return sizeofIRType(type);
}

static void add_statement(IRSB *block, const IRStmt *statement)
{
    const IRTypeEnv *types = block->tyenv;
    switch (statement->tag) {
    case Ist_WrTmp:
        if (statement->Ist.WrTmp.data->tag == Iex_Load) {
            const IRExpr *load = statement->Ist.WrTmp.data;
            add(block, load->Iex.Load.addr, sizeofIRType(load->Iex.Load.ty), False, NULL);
        }
        break;
    case Ist_Store:
        add(block, statement->Ist.Store.addr, sizeofIRType(typeOfIRExpr(types, statement->Ist.Store.data)), True, NULL);
        break;
    case Ist_LoadG:
        add(block, statement->Ist.LoadG.details->addr, loaded_bytes(statement->Ist.LoadG.details), False,
            statement->Ist.LoadG.details->guard);
        break;
    case Ist_StoreG: {
        const IRStoreG *store = statement->Ist.StoreG.details;
        add(block, store->addr, sizeofIRType(typeOfIRExpr(types, store->data)), True, store->guard);
        break;
    }
    case Ist_CAS: {
        const IRCAS *swap = statement->Ist.CAS.details;
        const Int size_bytes = sizeofIRType(typeOfIRExpr(types, swap->dataLo)) * (swap->dataHi ? 2 : 1);
        add(block, swap->addr, size_bytes, False, NULL);
        add(block, swap->addr, size_bytes, True, NULL);
        break;
    }
    case Ist_Dirty: {
        const IRDirty *call = statement->Ist.Dirty.details;
        if (call->mFx == Ifx_Read || call->mFx == Ifx_Modify)
            add(block, call->mAddr, call->mSize, False, call->guard);
        if (call->mFx == Ifx_Write || call->mFx == Ifx_Modify)
            add(block, call->mAddr, call->mSize, True, call->guard);
        break;
    }
    default: break;
    }
}

static IRSB *instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout,
                        const VexGuestExtents *extents, const VexArchInfo *host, IRType guest_word, IRType host_word)
{
    IRSB *out = deepCopyIRSBExceptStmts(in);
    (void)closure, (void)layout, (void)extents, (void)host, (void)guest_word, (void)host_word;
    for (Int i = 0; i < in->stmts_used; i++) {
        add_statement(out, in->stmts[i]);
        addStmtToIRSB(out, in->stmts[i]);
    }
    return out;
}

static Bool process_option(const HChar *option)
{
    if VG_STR_CLO (option, "--output", output) {
    } else if VG_BHEX_CLO (option, "--first", first_byte, 0, MAX_OPTION) {
    } else if VG_BHEX_CLO (option, "--bytes", range_bytes, 0, MAX_OPTION) {
    } else {
        return False;
    }
    return True;
}

static void print_usage(void)
{
    VG_(printf)("    --output=FILE --first=0xADDRESS --bytes=0xNUMBER\n");
}

static void print_debug_usage(void)
{
    VG_(printf)("    (none)\n");
}

static void begin(void)
{
    const Int fd = output ? VG_(fd_open)(output, VKI_O_CREAT | VKI_O_TRUNC | VKI_O_WRONLY, 0600) : -1;
    if (fd < 0)
        VG_(fmsg_bad_option)("--output", "it cannot be opened\n");
    VG_(close)(fd);
}

static void end(Int exit_code)
{
    (void)exit_code;
    write_kept();
}

static void set_up(void)
{
    VG_(details_name)("accesses");
    VG_(details_version)(NULL);
    VG_(details_description)("accesses to a range of addresses");
    VG_(details_copyright_author)("");
    VG_(details_bug_reports_to)("");
    VG_(basic_tool_funcs)(begin, instrument, end);
    VG_(needs_command_line_options)(process_option, print_usage, print_debug_usage);
}

VG_DETERMINE_INTERFACE_VERSION(set_up)
