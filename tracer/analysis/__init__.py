"""From recorded counts to loops, modules and a signature, for machine code and Python alike."""
