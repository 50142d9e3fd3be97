#include "foretrace/base/tables.h"
#include "tracer/source/c_code/syntax.h"

#include <stdlib.h>
#include <string.h>

/* Kinds of cursors and types, from clang-c/Index.h. */
enum {
    UNEXPOSED_DECLARATION = 1,
    STRUCT = 2,
    UNION = 3,
    CLASS = 4,
    ENUM = 5,
    ENUMERATOR = 7,
    FUNCTION = 8,
    VARIABLE = 9,
    PARAMETER = 10,
    TYPEDEF = 20,
    METHOD = 21,
    NAMESPACE = 22,
    LINKAGE = 23,
    CONSTRUCTOR = 24,
    DESTRUCTOR = 25,
    CONVERSION = 26,
    FUNCTION_TEMPLATE = 30,
    CLASS_TEMPLATE = 31,
    PARTIAL_TEMPLATE = 32,
    TYPE_ALIAS = 36,
    FIRST_REFERENCE = 43,
    MEMBER_REFERENCE = 47,
    LABEL_REFERENCE = 48,
    LAST_REFERENCE = 50,
    UNEXPOSED_EXPRESSION = 100,
    NAME = 101,
    MEMBER = 102,
    CALL = 103,
    INTEGER = 106,
    NUMBER = 107,
    STRING = 109,
    CHARACTER = 110,
    PARENTHESES = 111,
    UNARY = 112,
    BINARY = 114,
    COMPOUND = 115,
    BOOLEAN = 130,
    SIZE = 136,
    PACK_SIZE = 143,
    LAMBDA = 144,
    FIRST_STATEMENT = 200,
    FIRST_ATTRIBUTE = 400,
    LAST_ATTRIBUTE = 500,
    FRIEND = 603,
    LAST_INVALID = 73,
    FIRST_INVALID = 70,
    TRANSLATION_UNIT = 350,
};
enum {
    TYPE_BOOLEAN = 3,
    TYPE_NULL = 24,
    TYPE_FIRST_WIDE = 30,
    TYPE_LAST_WIDE = 32,
    TYPE_POINTER = 101,
    TYPE_BLOCK_POINTER = 102,
    TYPE_REFERENCE = 103,
    TYPE_RVALUE = 104,
    TYPE_RECORD = 105,
    TYPE_ENUM = 106,
    TYPE_FUNCTION = 111,
    TYPE_FIRST_ARRAY = 112,
    TYPE_VECTOR = 113,
    TYPE_INCOMPLETE_ARRAY = 114,
    TYPE_VARIABLE_ARRAY = 115,
    TYPE_LAST_ARRAY = 116,
    TYPE_COMPLEX = 100,
};
enum { EVALUATED_INTEGER = 1, EVALUATED_NUMBER = 2, EVALUATED_TEXT = 4 };
enum { MOST_TYPE_DEPTH = 16, MOST_PARENTS = 32, MOST_TEXT = 4096 };
static const size_t MOST_TABLE = (size_t)1 << 20;

/* A growing array of equal elements. */
struct array {
    void *elements;
    size_t number, room;
};

static void *added(struct array *array, size_t bytes)
{
    if (array->number == array->room) {
        const size_t room = array->room ? 2 * array->room : 64;
        void *larger = realloc(array->elements, room * bytes);
        if (!larger)
            return NULL;
        array->elements = larger;
        array->room = room;
    }
    return (char *)array->elements + bytes * array->number++;
}

/* Numbers of pairs of pointers: open addressing, at most half full. */
struct slot {
    const void *key[2];
    int kind, number;
};
FT_TABLE_TYPE(numbers, struct slot);

static inline uint64_t hash_of(const struct slot *slot)
{
    return ((uintptr_t)slot->key[0] >> 4) * FT_HASH_FACTOR ^ ((uintptr_t)slot->key[1] >> 3) ^ (size_t)slot->kind;
}

static inline bool is_used(const struct slot *slot)
{
    return slot->kind;
}

