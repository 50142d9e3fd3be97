from .records import LoopVerdict, Verdict, LoopFacts
def verdict(facts: LoopFacts) -> LoopVerdict:
    return LoopVerdict(Verdict.UNKNOWN)
