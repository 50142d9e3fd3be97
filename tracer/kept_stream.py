"""The stream that a traced program left, kept beside its signature: what the signature knows of its operations."""

from __future__ import annotations

from foretrace.tracer.signature.records import Signature
from foretrace.tracer.stored.stored_stream import LoopPlace, Place, StreamWriter
from foretrace.tracer.tracing import Traced


def commit(keep: StreamWriter, traced: Traced) -> None:
    """Complete the stream that `keep` got while the program was traced.

    Raises:
        OutputError: its file cannot be written.
    """
    signature = traced.signature
    keep.commit(
        _places(traced),
        [
            LoopPlace(loop=v.loop_id, module=v.module, function=v.function, file=v.file, line=v.line)
            for v in signature.loops
        ],
        incomplete_reason=signature.provenance.incomplete_reason,
        instructions=signature.totals.instructions,
        notes=signature.provenance.notes,
    )


def _places(traced: Traced) -> list[Place]:
    places = [_place(traced.signature, operation_id) for operation_id in range(len(traced.signature.operations))]
    return [places[operation_id] for operation_id in traced.operation_map.tolist()]


def _place(signature: Signature, operation_id: int) -> Place:
    operation = signature.operations[operation_id]
    block = signature.blocks[operation.block_id]
    return Place(
        is_store=operation.is_store,
        offset=operation.offset,
        module=block.module,
        function=block.function,
        file=operation.file,
        line=operation.line,
        loop=block.loop_id,
        operation=operation_id,
    )