static inline bool is_same(const struct slot *one, const struct slot *other)
{
    return one->key[0] == other->key[0] && one->key[1] == other->key[1] && one->kind == other->kind;
}

FT_TABLE(numbers, struct slot, 256, hash_of, is_used, is_same)

static struct slot *slot_of(struct numbers *numbers, const void *key0, const void *key1, int kind)
{
    const struct slot like = {{key0, key1}, kind, 0};
    return numbers_make_room(numbers) ? numbers_at(numbers, &like) : NULL;
}

struct open_node {
    CXCursor cursor;
    int node;
};

struct ft_syntax {
    CXTranslationUnit unit;
    struct array nodes, types, declarations, cursors, files, texts, roots, open;
    struct numbers type_numbers, declaration_numbers, file_numbers;
    enum ft_wrong wrong;
    size_t most_nodes;
    int parent_kind; /* of the node that is being made */
    bool dependent;  /* the walk is in a template: values may not be asked for */
    CXFile last_file;
    int last_file_number;
    CXFile line_file; /* of the last place asked for */
    unsigned line;
    unsigned line_offset; /* of the line's start, in bytes from that of the file */
};

static int wrong(struct ft_syntax *syntax, enum ft_wrong what)
{
    syntax->wrong = what;
    return -1;
}

static size_t text_kept(struct ft_syntax *syntax, const char *text)
{
    const size_t start = syntax->texts.number;
    size_t length = strlen(text);
    if (length > MOST_TEXT)
        length = MOST_TEXT;
    for (size_t i = 0; i <= length; i++) {
        char *character = added(&syntax->texts, 1);
        if (!character) {
            wrong(syntax, FT_NO_MEMORY);
            return 0;
        }
        *character = i < length ? text[i] : '\0';
    }
    return start;
}

static size_t string_kept(struct ft_syntax *syntax, CXString string)
{
    const char *text = clang.getCString(string);
    const size_t kept = text_kept(syntax, text ? text : "");
    clang.disposeString(string);
    return kept;
}

static int file_number(struct ft_syntax *syntax, CXFile file)
{
    if (file == syntax->last_file)
        return syntax->last_file_number;
    struct slot *slot = slot_of(&syntax->file_numbers, file, NULL, 1);
    if (!slot)
        return wrong(syntax, FT_NO_MEMORY);
    if (!slot->kind) {
        CXFile *kept = added(&syntax->files, sizeof *kept);
        if (!kept)
            return wrong(syntax, FT_NO_MEMORY);
        *kept = file;
        *slot = (struct slot){{file, NULL}, 1, (int)syntax->files.number - 1};
        syntax->file_numbers.used++;
    }
    syntax->last_file = file;
    return syntax->last_file_number = slot->number;
}

static int declaration_number(struct ft_syntax *syntax, CXCursor cursor);

/* Types of names that stand for several functions, and the like: libclang aborts where their size is asked for. */
static bool has_size(int kind)
{
    return (kind >= TYPE_BOOLEAN && kind <= TYPE_NULL) || (kind >= TYPE_FIRST_WIDE && kind <= TYPE_LAST_WIDE) ||
           (kind >= TYPE_COMPLEX && kind <= TYPE_ENUM) || (kind >= TYPE_FIRST_ARRAY && kind < TYPE_LAST_ARRAY);
}

