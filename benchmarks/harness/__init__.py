"""What measurements share: programs, repeated timing, machine facts."""
