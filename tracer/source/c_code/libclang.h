/* The part of libclang's C interface that the syntax tables use, bound at run time.
 *
 * libclang comes with a Python package that need not be there when foretrace is built. Its structures and numbers are
 * stable (clang-c/Index.h: "C Interface to Clang"); they are declared here again so that no header of it is needed. */
#ifndef FT_SOURCE_LIBCLANG_H
#define FT_SOURCE_LIBCLANG_H

#include <stdbool.h>

typedef void *CXIndex;
typedef void *CXTranslationUnit;
typedef void *CXDiagnostic;
typedef void *CXFile;
typedef void *CXEvalResult;
typedef struct {
    const void *data;
    unsigned flags;
} CXString;
typedef struct {
    int kind;
    int extra;
    const void *data[3];
} CXCursor;
typedef struct {
    int kind;
    void *data[2];
} CXType;
typedef struct {
    const void *data[2];
    unsigned offset;
} CXSourceLocation;
typedef struct {
    const void *data[2];
    unsigned first, last;
} CXSourceRange;
typedef struct {
    unsigned number;
    CXSourceRange *ranges;
} CXSourceRangeList;

typedef int (*CXFieldVisitor)(CXCursor cursor, void *data);
typedef int (*CXVisitor)(CXCursor cursor, CXCursor parent, void *data);
enum { VISIT_BREAK, VISIT_CONTINUE, VISIT_RECURSE };

/* X(result, name without "clang_", arguments) */
#define LIBCLANG_FUNCTIONS(X) \
    X(CXIndex, createIndex, (int only_local, int show_diagnostics)) \
    X(void, disposeIndex, (CXIndex)) \
    X(int, parseTranslationUnit2, (CXIndex, const char *path, const char *const *arguments, int num_arguments, \
      void *unsaved, unsigned num_unsaved, unsigned options, CXTranslationUnit *unit)) \
    X(int, saveTranslationUnit, (CXTranslationUnit, const char *path, unsigned options)) \
    X(void, disposeTranslationUnit, (CXTranslationUnit)) \
    X(unsigned, getNumDiagnostics, (CXTranslationUnit)) \
    X(CXDiagnostic, getDiagnostic, (CXTranslationUnit, unsigned)) \
    X(int, getDiagnosticSeverity, (CXDiagnostic)) \
    X(CXString, getDiagnosticSpelling, (CXDiagnostic)) \
    X(CXSourceLocation, getDiagnosticLocation, (CXDiagnostic)) \
    X(void, disposeDiagnostic, (CXDiagnostic)) \
    X(const char *, getCString, (CXString)) \
    X(void, disposeString, (CXString)) \
    X(CXString, getFileName, (CXFile)) \
    X(CXSourceRangeList *, getAllSkippedRanges, (CXTranslationUnit)) \
    X(void, disposeSourceRangeList, (CXSourceRangeList *)) \
    X(CXCursor, getTranslationUnitCursor, (CXTranslationUnit)) \
    X(unsigned, visitChildren, (CXCursor, CXVisitor, void *)) \
    X(CXSourceLocation, getCursorLocation, (CXCursor)) \
    X(CXSourceRange, getCursorExtent, (CXCursor)) \
    X(CXSourceLocation, getRangeEnd, (CXSourceRange)) \
    X(CXSourceLocation, getRangeStart, (CXSourceRange)) \
    X(void, getExpansionLocation, (CXSourceLocation, CXFile *, unsigned *line, unsigned *column, unsigned *offset)) \
    X(int, Location_isInSystemHeader, (CXSourceLocation)) \
    X(int, Location_isFromMainFile, (CXSourceLocation)) \
    X(unsigned, equalCursors, (CXCursor, CXCursor)) \
    X(CXString, getCursorSpelling, (CXCursor)) \
    X(CXString, getCursorDisplayName, (CXCursor)) \
    X(CXCursor, getCursorReferenced, (CXCursor)) \
    X(CXCursor, getCursorDefinition, (CXCursor)) \
    X(CXCursor, getCanonicalCursor, (CXCursor)) \
    X(unsigned, isCursorDefinition, (CXCursor)) \
    X(CXCursor, getCursorSemanticParent, (CXCursor)) \
    X(CXCursor, getSpecializedCursorTemplate, (CXCursor)) \
    X(int, Cursor_getNumTemplateArguments, (CXCursor)) \
    X(int, Cursor_getTemplateArgumentKind, (CXCursor, unsigned)) \
    X(CXType, Cursor_getTemplateArgumentType, (CXCursor, unsigned)) \
    X(long long, Cursor_getTemplateArgumentValue, (CXCursor, unsigned)) \
    X(int, Cursor_getStorageClass, (CXCursor)) \
    X(CXCursor, Cursor_getVarDeclInitializer, (CXCursor)) \
    X(int, Cursor_isNull, (CXCursor)) \
    X(unsigned, CXXMethod_isStatic, (CXCursor)) \
    X(unsigned, CXXMethod_isVirtual, (CXCursor)) \
    X(long long, getEnumConstantDeclValue, (CXCursor)) \
    X(int, getCursorBinaryOperatorKind, (CXCursor)) \
    X(int, getCursorUnaryOperatorKind, (CXCursor)) \
    X(CXEvalResult, Cursor_Evaluate, (CXCursor)) \
    X(int, EvalResult_getKind, (CXEvalResult)) \
    X(long long, EvalResult_getAsLongLong, (CXEvalResult)) \
    X(unsigned, EvalResult_isUnsignedInt, (CXEvalResult)) \
    X(unsigned long long, EvalResult_getAsUnsigned, (CXEvalResult)) \
    X(double, EvalResult_getAsDouble, (CXEvalResult)) \
    X(const char *, EvalResult_getAsStr, (CXEvalResult)) \
    X(void, EvalResult_dispose, (CXEvalResult)) \
    X(CXType, getCursorType, (CXCursor)) \
    X(CXType, getCursorResultType, (CXCursor)) \
    X(CXType, getCanonicalType, (CXType)) \
    X(CXString, getTypeSpelling, (CXType)) \
    X(long long, Type_getSizeOf, (CXType)) \
    X(CXType, getPointeeType, (CXType)) \
    X(CXType, getArrayElementType, (CXType)) \
    X(CXType, getElementType, (CXType)) \
    X(CXType, getResultType, (CXType)) \
    X(long long, getArraySize, (CXType)) \
    X(unsigned, isConstQualifiedType, (CXType)) \
    X(unsigned, isRestrictQualifiedType, (CXType)) \
    X(CXCursor, getTypeDeclaration, (CXType)) \
    X(CXType, getEnumDeclIntegerType, (CXCursor)) \
    X(unsigned, Type_visitFields, (CXType, CXFieldVisitor, void *)) \
    X(int, Type_getNumTemplateArguments, (CXType)) \
    X(CXType, Type_getTemplateArgumentAsType, (CXType, unsigned))

struct libclang {
#define X(result, name, arguments) result(*name) arguments;
    LIBCLANG_FUNCTIONS(X)
#undef X
};

extern struct libclang clang;

/* Binds `clang` to the library at `path`; once for a process. Returns NULL, or what is wrong. */
const char *libclang_bind(const char *path);

#endif