static int type_number(struct ft_syntax *syntax, CXType type, int depth)
{
    if (type.kind == 0 || depth > MOST_TYPE_DEPTH || syntax->wrong)
        return -1;
    struct slot *slot = slot_of(&syntax->type_numbers, type.data[0], NULL, 1);
    if (!slot)
        return wrong(syntax, FT_NO_MEMORY);
    if (slot->kind)
        return slot->number;
    if (syntax->types.number >= MOST_TABLE)
        return wrong(syntax, FT_TOO_LARGE);
    const int number = (int)syntax->types.number;
    if (!added(&syntax->types, sizeof(struct ft_type)))
        return wrong(syntax, FT_NO_MEMORY);
    *slot = (struct slot){{type.data[0], NULL}, 1, number};
    syntax->type_numbers.used++;

    const CXType canonical = clang.getCanonicalType(type);
    struct ft_type made = {.kind = canonical.kind, .inner = -1, .length = -1, .declaration = -1, .arguments = {-1, -1}};
    ((struct ft_type *)syntax->types.elements)[number] = made; /* a type that leads back to itself finds this */
    made.bytes = has_size(canonical.kind) ? clang.Type_getSizeOf(type) : -1;
    made.flags = (clang.isConstQualifiedType(canonical) ? FT_CONST : 0) |
                 (clang.isRestrictQualifiedType(canonical) ? FT_RESTRICT : 0);
    switch (canonical.kind) {
    case TYPE_POINTER:
    case TYPE_BLOCK_POINTER:
    case TYPE_REFERENCE:
    case TYPE_RVALUE: made.inner = type_number(syntax, clang.getPointeeType(canonical), depth + 1); break;
    case TYPE_COMPLEX: made.inner = type_number(syntax, clang.getElementType(canonical), depth + 1); break;
    case TYPE_FUNCTION: made.inner = type_number(syntax, clang.getResultType(canonical), depth + 1); break;
    case TYPE_ENUM:
        made.inner = type_number(syntax, clang.getEnumDeclIntegerType(clang.getTypeDeclaration(canonical)), depth + 1);
        break;
    case TYPE_RECORD:
        made.declaration = declaration_number(syntax, clang.getTypeDeclaration(canonical));
        if (clang.Type_getNumTemplateArguments(canonical) > 0)
            made.arguments[0] = type_number(syntax, clang.Type_getTemplateArgumentAsType(canonical, 0), depth + 1);
        if (clang.Type_getNumTemplateArguments(canonical) > 1)
            made.arguments[1] = type_number(syntax, clang.Type_getTemplateArgumentAsType(canonical, 1), depth + 1);
        break;
    default:
        if (canonical.kind >= TYPE_FIRST_ARRAY && canonical.kind <= TYPE_LAST_ARRAY) {
            made.inner = type_number(syntax, clang.getElementType(canonical), depth + 1);
            if (made.inner < 0)
                made.inner = type_number(syntax, clang.getArrayElementType(canonical), depth + 1);
            made.length = clang.getArraySize(canonical);
        }
    }
    made.spelling = string_kept(syntax, clang.getTypeSpelling(canonical));
    ((struct ft_type *)syntax->types.elements)[number] = made;
    return number;
}

/* Arrays whose extents are expressions. */
static bool is_sized(int kind)
{
    return kind == TYPE_INCOMPLETE_ARRAY || kind == TYPE_VARIABLE_ARRAY;
}

static bool is_function(int kind)
{
    return kind == FUNCTION || kind == METHOD || kind == CONSTRUCTOR || kind == DESTRUCTOR || kind == CONVERSION ||
           kind == FUNCTION_TEMPLATE;
}

static bool is_class(int kind)
{
    return kind == STRUCT || kind == UNION || kind == CLASS || kind == CLASS_TEMPLATE || kind == PARTIAL_TEMPLATE;
}

static bool is_invalid(CXCursor cursor)
{
    return (cursor.kind >= FIRST_INVALID && cursor.kind <= LAST_INVALID) || !cursor.data[0];
}

static void append(char *text, size_t room, const char *more)
{
    const size_t length = strlen(text);
    const size_t most = room - 1 - length;
    const size_t taken = strlen(more) < most ? strlen(more) : most;
    memcpy(text + length, more, taken);
    text[length + taken] = '\0';
}

static void append_string(char *text, size_t room, CXString string)
{
    const char *more = clang.getCString(string);
    append(text, room, more ? more : "");
    clang.disposeString(string);
}

