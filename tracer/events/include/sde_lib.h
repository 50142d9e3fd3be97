/* For programs that include PAPI's header by its name. */
#include "foretrace_events.h"
