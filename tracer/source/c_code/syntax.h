/* A translation unit's syntax as flat tables.
 *
 * Nodes stand in preorder: the children of node i are i + 1, end(i + 1), end(end(i + 1)), ... below end(i). Types and
 * declarations are numbered when they are first met, and stay; nodes are those of the function walked last.
 * Wrappers without meaning of their own (parentheses, implicit conversions) are no nodes: the type that the
 * conversions lead to stands at what they convert. */
#ifndef FT_SOURCE_SYNTAX_H
#define FT_SOURCE_SYNTAX_H

#include "tracer/source/c_code/libclang.h"

#include <stddef.h>
#include <stdint.h>

enum ft_value { FT_NO_VALUE, FT_INTEGER, FT_UNSIGNED, FT_NUMBER, FT_TEXT };

struct ft_node {
    int kind;       /* CXCursorKind */
    int operation;  /* of operators: CXBinaryOperatorKind, CXUnaryOperatorKind; of variables: 1 if there is a value */
    int end;        /* the node behind the last one inside */
    int type;       /* -1: none */
    int conversion; /* the type that implicit conversions make of it, also of an lvalue that is read; -1: there are none
                     */
    int declaration; /* that it refers to, or that it is; -1: none */
    int line, column, last_line;
    int last_column; /* of the character behind the node's last one, of statements and the like */
    int file;
    enum ft_value value_kind;
    union {
        long long integer;
        unsigned long long unsigned_integer;
        double number;
        size_t text;
    } value;
};

enum { FT_CONST = 1, FT_RESTRICT = 2 };

struct ft_type {
    int kind;         /* CXTypeKind of the canonical type */
    long long bytes;  /* below 0: unknown */
    int inner;        /* type pointed or referred to, element of an array, result of a function; -1: none */
    long long length; /* of an array; below 0: unknown */
    unsigned flags;
    size_t spelling;
    int declaration;  /* of a structure; -1: none */
    int arguments[2]; /* the first template arguments of a structure; -1: none, or not a type */
};

enum {
    FT_LOCAL = 1,  /* inside a function */
    FT_SYSTEM = 2, /* in a system header */
    FT_STATIC_METHOD = 4,
    FT_VIRTUAL = 8,
    FT_INSTANCE = 16, /* of a template, or a member of such a class */
    FT_PATTERN = 32,  /* a template, or a member of a class template */
    FT_DEFINED = 64,  /* `definition` has a body or a value */
};

struct ft_declaration {
    int kind;
    size_t name, full_name;
    int type;    /* -1: none */
    int parent;  /* class or function it is part of; -1: none */
    int storage; /* CX_StorageClass */
    unsigned flags;
    int line, last_line, file;
    int definition;  /* declaration that has the body; -1: none known */
    int template;    /* -1: none */
    long long value; /* of an enumerator */
};

struct ft_syntax;

enum ft_wrong { FT_FINE, FT_NO_MEMORY, FT_TOO_LARGE };

struct ft_syntax *ft_syntax_new(CXTranslationUnit unit);
void ft_syntax_free(struct ft_syntax *syntax);

/* Numbers the functions that the main file defines: declarations 0 to *num_roots - 1 of *roots. */
enum ft_wrong ft_syntax_roots(struct ft_syntax *syntax, const int **roots, size_t *num_roots);

/* Makes the nodes of a declaration: a function with its parameters and body, or a variable with its value. */
enum ft_wrong ft_syntax_walk(struct ft_syntax *syntax, int declaration, size_t most_nodes);

/* Visits the members of a structure, in order; the visitor goes on as long as it returns VISIT_CONTINUE. */
void ft_syntax_fields(const struct ft_syntax *syntax, int declaration, CXFieldVisitor visitor, void *data);

const struct ft_node *ft_syntax_nodes(const struct ft_syntax *syntax, size_t *number);
const struct ft_type *ft_syntax_types(const struct ft_syntax *syntax, size_t *number);
const struct ft_declaration *ft_syntax_declarations(const struct ft_syntax *syntax, size_t *number);
const char *ft_syntax_text(const struct ft_syntax *syntax, size_t text);

/* A file's name, or NULL behind the last one. File 0 is the main file. The caller disposes of it. */
bool ft_syntax_file(const struct ft_syntax *syntax, size_t file, CXString *name);

#endif