static void append_arguments(char *text, size_t room, CXCursor cursor)
{
    const int number = clang.Cursor_getNumTemplateArguments(cursor);
    if (number <= 0)
        return;
    append(text, room, "<");
    for (int i = 0; i < number; i++) {
        const CXType type = clang.Cursor_getTemplateArgumentType(cursor, (unsigned)i);
        append(text, room, i ? ", " : "");
        if (type.kind) {
            append_string(text, room, clang.getTypeSpelling(type));
        } else {
            char digits[24];
            long long value = clang.Cursor_getTemplateArgumentValue(cursor, (unsigned)i);
            unsigned long long rest = value < 0 ? 0 - (unsigned long long)value : (unsigned long long)value;
            char *at = digits + sizeof digits;
            *--at = '\0';
            do {
                *--at = (char)('0' + rest % 10);
            } while (rest /= 10);
            if (value < 0)
                *--at = '-';
            append(text, room, at);
        }
    }
    append(text, room, ">");
}

/* The name with those of the classes and namespaces around it. */
static size_t full_name(struct ft_syntax *syntax, CXCursor cursor)
{
    CXCursor parents[MOST_PARENTS];
    int depth = 0;
    CXCursor parent = clang.getCursorSemanticParent(cursor);
    while (depth < MOST_PARENTS && !is_invalid(parent) && parent.kind != TRANSLATION_UNIT) {
        parents[depth++] = parent;
        parent = clang.getCursorSemanticParent(parent);
    }
    char text[1024] = "";
    while (depth-- > 0) {
        const size_t before = strlen(text);
        if (is_class(parents[depth].kind))
            append_string(text, sizeof text, clang.getCursorDisplayName(parents[depth]));
        else
            append_string(text, sizeof text, clang.getCursorSpelling(parents[depth]));
        if (strlen(text) > before)
            append(text, sizeof text, "::");
    }
    if (is_class(cursor.kind)) {
        append_string(text, sizeof text, clang.getCursorDisplayName(cursor));
    } else {
        append_string(text, sizeof text, clang.getCursorSpelling(cursor));
        if (is_function(cursor.kind))
            append_arguments(text, sizeof text, cursor);
    }
    return text_kept(syntax, text);
}

static void declaration_place(struct ft_syntax *syntax, CXCursor cursor, struct ft_declaration *made)
{
    CXFile file;
    unsigned line = 0;
    const CXSourceRange range = clang.getCursorExtent(cursor);
    clang.getExpansionLocation(clang.getRangeStart(range), &file, &line, NULL, NULL);
    made->line = (int)line;
    made->file = file ? file_number(syntax, file) : -1;
    clang.getExpansionLocation(clang.getRangeEnd(range), &file, &line, NULL, NULL);
    made->last_line = (int)line;
}

/* What its parents say about a declaration. */
static unsigned flags_around(CXCursor cursor)
{
    unsigned flags = 0;
    CXCursor parent = clang.getCursorSemanticParent(cursor);
    for (int depth = 0; depth < MOST_PARENTS && !is_invalid(parent) && parent.kind != TRANSLATION_UNIT; depth++) {
        if (is_function(parent.kind))
            flags |= FT_LOCAL;
        if (parent.kind == CLASS_TEMPLATE || parent.kind == PARTIAL_TEMPLATE || parent.kind == FUNCTION_TEMPLATE)
            flags |= FT_PATTERN;
        else if (is_class(parent.kind) && !is_invalid(clang.getSpecializedCursorTemplate(parent)))
            flags |= FT_INSTANCE;
        parent = clang.getCursorSemanticParent(parent);
    }
    return flags;
}

