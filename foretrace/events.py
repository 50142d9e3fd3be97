"""Software-defined events of Python programs, in the registry that libraries in C and Fortran use, too.

```python
from foretrace import events

solver = events.Library("solver")
iterations = solver.counter("iterations", "iterations of the solver")
residuals = solver.recorder("residuals", description="norm of the residual")
iterations.increment()
residuals.record(0.25)
with events.reading("solver::iterations") as count:
    iterations.increment(3)
print(count["solver::iterations"], residuals.values())  # 3 [0.25]
```
"""

from foretrace.base.errors import EventsError as EventsError
from foretrace.tracer.events.python_events import Counter as Counter
from foretrace.tracer.events.python_events import CountingSet as CountingSet
from foretrace.tracer.events.python_events import Library as Library
from foretrace.tracer.events.python_events import Readings as Readings
from foretrace.tracer.events.python_events import Recorder as Recorder
from foretrace.tracer.events.python_events import reading as reading