static int declaration_number(struct ft_syntax *syntax, CXCursor cursor)
{
    if (is_invalid(cursor) || cursor.kind == TRANSLATION_UNIT || syntax->wrong)
        return -1;
    struct slot *slot = slot_of(&syntax->declaration_numbers, cursor.data[0], NULL, cursor.kind);
    if (!slot)
        return wrong(syntax, FT_NO_MEMORY);
    if (slot->kind)
        return slot->number;
    if (syntax->declarations.number >= MOST_TABLE)
        return wrong(syntax, FT_TOO_LARGE);
    const int number = (int)syntax->declarations.number;
    CXCursor *kept = added(&syntax->cursors, sizeof *kept);
    if (!kept || !added(&syntax->declarations, sizeof(struct ft_declaration)))
        return wrong(syntax, FT_NO_MEMORY);
    *kept = cursor;
    *slot = (struct slot){{cursor.data[0], NULL}, cursor.kind, number};
    syntax->declaration_numbers.used++;

    struct ft_declaration made = {.kind = cursor.kind, .type = -1, .parent = -1, .definition = -1, .template = -1};
    ((struct ft_declaration *)syntax->declarations.elements)[number] = made;
    made.name = string_kept(syntax, clang.getCursorSpelling(cursor));
    made.storage = clang.Cursor_getStorageClass(cursor);
    made.flags = flags_around(cursor);
    if (clang.Location_isInSystemHeader(clang.getCursorLocation(cursor)))
        made.flags |= FT_SYSTEM;
    declaration_place(syntax, cursor, &made);
    made.full_name = (made.flags & FT_LOCAL) && !is_function(cursor.kind) ? made.name : full_name(syntax, cursor);
    made.type = type_number(syntax, clang.getCursorType(cursor), 0);
    if (cursor.kind == ENUMERATOR)
        made.value = clang.getEnumConstantDeclValue(cursor);
    const CXCursor parent = clang.getCursorSemanticParent(cursor);
    if (is_class(parent.kind) || is_function(parent.kind))
        made.parent = declaration_number(syntax, parent);
    if (is_function(cursor.kind) || cursor.kind == VARIABLE) {
        const CXCursor template = clang.getSpecializedCursorTemplate(cursor);
        if (!is_invalid(template)) {
            made.template = declaration_number(syntax, template);
            if (is_function(cursor.kind))
                made.flags |= FT_INSTANCE;
        }
        if (cursor.kind == FUNCTION_TEMPLATE)
            made.flags |= FT_PATTERN;
        if (cursor.kind == METHOD) {
            made.flags |= clang.CXXMethod_isStatic(cursor) ? FT_STATIC_METHOD : 0;
            made.flags |= clang.CXXMethod_isVirtual(cursor) ? FT_VIRTUAL : 0;
        }
        if (clang.isCursorDefinition(cursor)) {
            made.definition = number;
        } else {
            const CXCursor definition = clang.getCursorDefinition(cursor);
            if (!is_invalid(definition))
                made.definition = declaration_number(syntax, definition);
        }
        if (made.definition >= 0)
            made.flags |= FT_DEFINED;
    }
    ((struct ft_declaration *)syntax->declarations.elements)[number] = made;
    return number;
}

/* Roots */

static int root_visitor(CXCursor cursor, CXCursor parent, void *data)
{
    (void)parent;
    struct ft_syntax *syntax = data;
    const CXSourceLocation location = clang.getCursorLocation(cursor);
    if (!clang.Location_isFromMainFile(location))
        return VISIT_CONTINUE;
    if (is_function(cursor.kind)) {
        if (clang.isCursorDefinition(cursor)) {
            const int number = declaration_number(syntax, cursor);
            int *root = added(&syntax->roots, sizeof *root);
            if (!root)
                wrong(syntax, FT_NO_MEMORY);
            else
                *root = number;
        }
        return syntax->wrong ? VISIT_BREAK : VISIT_CONTINUE;
    }
    if (is_class(cursor.kind) || cursor.kind == NAMESPACE || cursor.kind == LINKAGE || cursor.kind == FRIEND ||
        cursor.kind == UNEXPOSED_DECLARATION)
        return VISIT_RECURSE;
    return VISIT_CONTINUE;
}

enum ft_wrong ft_syntax_roots(struct ft_syntax *syntax, const int **roots, size_t *num_roots)
{
    syntax->roots.number = 0;
    syntax->wrong = FT_FINE;
    clang.visitChildren(clang.getTranslationUnitCursor(syntax->unit), root_visitor, syntax);
    *roots = syntax->roots.elements;
    *num_roots = syntax->roots.number;
    return syntax->wrong;
}

/* Nodes */

static bool evaluated(struct ft_syntax *syntax, CXCursor cursor, struct ft_node *node)
{
    CXEvalResult result = clang.Cursor_Evaluate(cursor);
    if (!result)
        return false;
    switch (clang.EvalResult_getKind(result)) {
    case EVALUATED_INTEGER:
        if (clang.EvalResult_isUnsignedInt(result)) {
            node->value_kind = FT_UNSIGNED;
            node->value.unsigned_integer = clang.EvalResult_getAsUnsigned(result);
        } else {
            node->value_kind = FT_INTEGER;
            node->value.integer = clang.EvalResult_getAsLongLong(result);
        }
        break;
    case EVALUATED_NUMBER:
        node->value_kind = FT_NUMBER;
        node->value.number = clang.EvalResult_getAsDouble(result);
        break;
    case EVALUATED_TEXT: {
        const char *text = clang.EvalResult_getAsStr(result);
        node->value_kind = FT_TEXT;
        node->value.text = text_kept(syntax, text ? text : "");
        break;
    }
    }
    clang.EvalResult_dispose(result);
    return node->value_kind != FT_NO_VALUE;
}

static void close_node(struct ft_syntax *syntax)
{
    const struct open_node *open = (struct open_node *)syntax->open.elements + --syntax->open.number;
    struct ft_node *node = (struct ft_node *)syntax->nodes.elements + open->node;
    node->end = (int)syntax->nodes.number;
    if (node->kind == UNEXPOSED_EXPRESSION && node->end == open->node + 1 && !syntax->dependent)
        evaluated(syntax, open->cursor, node);
}

/* Line and column of a place. libclang counts a column from the start of its line each time; on a line of a megabyte
 * that takes longer than all the rest, so the start of the last line is kept. */
static CXFile place_of(struct ft_syntax *syntax, CXSourceLocation location, unsigned *line, unsigned *column)
{
    CXFile file;
    unsigned offset = 0;
    *line = *column = 0;
    clang.getExpansionLocation(location, &file, line, NULL, &offset);
    if (file != syntax->line_file || *line != syntax->line || offset < syntax->line_offset) {
        clang.getExpansionLocation(location, &file, line, column, &offset);
        syntax->line_file = file;
        syntax->line = *line;
        syntax->line_offset = offset - (*column ? *column - 1 : 0);
    }
    *column = offset - syntax->line_offset + 1;
    return file;
}

static void node_place(struct ft_syntax *syntax, CXCursor cursor, struct ft_node *node)
{
    unsigned line, column;
    const CXFile file = place_of(syntax, clang.getCursorLocation(cursor), &line, &column);
    node->line = node->last_line = (int)line;
    node->column = node->last_column = (int)column;
    node->file = file ? file_number(syntax, file) : -1;
    if (cursor.kind >= FIRST_STATEMENT || is_function(cursor.kind) || cursor.kind == LAMBDA ||
        (syntax->parent_kind >= FIRST_STATEMENT && syntax->parent_kind < TRANSLATION_UNIT)) {
        const CXSourceRange range = clang.getCursorExtent(cursor);
        place_of(syntax, clang.getRangeEnd(range), &line, &column);
        node->last_line = (int)line;
        node->last_column = (int)column;
        if (is_function(cursor.kind)) {
            place_of(syntax, clang.getRangeStart(range), &line, &column);
            node->line = (int)line;
            node->column = (int)column;
        }
    }
}

/* Closes the nodes inside the parent of what comes. The parts of a lambda that captures by name have a parent that was
   never visited: they belong to the innermost lambda that is open. */
static void close_until(struct ft_syntax *syntax, CXCursor parent)
{
    const struct open_node *stack = syntax->open.elements;
    size_t left = syntax->open.number;
    while (left > 1 && !clang.equalCursors(stack[left - 1].cursor, parent))
        left--;
    if (left == 1 && !clang.equalCursors(stack[0].cursor, parent)) {
        left = syntax->open.number;
        while (left > 1 && stack[left - 1].cursor.kind != LAMBDA)
            left--;
    }
    while (syntax->open.number > left)
        close_node(syntax);
}

static int node_visitor(CXCursor cursor, CXCursor parent, void *data)
{
    struct ft_syntax *syntax = data;
    const int kind = cursor.kind;
    if ((kind >= FIRST_REFERENCE && kind <= LAST_REFERENCE && kind != MEMBER_REFERENCE && kind != LABEL_REFERENCE) ||
        (kind >= FIRST_ATTRIBUTE && kind <= LAST_ATTRIBUTE) || is_class(kind) || kind == ENUM || kind == TYPEDEF ||
        kind == TYPE_ALIAS)
        return VISIT_CONTINUE;
    close_until(syntax, parent);
    if (syntax->nodes.number >= syntax->most_nodes) {
        wrong(syntax, FT_TOO_LARGE);
        return VISIT_BREAK;
    }
    const int number = (int)syntax->nodes.number;
    struct ft_node *node = added(&syntax->nodes, sizeof *node);
    struct open_node *open = node ? added(&syntax->open, sizeof *open) : NULL;
    if (!open) {
        wrong(syntax, FT_NO_MEMORY);
        return VISIT_BREAK;
    }
    *open = (struct open_node){cursor, number};
    struct ft_node made = {.kind = kind, .type = -1, .conversion = -1, .declaration = -1, .end = number + 1};
    syntax->parent_kind = parent.kind;
    node_place(syntax, cursor, &made);
    if (kind < FIRST_STATEMENT)
        made.type = type_number(syntax, clang.getCursorType(cursor), 0);
    bool deeper = true;
    switch (kind) {
    case NAME:
    case MEMBER:
    case CALL:
    case MEMBER_REFERENCE:
    case LABEL_REFERENCE:
        made.declaration = declaration_number(syntax, clang.getCursorReferenced(cursor));
        if (made.declaration < 0 || kind == LABEL_REFERENCE) {
            made.value_kind = FT_TEXT;
            made.value.text = string_kept(syntax, clang.getCursorSpelling(cursor));
        }
        break;
    case VARIABLE:
        made.operation = !is_invalid(clang.Cursor_getVarDeclInitializer(cursor));
        made.declaration = declaration_number(syntax, cursor);
        break;
    case PARAMETER:
        made.declaration = declaration_number(syntax, cursor);
        deeper = made.type >= 0 && is_sized(((struct ft_type *)syntax->types.elements)[made.type].kind);
        break;
    case UNARY: made.operation = clang.getCursorUnaryOperatorKind(cursor); break;
    case BINARY:
    case COMPOUND: made.operation = clang.getCursorBinaryOperatorKind(cursor); break;
    case STRING:
        made.value_kind = FT_TEXT;
        made.value.text = string_kept(syntax, clang.getCursorSpelling(cursor));
        deeper = false;
        break;
    case INTEGER:
    case NUMBER:
    case CHARACTER:
    case BOOLEAN:
        evaluated(syntax, cursor, &made);
        deeper = false;
        break;
    case SIZE:
    case PACK_SIZE: deeper = syntax->dependent || !evaluated(syntax, cursor, &made); break;
    case 201: /* a label */
        made.value_kind = FT_TEXT;
        made.value.text = string_kept(syntax, clang.getCursorSpelling(cursor));
        break;
    default:
        if (is_function(kind) || kind < FIRST_REFERENCE)
            made.declaration = declaration_number(syntax, cursor);
    }
    ((struct ft_node *)syntax->nodes.elements)[number] = made;
    return syntax->wrong ? VISIT_BREAK : deeper ? VISIT_RECURSE : VISIT_CONTINUE;
}

/* Parentheses and implicit conversions around one node go; the type that they lead to stays at that node. */
static enum ft_wrong without_wrappers(struct ft_syntax *syntax)
{
    struct ft_node *nodes = syntax->nodes.elements;
    const size_t number = syntax->nodes.number;
    int *places = malloc((number + 1) * sizeof *places);
    if (!places)
        return FT_NO_MEMORY;
    size_t kept = 0;
    int converted = -1;
    for (size_t i = 0; i < number; i++) {
        places[i] = (int)kept;
        const bool alone = i + 1 < number && nodes[i].end > (int)i + 1 && nodes[i + 1].end == nodes[i].end;
        if ((nodes[i].kind == UNEXPOSED_EXPRESSION || nodes[i].kind == PARENTHESES) && alone &&
            nodes[i].value_kind == FT_NO_VALUE && nodes[i + 1].kind < FIRST_STATEMENT) {
            if (nodes[i].kind == UNEXPOSED_EXPRESSION && converted < 0)
                converted = nodes[i].type;
            nodes[i + 1].last_line = nodes[i].last_line;
            nodes[i + 1].last_column = nodes[i].last_column;
            continue;
        }
        nodes[kept] = nodes[i];
        nodes[kept++].conversion = converted;
        converted = -1;
    }
    places[number] = (int)kept;
    for (size_t i = 0; i < kept; i++)
        nodes[i].end = places[nodes[i].end];
    syntax->nodes.number = kept;
    free(places);
    return FT_FINE;
}

enum ft_wrong ft_syntax_walk(struct ft_syntax *syntax, int declaration, size_t most_nodes)
{
    const struct ft_declaration *walked = (struct ft_declaration *)syntax->declarations.elements + declaration;
    const CXCursor cursor = ((CXCursor *)syntax->cursors.elements)[declaration];
    syntax->nodes.number = syntax->open.number = 0;
    syntax->wrong = FT_FINE;
    syntax->most_nodes = most_nodes;
    syntax->dependent = (walked->flags & FT_PATTERN) != 0;
    /* The declaration itself is the first node; the visitor then finds its parent open. */
    const int answer = node_visitor(cursor, cursor, syntax);
    if (answer == VISIT_RECURSE)
        clang.visitChildren(cursor, node_visitor, syntax);
    while (!syntax->wrong && syntax->open.number)
        close_node(syntax);
    return syntax->wrong ? syntax->wrong : without_wrappers(syntax);
}

/* Access */

void ft_syntax_fields(const struct ft_syntax *syntax, int declaration, CXFieldVisitor visitor, void *data)
{
    clang.Type_visitFields(clang.getCursorType(((CXCursor *)syntax->cursors.elements)[declaration]), visitor, data);
}

struct ft_syntax *ft_syntax_new(CXTranslationUnit unit)
{
    struct ft_syntax *syntax = calloc(1, sizeof *syntax);
    if (syntax) {
        syntax->unit = unit;
        CXCursor whole = clang.getTranslationUnitCursor(unit);
        CXFile file;
        clang.getExpansionLocation(clang.getRangeStart(clang.getCursorExtent(whole)), &file, NULL, NULL, NULL);
        file_number(syntax, file);
    }
    return syntax;
}

void ft_syntax_free(struct ft_syntax *syntax)
{
    struct array *arrays[] = {&syntax->nodes, &syntax->types, &syntax->declarations, &syntax->cursors,
                              &syntax->files, &syntax->texts, &syntax->roots,        &syntax->open};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]->elements);
    free(syntax->type_numbers.entries);
    free(syntax->declaration_numbers.entries);
    free(syntax->file_numbers.entries);
    free(syntax);
}

const struct ft_node *ft_syntax_nodes(const struct ft_syntax *syntax, size_t *number)
{
    *number = syntax->nodes.number;
    return syntax->nodes.elements;
}

const struct ft_type *ft_syntax_types(const struct ft_syntax *syntax, size_t *number)
{
    *number = syntax->types.number;
    return syntax->types.elements;
}

const struct ft_declaration *ft_syntax_declarations(const struct ft_syntax *syntax, size_t *number)
{
    *number = syntax->declarations.number;
    return syntax->declarations.elements;
}

const char *ft_syntax_text(const struct ft_syntax *syntax, size_t text)
{
    return (const char *)syntax->texts.elements + text;
}

bool ft_syntax_file(const struct ft_syntax *syntax, size_t file, CXString *name)
{
    if (file >= syntax->files.number)
        return false;
    *name = clang.getFileName(((CXFile *)syntax->files.elements)[file]);
    return true;
}
